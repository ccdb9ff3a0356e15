"""The simulated device: virtual time, equal results, and what the schedule of many sessions costs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from antiphon.inference_worker.engines.minicpmo.scheduling.steps import CODES_PER_STEP
from host_time import measure
from schedule import ASSUMED, Scenario, Simulation, read_costs, row, simulate

SHORT = {"units": 6, "tokens": 6}


def test_a_session_alone_takes_the_sum_of_its_steps() -> None:
    listens = simulate(Scenario(1, speaking=0.0, **SHORT))
    steps = sum(ASSUMED[kind].of(1, 1) for kind in ("EncodeAudio", "Feed", "SampleToken"))
    assert listens.latencies(speak=True) == []
    [latency] = {round(value, 6) for value in listens.latencies(speak=False)}
    assert latency == pytest.approx(steps + 3 * ASSUMED["Advance"].of(1, 0))
    speaks = simulate(Scenario(1, **SHORT))
    assert len(speaks.device.batches["DecodeSpeech"]) == 6
    blocks = len(speaks.device.batches["DecodeCodes"])
    assert blocks == 6 * -(-25 // CODES_PER_STEP)
    assert min(speaks.latencies(speak=True)) > 25 * ASSUMED["DecodeCodes"].of(1, 1)


def test_codes_beside_other_steps_shorten_units_by_the_share_that_overlaps() -> None:
    """On one stream they delay the steps of other sessions; a session alone gains nothing."""
    scenario = Scenario(24, **SHORT)
    p99 = [
        np.percentile(simulate(replace(scenario, overlap=share)).latencies(speak=True), 99)
        for share in (None, 0.5, 1.0)
    ]
    assert p99[0] > p99[1] > p99[2]
    alone = replace(scenario, sessions=1)
    before, after = (
        max(simulate(each).latencies(speak=True)) for each in (alone, replace(alone, overlap=1.0))
    )
    assert after == pytest.approx(before, rel=0.05)


@pytest.mark.parametrize("phases", ["even", "random", "aligned"])
def test_a_scenario_gives_equal_results(phases: str) -> None:
    def run() -> Simulation:
        return simulate(Scenario(5, speaking=0.5, phases=phases, jitter_ms=30, **SHORT))  # type: ignore[arg-type]

    first, second = run(), run()
    assert row(first) == row(second)
    assert all(first.latencies(speak=speak) for speak in (True, False))


@pytest.mark.parametrize(("sessions", "speaking", "goal_ms"), [(32, 1.0, 450), (64, 0.5, 800)])
def test_sessions_that_are_spread_over_a_second_share_batches(
    sessions: int, speaking: float, goal_ms: float
) -> None:
    """The goals for the assumed costs. Padded batches miss the first one."""
    scenario = Scenario(sessions, units=8, speaking=speaking)
    assert np.percentile(simulate(scenario).latencies(speak=True), 99) < goal_ms
    if speaking == 1:
        padded = simulate(replace(scenario, ragged=False))
        assert np.percentile(padded.latencies(speak=True), 99) > goal_ms


def test_measured_costs_replace_the_assumed_ones(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text(json.dumps({"DecodeCodes": {"base": 100.0}}))
    slow = simulate(Scenario(1, **SHORT), read_costs(file))
    assert min(slow.latencies(speak=True)) > 25 / CODES_PER_STEP * 100
    assert " | 1000 | " in row(slow)


def test_an_error_of_a_session_ends_the_run() -> None:
    simulation = Simulation(Scenario(1, **SHORT), ASSUMED)
    simulation.users[0].conversation.length = 8192
    with pytest.raises(Exception, match="no room for another unit"):
        simulation.run()


def test_the_bench_of_host_time_covers_a_unit() -> None:
    total, spent = measure(sessions=2, units=1, history=20)
    assert total > 0
    assert set(spent) >= {"EncodeAudio", "Feed", "SampleToken", "SpeechCondition", "DecodeCodes"}
    assert len(spent["DecodeCodes"]) >= 25 // CODES_PER_STEP
