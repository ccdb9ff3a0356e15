"""Half-duplex sessions with the local engine's real models."""

from collections.abc import Iterator

import numpy as np
import pytest

from antiphon.inference_worker.engines.local import models
from antiphon.inference_worker.engines.local.answer import FixedText
from antiphon.inference_worker.engines.local.guard.answer_guard import CLOSING
from antiphon.inference_worker.engines.local.half_duplex import LocalHalfDuplexView
from antiphon.inference_worker.engines.local.hearing.transcription import pieces_of
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.remote.faults import UNREACHABLE
from antiphon.inference_worker.engines.local.rules.answer import ENGLISH_ONLY
from antiphon.inference_worker.engines.local.voices.catalogue import ESPEAK
from antiphon.inference_worker.engines.types import (
    ContextFull,
    Delta,
    EngineError,
    UnsupportedContent,
)
from antiphon.inference_worker.engines.types import PastTurn as Past
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.config import GenerationConfig, HalfDuplexConfig, TtsConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Role,
    TextPart,
)
from support.llm_server import MODEL, refuses, says, scripted_server
from support.pictures import photograph
from support.redis_server import wait_until
from support.speech import share_recognised, transcribe
from support.synthetic_speech import ITALY, PERSONA, silence, spoken

pytestmark = pytest.mark.speech

AND_GERMANY = "And what about Germany?"
STORY = "Tell me a long story about a cat."
SYSTEM = ConversationMessage(Role.SYSTEM, (TextPart("You are a helpful assistant."),))
NAMED = ConversationMessage(Role.SYSTEM, (TextPart(PERSONA),))


def config(*, speak: bool = True, tokens: int = 60) -> HalfDuplexConfig:
    generation = GenerationConfig(temperature=0.0, max_new_tokens=tokens)
    return HalfDuplexConfig(generation=generation, tts=TtsConfig(enabled=speak, voice=ESPEAK))


@pytest.fixture
def new_view(local_engine: LocalProcessor) -> Iterator[LocalHalfDuplexView]:
    """A session that is not prepared: to read a prompt takes most of a second."""
    session = local_engine.set_half_duplex_mode()
    yield session
    session.cleanup()


@pytest.fixture
def view(new_view: LocalHalfDuplexView) -> LocalHalfDuplexView:
    new_view.prepare(SYSTEM, config(speak=False))
    return new_view


@pytest.fixture
def other_view(local_engine: LocalProcessor) -> Iterator[LocalHalfDuplexView]:
    session = local_engine.set_half_duplex_mode()
    yield session
    session.cleanup()


def answer(view: LocalHalfDuplexView, question: str) -> list[Delta]:
    view.prefill(spoken(question))
    return list(view.generate())


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def test_two_spoken_turns_of_which_the_second_needs_the_first(
    new_view: LocalHalfDuplexView,
) -> None:
    prompt = new_view.prepare(NAMED, config())
    first = answer(new_view, ITALY)
    assert "Rome" in text_of(first)
    assert "Italy" in new_view.memo()["user"]
    after_first = new_view.kv_cache_length
    second = answer(new_view, AND_GERMANY)
    assert "Berlin" in text_of(second)
    assert prompt < after_first < new_view.kv_cache_length
    for deltas in (first, second):
        sound = np.concatenate([delta.audio for delta in deltas])
        assert share_recognised(text_of(deltas), transcribe(sound)) >= 0.6
        assert sum(delta.n_tokens for delta in deltas) >= len(text_of(deltas).split())


def test_speech_in_another_language_is_not_answered_by_the_language_model(
    view: LocalHalfDuplexView,
) -> None:
    view.prefill(spoken("Wer hat Faust geschrieben?", voice="de+Hugo"))
    assert text_of(list(view.generate())) == ENGLISH_ONLY
    assert "Rome" in text_of(answer(view, ITALY))


def test_the_wait_depends_on_what_was_said(view: LocalHalfDuplexView) -> None:
    whole, half = spoken(ITALY), spoken("What do you know about")
    assert view.patience(whole) < 1.0 < view.patience(half) <= view.longest_patience
    assert view.patience(silence(0.5)) == 1.0
    assert view._prepared_dialogue().messages()[1:] == []


