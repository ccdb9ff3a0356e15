"""The simulated device: virtual time, equal results, and what the schedule of many sessions costs."""

import json
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from antiphon.inference_worker.engines.minicpmo.conversations import speech_output
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import CODES_BESIDE, CODES_PER_STEP
from host_time import measure
from schedule import MOST_TOKENS, Scenario, Simulation, percentile, row, simulate
from simulated_device import ASSUMED, CONTEXT_TOKENS, Gpu, read_costs, with_context

SHORT = {"units": 6, "tokens": 6}


def test_a_session_alone_takes_the_sum_of_its_steps() -> None:
    listens = simulate(Scenario(1, speaking=0.0, **SHORT))
    steps = sum(
        ASSUMED[kind].of(1, 1) for kind in ("EncodeAudio", "Feed", "ReadCache", "SampleToken")
    )
    assert listens.latencies(speak=True) == []
    [latency] = {round(value, 6) for value in listens.latencies(speak=False)}
    assert latency == pytest.approx(steps + 3 * ASSUMED["Host"].of(1, 0))
    speaks = simulate(Scenario(1, speech_stream=False, **SHORT))
    assert len(speaks.device.batches["DecodeSpeech"]) == 6
    blocks = len(speaks.device.batches["DecodeCodes"])
    assert blocks == 6 * -(-25 // CODES_PER_STEP)
    assert min(speaks.latencies(speak=True)) > 25 * ASSUMED["DecodeCodes"].of(1, 1)


@pytest.mark.parametrize(("others", "took_ms"), [(0, 12.0), (1, 16.0), (2, 24.0)])
def test_streams_share_the_gpu(others: int, took_ms: float) -> None:
    """Two that overlap by half do 1.5 times the work of one; three do no more."""
    gpu, ended = Gpu(overlap=0.5), list[str]()
    names = ("codes", "vocoder")[:others]
    for name in names:
        gpu.start(name, 100.0, partial(ended.append, name))
    gpu.at(3.0, partial(ended.append, "event"))
    gpu.compute(12.0)
    assert gpu.now == pytest.approx(took_ms)
    assert ended == ["event"]
    for name in names:
        gpu.finish(name)
    assert ended == ["event", *names]


def test_the_gpu_has_no_work_of_the_language_model_while_the_host_works() -> None:
    idle = Gpu(overlap=0.5)
    idle.start("vocoder", 10.0)
    idle.wait(4.0)
    idle.compute(9.0)
    assert idle.now == pytest.approx(4.0 + 6.0 / 0.75 + 3.0)


USUAL = Scenario(12, units=6, speaking=0.5)


@cache
def usual_ms() -> float:
    p99: float = percentile(simulate(USUAL), 99)
    return p99


@pytest.mark.parametrize(
    "change",
    [
        {"context": 16384},
        {"overlap": 0.0},
        {"host": 2.0},
        {"tokens": 19},
        {"pictures": True},
        {"answers": 1},
        {"prompts": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_term_delays_units(change: dict[str, Any]) -> None:
    costs = with_context(ASSUMED, change.pop("context", CONTEXT_TOKENS))
    costs["Host"] = replace(costs["Host"], base=change.pop("host", 0.5))
    changed = simulate(replace(USUAL, **change), costs)
    assert percentile(changed, 99) > usual_ms() + 1
    assert len(changed.prompt_ms) == pytest.approx(6 * changed.scenario.prompts, abs=1)
    assert all(one.late_ms for one in changed.speakers)


def test_codes_beside_other_steps_shorten_units_by_the_share_that_overlaps() -> None:
    """On one stream they delay the steps of other sessions; a session alone gains nothing."""
    scenario = Scenario(24, **SHORT)
    p99 = [percentile(simulate(replace(scenario, overlap=share)), 99) for share in (0.5, 1.0)]
    one_stream = percentile(simulate(replace(scenario, speech_stream=False)), 99)
    assert one_stream > p99[0] > p99[1]


@pytest.mark.parametrize("phases", ["even", "random", "aligned"])
def test_a_scenario_gives_equal_results(phases: str) -> None:
    def run() -> Simulation:
        return simulate(Scenario(5, speaking=0.5, phases=phases, jitter_ms=30, **SHORT))  # type: ignore[arg-type]

    first, second = run(), run()
    assert row(first) == row(second)
    assert all(first.latencies(speak=speak) for speak in (True, False))


def test_pictures_of_64_sessions_do_not_delay_units_beyond_the_goal() -> None:
    scenario = Scenario(64, units=8, tokens=MOST_TOKENS, speaking=0.5, pictures=True)
    assert percentile(simulate(scenario), 99) < 650


def test_a_long_prompt_rides_along_with_the_units() -> None:
    """In portions of 1024 tokens, which ran alone, it raised the slowest units by half."""
    usual = Scenario(32, units=8, tokens=MOST_TOKENS, speaking=0.5)
    prompted = simulate(replace(usual, prompts=1))
    assert percentile(prompted, 99) < 1.2 * percentile(simulate(usual), 99)
    assert max(prompted.prompt_ms) < 1000


@pytest.mark.parametrize(("sessions", "speaking", "goal_ms"), [(32, 1.0, 400), (64, 0.5, 450)])
def test_sessions_that_are_spread_over_a_second_share_batches(
    sessions: int, speaking: float, goal_ms: float
) -> None:
    """The goals for the assumed costs. Padded batches miss the first one."""
    scenario = Scenario(sessions, units=8, tokens=MOST_TOKENS, speaking=speaking)
    assert percentile(simulate(scenario), 99) < goal_ms
    if speaking == 1:
        assert percentile(simulate(replace(scenario, ragged=False)), 99) > goal_ms


def test_a_spoken_chat_answer_gives_way_to_units_and_is_never_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario(32, units=8, tokens=MOST_TOKENS, speaking=0.5, answers=1)
    answered = simulate(scenario)
    assert percentile(answered, 99) < 500
    [speaker] = answered.speakers
    assert max(speaker.late_ms) <= 0
    monkeypatch.setattr(speech_output, "LEAD_SECONDS", 1e9)
    assert percentile(simulate(scenario), 50) > percentile(answered, 50) + 10


def test_measured_costs_replace_the_assumed_ones(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text(json.dumps({"DecodeCodes": {"base": 100.0}}))
    slow = simulate(Scenario(1, **SHORT), read_costs(file))
    assert min(slow.latencies(speak=True)) > 25 * 100
    assert " | 1000 | " in row(slow)


def test_an_error_of_a_session_ends_the_run() -> None:
    simulation = Simulation(Scenario(1, **SHORT), ASSUMED)
    simulation.users[0].conversation.length = 8192
    with pytest.raises(Exception, match="no room for another unit"):
        simulation.run()


def test_the_bench_of_host_time_covers_a_unit() -> None:
    total, spent = measure(Scenario(2, units=4))
    assert total > 0
    assert set(spent) >= {"EncodeAudio", "Feed", "SampleToken", "SpeechCondition", "DecodeCodes"}
    assert len(spent["DecodeCodes"]) >= 25 // CODES_BESIDE
