"""A change of the detector's settings while the user speaks, with real speech and the real detector."""

import numpy as np
import pytest
import soxr

from antiphon.inference_worker.sessions.turns.listening import Listener, SpeechEdge
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from antiphon.shared_schemas.config import VadConfig
from support.speech import transcribe
from support.synthetic_speech import ITALY, cough, silence, spoken

pytestmark = pytest.mark.speech

FIRST = VadConfig(threshold=0.5, min_silence_duration_ms=500, speech_pad_ms=300)
QUESTION = np.concatenate([spoken(ITALY, lead_s=0.6), silence(1.5)])
MIDDLE = int(1.4 * INPUT_RATE)
"""The user has begun to speak."""


def hear(listener: Listener, sound: Samples) -> list[SpeechEdge]:
    size = INPUT_RATE // 10
    return [
        edge for at in range(0, len(sound), size) for edge in listener.hear(sound[at : at + size])
    ]


def configured(config: VadConfig | None) -> Listener:
    listener = Listener()
    listener.configure(config)
    return listener


def words_of(sound: Samples) -> str:
    return transcribe(soxr.resample(sound, INPUT_RATE, OUTPUT_RATE))


def assert_one_utterance(edges: list[SpeechEdge]) -> None:
    """Of the whole question, at the same time as without a change."""
    began, ended = edges
    expected_began, expected = hear(configured(FIRST), QUESTION)
    assert began.audio is None
    assert began.at_ms == pytest.approx(expected_began.at_ms, abs=100)
    assert ended.audio is not None
    assert expected.audio is not None
    assert ended.at_ms == pytest.approx(expected.at_ms, abs=200)
    assert len(ended.audio) == pytest.approx(len(expected.audio), abs=0.5 * INPUT_RATE)
    assert words_of(ended.audio) == words_of(expected.audio)


@pytest.mark.parametrize(
    "then",
    [
        VadConfig(threshold=0.5, min_silence_duration_ms=700, speech_pad_ms=300),
        VadConfig(threshold=0.5, min_silence_duration_ms=400, speech_pad_ms=300),
        VadConfig(threshold=0.4, min_silence_duration_ms=500, speech_pad_ms=100),
    ],
    ids=["more silence", "less silence", "another level"],
)
@pytest.mark.parametrize("at", [MIDDLE, MIDDLE + INPUT_RATE // 3])
def test_speech_goes_on_with_other_settings(then: VadConfig, at: int) -> None:
    listener = configured(FIRST)
    edges = hear(listener, QUESTION[:at])
    edges += listener.configure(then)
    assert listener.speaking
    assert_one_utterance([*edges, *hear(listener, QUESTION[at:])])


def test_a_change_in_the_pause_after_the_speech_ends_it_as_early_as_the_new_settings_say() -> None:
    listener = configured(FIRST)
    end = len(QUESTION) - int(1.2 * INPUT_RATE)
    edges = hear(listener, QUESTION[:end])
    edges += listener.configure(FIRST.model_copy(update={"min_silence_duration_ms": 64}))
    assert_one_utterance(edges)
    assert not listener.speaking
    assert hear(listener, QUESTION[end:]) == []


def test_what_was_said_before_push_to_talk_is_committed() -> None:
    listener = configured(FIRST)
    began = hear(listener, QUESTION[:MIDDLE])
    assert listener.configure(None) == []
    assert not listener.speaking
    assert hear(listener, QUESTION[MIDDLE:]) == []
    audio = listener.commit()
    assert audio is not None
    assert_one_utterance([*began, SpeechEdge(listener.samples // 16 - 1500, audio[:-INPUT_RATE])])


def test_what_was_said_during_push_to_talk_is_heard_by_the_detector() -> None:
    listener = Listener()
    hear(listener, QUESTION[:MIDDLE])
    edges = listener.configure(FIRST)
    assert_one_utterance([*edges, *hear(listener, QUESTION[MIDDLE:])])


def test_speech_is_announced_once_if_the_detector_is_off_for_a_moment() -> None:
    listener = configured(FIRST)
    edges = hear(listener, QUESTION[:MIDDLE])
    edges += listener.configure(None)
    edges += listener.configure(FIRST)
    assert_one_utterance([*edges, *hear(listener, QUESTION[MIDDLE:])])


def test_speech_that_the_new_detector_does_not_hear_ends() -> None:
    listener = configured(FIRST)
    began = hear(listener, QUESTION[:MIDDLE])
    strict = FIRST.model_copy(update={"min_speech_duration_ms": 10_000})
    [ended] = listener.configure(strict)
    assert len(began) == 1
    assert ended.audio is not None
    assert not listener.speaking
    assert listener.commit() is None


def test_what_is_said_during_an_answer_is_kept() -> None:
    listener = configured(FIRST)
    listener.guard(None)
    at = INPUT_RATE // 10
    assert listener.hear(QUESTION[:at], in_answer=True) == []
    for begin in range(at, MIDDLE, at):
        listener.hear(QUESTION[begin : begin + at], in_answer=True)
    listener.configure(None)
    hear(listener, QUESTION[MIDDLE:])
    audio = listener.commit()
    assert audio is not None
    assert "Italy" in words_of(audio)


def test_silence_and_other_sounds_are_not_announced_by_a_change() -> None:
    listener = configured(FIRST)
    hear(listener, np.concatenate([silence(0.5), cough(), silence(1.0)]))
    for config in (FIRST.model_copy(update={"threshold": 0.7}), None, FIRST):
        assert listener.configure(config) == []
    assert not listener.speaking