GREETING = "Good morning and welcome! How can I help you with your questions?"


def greeted(view: LocalHalfDuplexView) -> None:
    view.prepare(SYSTEM, config().model_copy(update={"greeting": GREETING}))


def test_a_greeting_is_spoken_and_remembered(
    new_view: LocalHalfDuplexView, other_view: LocalHalfDuplexView
) -> None:
    first, second = new_view, other_view
    greeted(first)
    clauses = list(first.greet(""))
    assert len(clauses) > 1
    assert text_of(clauses) == GREETING
    sound = np.concatenate([clause.audio for clause in clauses])
    assert share_recognised(GREETING, transcribe(sound)) >= 0.6
    assert GREETING in first._prepared_dialogue().messages()[0]["content"]
    assert "Rome" in text_of(answer(first, ITALY))
    greeted(second)
    said = clauses[0].text
    assert said + text_of(list(second.greet(said))) == GREETING
    assert GREETING in second._prepared_dialogue().messages()[0]["content"]


def test_without_speech_the_text_arrives_word_by_word(new_view: LocalHalfDuplexView) -> None:
    new_view.prepare(NAMED, config(speak=False))
    deltas = answer(new_view, ITALY)
    assert len(deltas) > 4
    assert [delta.text.count(" ") for delta in deltas] == [0] + [1] * (len(deltas) - 1)
    assert all(delta.n_tokens > 0 for delta in deltas)
    assert not any(len(delta.audio) for delta in deltas)


def test_a_clause_is_spoken_while_the_rest_is_generated(new_view: LocalHalfDuplexView) -> None:
    new_view.prepare(SYSTEM, config(tokens=30))
    spoken_answer = answer(new_view, STORY)
    assert len(spoken_answer) > 1
    assert all(len(delta.audio) for delta in spoken_answer if any(map(str.isalnum, delta.text)))
    new_view.prepare(SYSTEM, config(speak=False, tokens=30))
    assert text_of(answer(new_view, STORY)) == text_of(spoken_answer)


def test_the_answer_to_a_goodbye_is_marked_on_request(view: LocalHalfDuplexView) -> None:
    assert text_of(answer(view, "See you later.")).endswith("It was nice to talk with you.")
    assert "goodbye" not in view.memo()
    view.prepare(SYSTEM, config(speak=False).model_copy(update={"end_on_goodbye": True}))
    answer(view, "Hello.")
    assert "goodbye" not in view.memo()
    answer(view, "See you later.")
    assert view.memo()["goodbye"] is True
    view.interrupted(100.0)
    assert "goodbye" not in view.memo()


