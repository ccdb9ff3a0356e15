import threading

import numpy as np
import pytest

from antiphon.inference_worker.engines.simulated import SimulatedOptions, SimulatedProcessor
from antiphon.inference_worker.engines.types import PastUnit
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.unit_result import UnitResult

SECOND = np.zeros(16_000, dtype=np.float32)
FAST = SimulatedOptions(
    slots=2,
    prepare_ms=0,
    prefill_ms=0,
    listen_ms=0,
    speak_ms=0,
    finalize_ms=0,
    speak_ratio=0.5,
    cycle_units=4,
)
EAGER = DuplexConfig(force_listen_count=0)


def session(options: SimulatedOptions = FAST, config: DuplexConfig = EAGER):  # noqa: ANN201
    view = SimulatedProcessor(options).set_duplex_mode()
    view.prepare("be quiet", config)
    return view


def run(view, units: int, **kwargs: bool) -> list[UnitResult]:  # noqa: ANN001
    results = []
    for _ in range(units):
        view.prefill(SECOND)
        results.append(view.generate(**kwargs))
        view.finalize()
    return results


def test_it_alternates_between_listening_and_speaking_and_is_marked_as_simulated() -> None:
    results = run(session(), 8)
    assert [result.is_listen for result in results] == [True, True, False, False] * 2
    assert [result.end_of_turn for result in results] == [False, False, False, True] * 2
    assert all(result.simulated for result in results)
    assert results[2].text == "unit 3"
    assert results[3].text == " unit 4"
    assert [result.current_time for result in results[:2]] == [1000, 2000]


def test_audio_is_a_quiet_tone_as_long_as_the_unit() -> None:
    spoken = run(session(), 3)[2]
    assert spoken.audio.shape == (24_000,)
    assert spoken.audio.dtype == np.float32
    assert 0.01 < np.abs(spoken.audio).max() < 0.1
    silent = run(session(config=DuplexConfig(force_listen_count=0, generate_audio=False)), 3)[2]
    assert not silent.is_listen
    assert silent.audio.size == 0


@pytest.mark.parametrize(("ratio", "spoken"), [(0.0, 0), (1.0, 8), (0.25, 2)])
def test_speak_ratio(ratio: float, spoken: int) -> None:
    results = run(session(FAST.model_copy(update={"speak_ratio": ratio})), 8)
    assert sum(not result.is_listen for result in results) == spoken


def test_it_listens_when_forced() -> None:
    view = session(config=DuplexConfig(force_listen_count=4))
    assert all(result.is_listen for result in run(view, 4))
    assert not run(view, 1)[0].is_listen
    assert run(view, 1, force_listen=True)[0].is_listen


def test_an_interrupted_cycle_begins_again() -> None:
    view = session()
    run(view, 3)
    assert run(view, 1, force_listen=True)[0].is_listen
    assert [result.is_listen for result in run(view, 4)] == [True, True, False, False]


def test_replay_continues_the_cycle() -> None:
    whole = run(session(), 8)
    successor = session()
    successor.replay(
        [
            PastUnit(
                audio=SECOND,
                is_listen=result.is_listen,
                text=result.text,
                end_of_turn=result.end_of_turn,
                memo=result.memo,
            )
            for result in whole[:3]
        ]
    )
    for ours, theirs in zip(run(successor, 5), whole[3:], strict=True):
        assert (ours.is_listen, ours.text, ours.current_time) == (
            theirs.is_listen,
            theirs.text,
            theirs.current_time,
        )


def test_stop_ends_a_step_in_progress() -> None:
    view = session(FAST.model_copy(update={"listen_ms": 600_000.0}))
    view.prefill(SECOND)
    worker = threading.Thread(target=view.generate)
    worker.start()
    view.stop()
    worker.join(timeout=60)
    assert not worker.is_alive()
