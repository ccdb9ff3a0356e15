"""Codes on a stream of their own: what is ordered, what runs beside them, and that nothing else changes."""

import random
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import SpeechContext
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import (
    Engine,
    EngineJob,
    StepAbandoned,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import CodeRow, SpeechSettings
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_BESIDE,
    CODES_PER_STEP,
    ClearSlot,
    DecodeSpeech,
    EngineStep,
    Feed,
    Steps,
)
from antiphon.inference_worker.engines.types import EngineError
from support.minicpmo.network_parts import runner_of, speaks_beside_another
from support.minicpmo.stream_order import ordered_streams

ROW = CodeRow(SpeechSettings(), (), may_end=True)
CONDITION = torch.zeros(1, 4)


def test_codes_wait_for_their_condition_and_for_nothing_else(
    network: MiniCPMO, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = speaks_beside_another(runner_of(network, tokenizer, slots=3, speech_stream=False))
    with ordered_streams(monkeypatch):
        got = speaks_beside_another(runner_of(network, tokenizer, slots=3, speech_stream=True))
    assert got == want
    with (
        ordered_streams(monkeypatch, left_out="wait_event"),
        pytest.raises(AssertionError, match="reads what another stream writes"),
    ):
        speaks_beside_another(runner_of(network, tokenizer, slots=3, speech_stream=True))


def test_the_memory_of_graphs_is_not_shared_by_streams(
    network: MiniCPMO, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ordered_streams(monkeypatch):
        one, two = (
            runner_of(network, tokenizer, slots=3, speech_stream=on) for on in (False, True)
        )
    assert one._codes._graphs is one._speech._graphs is one.graphs
    assert two._codes._graphs is two._speech._graphs is not two.graphs
    assert two._text._graphs is two._audio._graphs is two.graphs


def test_sessions_say_the_same_on_one_stream_and_on_two(
    network: MiniCPMO, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sessions at once, whose codes are drawn two or five at a time."""

    def spoken(engine: Engine) -> list[list[int]]:
        def codes(slot: int) -> Steps[list[int]]:
            speech = SpeechContext(
                slot=slot,
                capacity=256,
                end_code=network.config.tts_config.end_code,
                settings=SpeechSettings(),
                rng=random.Random(slot),
                codes_per_step=engine.codes_per_step,
            )
            said = list[int]()
            for start in range(2):
                fed = yield Feed(slot, start, ((10 + slot,),))
                said += yield from speech.generate_codes([10 + slot], [fed.hidden], may_end=True)
            return said

        futures = [engine.submit(EngineJob(codes(slot))) for slot in range(3)]
        try:
            return [future.result(60) for future in futures]
        finally:
            engine.close()

    one = Engine(runner_of(network, tokenizer, slots=3, speech_stream=False))
    assert one.codes_per_step == CODES_PER_STEP
    want = spoken(one)
    with ordered_streams(monkeypatch):
        two = Engine(runner_of(network, tokenizer, slots=3, speech_stream=True))
        assert two.codes_per_step == CODES_BESIDE
        assert spoken(two) == want
    assert max(map(len, want)) > CODES_BESIDE


class ScriptedCodes:
    def __init__(self, steps: Sequence[EngineStep], is_ready: Callable[[], bool]) -> None:
        self.steps, self.is_ready = steps, is_ready

    def read(self) -> list[int]:
        if self.steps[0].slot == 2:  # type: ignore[attr-defined]
            raise RuntimeError("no memory left")
        return [7] * len(self.steps)


class ScriptedRunner:
    """Codes are ready after three other batches. `ran` are the batches in order, by type and slots."""

    slots, ragged, starts_codes = 4, False, True

    def __init__(self) -> None:
        self.ran: list[tuple[str, list[int]]] = []

    def enter_thread(self) -> None: ...

    def is_device_lost(self) -> bool:
        return False

    def note(self, steps: Sequence[Any]) -> None:
        self.ran.append((type(steps[0]).__name__, [step.slot for step in steps]))

    def run(self, steps: Sequence[EngineStep]) -> list[None]:
        self.note(steps)
        return [None] * len(steps)

    def start(self, steps: Sequence[EngineStep]) -> ScriptedCodes:
        self.note(steps)
        others = len(self.ran) + 3
        return ScriptedCodes(steps, lambda: len(self.ran) >= others)


def speech(slot: int) -> Steps[int]:
    code: int = yield DecodeSpeech(slot, 0, CONDITION, ROW)
    return code


def text(slot: int, count: int) -> Steps[str]:
    for n in range(count):
        yield Feed(slot, n, ((5,),))
    return "said"


def all_at_once(works: Sequence[Steps[Any]]) -> tuple[ScriptedRunner, list[Any]]:
    """Run generators that an engine gets together; their results, or exceptions."""
    runner = ScriptedRunner()
    engine = Engine(cast("ModelRunner", runner))
    futures: list[Any] = []

    def submit() -> Steps[None]:
        futures.extend(engine.submit(EngineJob(work)) for work in works)
        yield ClearSlot(3)

    engine.run(submit())
    results = [future.exception(30) or future.result() for future in futures]
    engine.close()
    return runner, results


class StoppedBetween(EngineJob):
    """Another thread abandons the job after its engine has asked so many times."""

    def __init__(self, work: Steps[Any], asks: int) -> None:
        super().__init__(work)
        self.asks = asks

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "abandoned":
            self.asks -= 1
            self.abandoned = self.asks <= 0
        return value


@pytest.mark.parametrize("asks", [1, 2, 3, 4])
def test_a_job_ends_whenever_its_session_stops(asks: int) -> None:
    engine = Engine(cast("ModelRunner", ScriptedRunner()))
    with pytest.raises(StepAbandoned):
        engine.submit(StoppedBetween(text(0, 9), asks)).result(10)
    engine.close()


def kinds(runner: ScriptedRunner) -> list[str]:
    """Of the batches in order."""
    return [kind for kind, _ in runner.ran if kind != "ClearSlot"]


def test_other_steps_run_until_codes_are_ready() -> None:
    runner, results = all_at_once([speech(0), text(1, 5), speech(0)])
    assert results == [7, "said", 7]
    assert kinds(runner) == ["DecodeSpeech", *["Feed"] * 5]
    assert runner.ran[0] == ("DecodeSpeech", [0, 0])


def test_codes_wait_for_those_that_are_drawn() -> None:
    """One batch at a time, the next one before other steps; without other work, the engine waits for it."""

    def long(slot: int) -> Steps[int]:
        for n in range(3):
            yield DecodeSpeech(slot, n, CONDITION, ROW)
        return 7

    runner, results = all_at_once([long(0), text(1, 4)])
    assert results == [7, "said"]
    assert kinds(runner) == [*["DecodeSpeech", "Feed", "Feed"] * 2, "DecodeSpeech"]


def test_codes_that_fail_end_their_sessions_only() -> None:
    _, [failed, said, spoke] = all_at_once([speech(2), text(1, 4), text(0, 1)])
    assert isinstance(failed, EngineError)
    assert "no memory left" in str(failed)
    assert (said, spoke) == ("said", "said")


def test_closing_answers_a_session_whose_codes_are_drawn() -> None:
    runner = ScriptedRunner()
    engine = Engine(cast("ModelRunner", runner))

    def closes() -> Steps[None]:
        yield ClearSlot(3)
        while not any(kind == "DecodeSpeech" for kind, _ in runner.ran):
            yield Feed(1, 0, ((5,),))
        engine._stop_accepting()
        yield Feed(1, 0, ((5,),))

    futures = [engine.submit(EngineJob(work)) for work in (closes(), speech(0))]
    for future in futures:
        with pytest.raises(EngineError, match="the engine is closed"):
            future.result(30)
    engine.close()
