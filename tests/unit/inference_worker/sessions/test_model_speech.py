"""Which results cut an answer, and what waits for a voice."""

import numpy as np

from antiphon.inference_worker.engines.types import PastUnit
from antiphon.inference_worker.sessions.model_speech import ModelSpeech
from antiphon.shared_schemas.unit_result import UnitResult

LISTEN = UnitResult(is_listen=True)


def speaks(text: str, *, last: bool = False) -> UnitResult:
    return UnitResult(
        is_listen=False, text=text, audio=np.ones(24000, np.float32), end_of_turn=last
    )


def cuts(*units: UnitResult, forced: bool = False) -> list[bool]:
    """Whether each unit of a second cuts the answer before; `forced` is the last one."""
    speech, found = ModelSpeech(), []
    for number, unit in enumerate(units, 1):
        speech.add(unit, 1000.0 * number, forced=forced and number == len(units))
        found.append(speech.interrupted)
    return found


def test_a_unit_that_listens_cuts_an_answer_that_is_not_complete() -> None:
    assert cuts(LISTEN, speaks("a"), LISTEN, LISTEN) == [False, False, True, False]
    assert cuts(speaks("a"), speaks("b", last=True), LISTEN) == [False] * 3


def test_a_complete_answer_is_cut_while_it_is_played() -> None:
    assert cuts(speaks("a", last=True), LISTEN, forced=True) == [False, True]
    assert cuts(speaks("a", last=True), LISTEN, LISTEN, forced=True) == [False] * 3


def test_another_worker_knows_that_an_answer_was_open() -> None:
    speech = ModelSpeech()
    speech.resume(PastUnit(audio=None, is_listen=False, text="a", end_of_turn=False), 5000.0)
    speech.add(LISTEN, 6000.0)
    assert speech.interrupted


def test_words_wait_for_a_voice_and_follow_it_or_are_dropped() -> None:
    speech = ModelSpeech()
    held = [speech.add(speaks(text), 200.0, holds=True) for text in (" a", " b")]
    assert [(unit.text, len(unit.audio), unit.is_listen) for unit in held] == [("", 0, False)] * 2
    after = speech.add(speaks(" c"), 600.0)
    assert (after.text, len(after.audio)) == (" a b c", 72000)
    speech.add(speaks(" d"), 800.0, holds=True)
    speech.add(LISTEN, 1000.0)
    assert speech.add(speaks("e"), 1200.0).text == "e"


def test_the_last_unit_of_an_answer_does_not_wait() -> None:
    speech = ModelSpeech()
    speech.add(speaks("a"), 200.0, holds=True)
    assert speech.add(speaks(" b", last=True), 400.0, holds=True).text == "a b"
