"""The words of a user who still speaks."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from antiphon.inference_worker.engines.local import duplex
from antiphon.inference_worker.engines.local.duplex import LocalDuplexView
from antiphon.inference_worker.engines.local.hearing import transcription
from antiphon.inference_worker.engines.local.hearing.interim import InterimText
from antiphon.inference_worker.engines.local.hearing.speech_input import SpeechInput, endpoint_rules
from antiphon.inference_worker.engines.local.hearing.transcription import Recogniser
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from support.synthetic_speech import (
    ITALY,
    STEADY,
    ask_until_speech,
    run_units,
    silence,
    spoken,
    units_of,
)

pytestmark = pytest.mark.speech

RULES = endpoint_rules(480, 1.0)


@pytest.fixture(scope="module")
def recogniser(local_engine: LocalProcessor) -> Recogniser:
    assert local_engine._models is not None
    return local_engine._models.recogniser


@pytest.fixture
def lengths(recogniser: Recogniser, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The samples of each transcription in passing. The recogniser does not rest after it.

    Units wait until it has ended: these tests speak faster than a user.
    """
    monkeypatch.setattr(duplex, "_INTERIM_SHARE", 60.0)
    monkeypatch.setattr(transcription, "_SHARE_IN_PASSING", 1.0)
    monkeypatch.setattr(recogniser, "_rests_until", 0.0)
    found: list[int] = []
    transcribe = recogniser.transcribe_in_passing

    def counted(*parts: Samples) -> list[str] | None:
        found.append(sum(map(len, parts)))
        return transcribe(*parts)

    monkeypatch.setattr(recogniser, "transcribe_in_passing", counted)
    return found


def texts_of(speech_input: SpeechInput, audio: Samples, size: int) -> list[str]:
    """The interim text after each piece of audio."""
    texts = []
    for at in range(0, len(audio), size):
        speech_input.feed(audio[at : at + size])
        texts.append(speech_input.words_so_far())
    return texts


@pytest.mark.parametrize("size", [1600, 3200, 16_000])
def test_the_words_appear_while_the_user_speaks(
    recogniser: Recogniser, lengths: list[int], size: int
) -> None:
    """At most twice per second, in units of any size. In silence, nothing is transcribed."""
    speech_input = SpeechInput(recogniser, RULES)
    assert texts_of(speech_input, silence(2.0), size) == [""] * (2 * INPUT_RATE // size)
    assert lengths == []
    question = spoken(ITALY)
    texts = texts_of(speech_input, question, size)
    assert "What" in texts[min(len(texts) - 1, INPUT_RATE // size)]
    assert "capital" in texts[-1]  # the last word may be missing
    assert 1 < len(lengths) <= 2 * len(question) / INPUT_RATE + 1
    before = len(lengths)
    assert texts_of(speech_input, silence(2.0), size)[-1] == ""
    assert len(lengths) <= before + 1


def test_the_text_of_a_likely_end_is_shown_without_another_transcription(
    recogniser: Recogniser, lengths: list[int]
) -> None:
    speech_input = SpeechInput(recogniser, RULES)
    speech_input.feed(np.concatenate([spoken(ITALY), silence(0.25)]))
    likely = speech_input.likely_utterance().text
    assert "Italy" in likely
    assert speech_input.words_so_far() == likely
    assert lengths == []


def test_a_long_speech_is_transcribed_in_parts(recogniser: Recogniser, lengths: list[int]) -> None:
    interim, speech = InterimText(recogniser), np.concatenate([spoken(ITALY)] * 5)
    text = ""
    for stop in range(INPUT_RATE, len(speech), INPUT_RATE):
        text = interim.read(0, speech[:stop])
    assert len(speech) > 9 * INPUT_RATE
    assert max(lengths) <= 6 * INPUT_RATE
    assert text.lower().count("italy") >= 4
    assert interim.read(1, speech[:1600]).lower().count("italy") == 0  # another speech


def test_a_unit_does_not_wait_long_and_the_next_one_has_the_words(recogniser: Recogniser) -> None:
    """Also not for a transcription of an utterance that has ended in the meantime."""
    speech, may_go = spoken(ITALY), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(may_go.wait)  # the pool has other work
        interim = InterimText(recogniser, pool)
        assert interim.read(0, speech, patience_s=0.01) == ""
        may_go.set()
        pool.submit(lambda: None).result()
        assert "Italy" in interim.read(0, speech)
        may_go.clear()
        pool.submit(may_go.wait)
        longer = np.concatenate([speech, speech])
        assert interim.read(0, longer, patience_s=0.01).count("Italy") == 1
        interim.learn(0, longer, "What it really was")
        may_go.set()
        pool.submit(lambda: None).result()
        assert interim.read(0, longer) == "What it really was"
        assert interim.read(7, speech[:8000]) == ""


def test_a_busy_recogniser_is_not_waited_for(recogniser: Recogniser) -> None:
    speech = spoken(ITALY)
    with recogniser._lock:
        assert recogniser.transcribe_in_passing(speech) is None
        assert InterimText(recogniser).read(0, speech) == ""


def test_the_recogniser_rests_after_interim_work_but_not_for_final_texts(
    recogniser: Recogniser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcription, "_SHARE_IN_PASSING", 1e-6)
    monkeypatch.setattr(recogniser, "_rests_until", 0.0)
    speech = spoken(ITALY)
    assert recogniser.transcribe_in_passing(speech) is not None
    assert recogniser.transcribe_in_passing(speech) is None
    assert "Italy" in recogniser.transcribe(speech).text


def test_a_session_gets_the_words_that_it_asks_for(
    view: LocalDuplexView, lengths: list[int]
) -> None:
    question = units_of(np.concatenate([spoken(ITALY), silence(2.0)]))
    assert {result.interim_user_text for result in run_units(view, question)} == {None}
    assert lengths == []
    view.prepare("", STEADY.model_copy(update={"interim_transcripts": True}))
    results = run_units(view, question)
    texts = [result.interim_user_text for result in results]
    assert any(text and "capital" in text for text in texts)
    end = next(n for n, result in enumerate(results) if "user" in result.memo)
    assert all(text == "" for text in texts[end:])
    assert all("interim" not in str(result.memo) for result in results)


def test_what_the_user_says_into_an_answer_is_shown_when_it_interrupts(
    new_view: LocalDuplexView, lengths: list[int]
) -> None:
    new_view.prepare("", DuplexConfig(**{**STEADY.model_dump(), "interim_transcripts": True}))
    before = ask_until_speech(new_view, "Tell me a story about a dog and a cat who live on a farm.")
    assert not before[-1].end_of_turn
    asked = len(lengths)
    first, *rest = run_units(new_view, units_of(spoken(ITALY, lead_s=0.0)))
    assert (first.is_listen, first.interim_user_text) == (True, "")
    assert "Italy" in str([result.interim_user_text or result.memo for result in rest])
    assert len(lengths) - asked <= len(rest)