def test_a_spoken_answer_ends_with_the_sentence_in_which_it_gets_too_long(
    view: LocalHalfDuplexView, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = ["Rome is in Italy. ", "Bees make honey. ", "Cats like fish. ", "Dogs can bark. "]
    text, voice = "".join(sentences), TtsConfig(voice=ESPEAK)
    first = len(next(iter(view._speak(FixedText(sentences[0]), voice))).audio)
    monkeypatch.setattr(LocalHalfDuplexView, "_longest_s", 1.2 * first / OUTPUT_RATE)
    said = view._speak(FixedText(text), voice)
    assert text_of(list(said)).strip() == "".join(sentences[:2]).strip()
    assert not said.ended
    shown = view._speak(FixedText(text), TtsConfig(enabled=False))
    assert text_of(list(shown)) == text


@pytest.mark.parametrize("speak", [False, True])
def test_an_answer_by_rule_may_repeat_itself(view: LocalHalfDuplexView, *, speak: bool) -> None:
    text = "Hello, hello, hello, hello, hello, hello, hello, hello, hello, hello!"
    voice = TtsConfig(voice=ESPEAK, enabled=speak)
    assert text_of(list(view._speak(FixedText(text), voice))) == text
    obscene = text_of(list(view._speak(FixedText("Nice to meet you, Fucker."), voice)))
    assert obscene == f"Nice to meet you, {CLOSING}"


def test_a_break_keeps_the_spoken_text(view: LocalHalfDuplexView) -> None:
    view.prefill(spoken(STORY))
    deltas = view.generate()
    spoken_part = [next(deltas) for _ in range(5)]
    view.set_break()
    assert list(deltas) == []
    assert text_of(spoken_part) in str(view._prepared_dialogue().messages())
    assert "Rome" in text_of(answer(view, ITALY))


def test_a_stop_is_final(view: LocalHalfDuplexView) -> None:
    view.prefill(spoken(STORY))
    deltas = view.generate()
    next(deltas)
    view.stop()
    assert list(deltas) == []
    assert answer(view, ITALY) == []


def test_audio_without_a_word_is_no_turn(view: LocalHalfDuplexView) -> None:
    view.prefill(silence(0.0))
    assert list(view.generate()) == []
    assert view.memo() == {}


def test_another_worker_has_the_turns(
    view: LocalHalfDuplexView, other_view: LocalHalfDuplexView
) -> None:
    spoken_part = text_of(answer(view, ITALY))
    other_view.prepare(SYSTEM, config(speak=False))
    other_view.replay([Past(audio=None, text=spoken_part, memo=view.memo())])
    assert other_view.kv_cache_length >= view.kv_cache_length - 2
    assert "Berlin" in text_of(answer(other_view, AND_GERMANY))


@pytest.mark.parametrize("played_ms", [0.0, 1500.0])
def test_another_worker_goes_on_with_an_interrupted_answer(
    new_view: LocalHalfDuplexView, other_view: LocalHalfDuplexView, played_ms: float
) -> None:
    first, second = new_view, other_view
    for view in (first, second):
        view.prepare(SYSTEM, config().model_copy(update={"barge_in": True}))
    whole = text_of(answer(first, "What can you do?"))
    memo = first.memo()
    assert memo["answer"] == whole
    first.interrupted(played_ms)
    dialogue = first._prepared_dialogue()
    played = whole.removesuffix(f" {dialogue.rest_of_cut_answer}") if played_ms else ""
    second.replay([Past(audio=None, text=played, memo=memo, cut=True)])
    restored = second._prepared_dialogue()
    assert restored.rest_of_cut_answer == dialogue.rest_of_cut_answer
    assert restored.messages() == dialogue.messages()
    if played:
        assert text_of(answer(second, "Please continue.")) == dialogue.rest_of_cut_answer


def test_an_interrupted_answer_of_a_worker_that_stored_only_its_transcript(
    view: LocalHalfDuplexView,
) -> None:
    said, memo = "A, B, C,", {"user": "Say the alphabet."}
    view.replay([Past(audio=None, text=said, memo=memo, cut=True)])
    assert view._prepared_dialogue().rest_of_cut_answer == ""
    assert view._prepared_dialogue().messages()[2]["content"] == said


def test_only_an_answer_that_may_be_interrupted_is_stored(view: LocalHalfDuplexView) -> None:
    answer(view, "What can you do?")
    assert list(view.memo()) == ["user"]
    view.prepare(SYSTEM, config(speak=False).model_copy(update={"barge_in": True}))
    answer(view, "What can you do?")
    view.prefill(silence(0.0))
    assert list(view.generate()) == []
    assert view.memo() == {}


def test_a_turn_without_a_transcript_is_transcribed_again(view: LocalHalfDuplexView) -> None:
    view.replay([Past(audio=spoken(ITALY), text="The capital of Italy is Rome.")])
    assert "Italy" in view._prepared_dialogue().messages()[1]["content"]


def test_another_worker_finishes_the_answer(
    view: LocalHalfDuplexView, other_view: LocalHalfDuplexView
) -> None:
    deltas = answer(view, ITALY)
    spoken_part, rest = text_of(deltas[:3]), text_of(deltas[3:])
    other_view.prepare(SYSTEM, config(speak=False))
    other_view.prefill(spoken(ITALY))
    assert text_of(list(other_view.resume(spoken_part))) == rest
    assert other_view._prepared_dialogue().messages() == view._prepared_dialogue().messages()


def test_the_oldest_turns_are_dropped_at_the_limit(view: LocalHalfDuplexView) -> None:
    question, reply = "What is the capital of France? ", "The capital of France is Paris. "
    view.replay([Past(audio=None, text=reply * 6, memo={"user": question * 6})] * 12)
    assert view.kv_cache_length < 512
    assert "Rome" in text_of(answer(view, ITALY))


def test_an_invalid_prepare_is_refused_by_name(
    new_view: LocalHalfDuplexView, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = AudioPart(np.zeros(16000, dtype="<f4").tobytes())
    mimic = (TextPart("Mimic the voice."), voice, TextPart("Be brief."))
    assert new_view.prepare(ConversationMessage(Role.SYSTEM, mimic), config()) > 0
    with pytest.raises(UnsupportedContent) as refused:
        new_view.prepare(ConversationMessage(Role.SYSTEM, (*mimic, ImagePart(b""))), config())
    assert refused.value.field == "system_content.3"
    monkeypatch.setattr(models, "NEXT_UTTERANCE_TOKENS", 352)
    with pytest.raises(ContextFull, match="100 is the most that fit"):
        new_view.prepare(ConversationMessage(Role.SYSTEM, (TextPart("word " * 110),)), config())


def test_a_picture_of_the_prompt_is_described(new_view: LocalHalfDuplexView) -> None:
    shown = (TextPart("Be brief."), ImagePart(photograph("cat")))
    new_view.prepare(ConversationMessage(Role.SYSTEM, shown), config())
    prompt = new_view._prepared_dialogue().messages()[0]["content"]
    assert "Be brief. (The picture shows a brown cat.)" in prompt
    assert text_of(answer(new_view, "What do you see?")) == "I see a brown cat."


def test_a_model_that_sees_gets_the_pictures_of_the_prompt() -> None:
    shown = (TextPart("Be brief."), ImagePart(photograph("cat")))
    with scripted_server() as server:
        engine = LocalProcessor(
            LocalOptions(slots=1, voice=ESPEAK, llm_url=server.url, llm_model=MODEL, llm_sees=True)
        )
        engine.load(lambda _: None)
        wait_until(lambda: bool(server.requests), within_s=90, every_s=0.005)
        view = engine.set_half_duplex_mode()
        assert view.prepare(ConversationMessage(Role.SYSTEM, shown), config(speak=False)) > 600
        server.answers(refuses(503), says("A cat."))
        assert text_of(answer(view, ITALY)).strip() == UNREACHABLE
        assert text_of(answer(view, ITALY)) == "A cat."
        system, asked = server.requests[-1]["messages"]
        text, picture = system["content"]
        assert text["text"].startswith("Be brief. ")
        assert picture["image_url"]["url"].startswith("data:image/")
        assert asked["content"].count("Italy") == 2
        view.cleanup()
        engine.close()


def test_calls_in_the_wrong_order_are_refused(local_engine: LocalProcessor) -> None:
    view = local_engine.set_half_duplex_mode()
    with pytest.raises(EngineError, match="not prepared"):
        view.prefill(spoken(ITALY))
    view.cleanup()
    view.cleanup()
    with pytest.raises(EngineError, match="cleaned up"):
        view.prepare(SYSTEM, config())


def test_long_speech_is_split_where_it_is_quiet() -> None:
    speech = np.ones(40 * INPUT_RATE, dtype=np.float32)
    for second in (10, 19, 33):
        speech[second * INPUT_RATE : second * INPUT_RATE + 1600] = 0.0
    pieces = list(pieces_of(speech))
    assert np.array_equal(np.concatenate(pieces), speech)
    starts = np.cumsum([len(piece) for piece in pieces]) / INPUT_RATE
    assert [int(start) for start in starts[:2]] == [10, 19]
    assert all(6 * INPUT_RATE <= len(piece) <= 14 * INPUT_RATE for piece in pieces[:-1])


def test_a_spoken_question_to_itself_is_answered_by_rule(
    view: LocalHalfDuplexView, other_view: LocalHalfDuplexView
) -> None:
    said = text_of(answer(view, "What is your name?"))
    assert said.startswith("My name is Antiphon.")
    assert text_of(answer(view, "Repeat that, please.")) == said
    other_view.prepare(SYSTEM, config(speak=False))
    other_view.replay([Past(text=said, audio=None, memo={"user": "What is your name?"})])
    assert text_of(answer(other_view, "Repeat that, please.")) == said
