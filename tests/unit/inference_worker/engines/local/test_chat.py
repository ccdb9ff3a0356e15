"""Chat requests to the local engine's real models."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from antiphon.inference_worker.engines.local.chat import NO_WORDS, LocalChatView
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.rules.answer import ENGLISH_ONLY
from antiphon.inference_worker.engines.local.rules.situation import NO_PICTURE
from antiphon.inference_worker.engines.local.voices.catalogue import ESPEAK
from antiphon.inference_worker.engines.types import ContextFull, Delta, UnsupportedContent
from antiphon.shared_schemas.audio import float_bytes
from antiphon.shared_schemas.config import ChatOptions, GenerationConfig, TtsConfig
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    VideoPart,
)
from antiphon.shared_schemas.unit_result import TokenUsage
from support.pictures import photograph, sign
from support.speech import share_recognised, transcribe
from support.synthetic_speech import GERMANY, ITALY, JAPAN, PERSONA, spoken
from support.video_files import video

pytestmark = pytest.mark.speech

PRESETS = Path(__file__).parents[5] / "edge/assets/presets"


@pytest.fixture
def view(local_engine: LocalProcessor) -> Iterator[LocalChatView]:
    request = local_engine.set_chat_mode()
    yield request
    request.cleanup()


def options(**values: object) -> ChatOptions:
    asked = {"generation": GenerationConfig(temperature=0.0, max_new_tokens=60), **values}
    return ChatOptions.model_validate(asked)


def asks(*parts: Part) -> ConversationMessage:
    return ConversationMessage(Role.USER, parts)


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def test_the_answer_follows_from_the_history(view: LocalChatView) -> None:
    history = [
        ConversationMessage(Role.SYSTEM, (TextPart(PERSONA),)),
        asks(TextPart(ITALY)),
        ConversationMessage(Role.ASSISTANT, (TextPart("The capital of Italy is Rome."),)),
        asks(TextPart("And what about Germany?")),
    ]
    length = view.prefill(history, options())
    assert length > 40
    assert view.take_usage() == TokenUsage(input_text=length)
    deltas = list(view.generate())
    answered = view.take_usage()
    assert answered.input_text == 0
    assert answered.output_text >= len(deltas)
    assert "Berlin" in text_of(deltas)
    assert len(deltas) > 3
    assert not any(len(delta.audio) for delta in deltas)


def _first_instructions(page: str) -> str:
    preset = yaml.safe_load((PRESETS / page / "assistant_en.yaml").read_text())
    texts = [part["text"] for part in preset.get("system_content", []) if part["type"] == "text"]
    return str(preset.get("system_prompt") or "\n".join(texts))


PAGES = ("audio_duplex", "omni", "half_duplex_audio", "turnbased")
INSTRUCTIONS = {_first_instructions(page): page for page in PAGES}
"""The different ones, each with a page that has them."""


@pytest.mark.parametrize("system", INSTRUCTIONS, ids=INSTRUCTIONS.values())
def test_the_first_question_of_a_page_is_answered_ten_times_of_ten(
    view: LocalChatView, system: str
) -> None:
    """With the page's first preset and temperature. Every answer may be another one."""
    history = [ConversationMessage(Role.SYSTEM, (TextPart(system),)), asks(TextPart(JAPAN))]
    as_on_the_page = options(generation=GenerationConfig(temperature=0.7, max_new_tokens=256))
    view.prefill(history, as_on_the_page)
    answers = [text_of(list(view.generate())) for _ in range(10)]
    assert [answer for answer in answers if "Tokyo" not in answer] == []


def test_a_spoken_question_is_answered_in_speech(view: LocalChatView) -> None:
    question = AudioPart(float_bytes(spoken(GERMANY)))
    view.prefill([asks(TextPart("Listen:"), question)], options(tts=TtsConfig(enabled=True)))
    deltas = list(view.generate())
    assert "Berlin" in text_of(deltas)
    sound = np.concatenate([delta.audio for delta in deltas])
    assert share_recognised(text_of(deltas), transcribe(sound)) >= 0.6


@pytest.mark.parametrize(
    "message",
    [asks(AudioPart(float_bytes(np.zeros(48_000, dtype=np.float32)))), asks(TextPart(" "))],
    ids=["a silent recording", "a blank text"],
)
def test_a_message_without_words_gets_no_invented_answer(
    view: LocalChatView, message: ConversationMessage
) -> None:
    view.prefill([message], options(tts=TtsConfig(enabled=True, voice=ESPEAK)))
    deltas = list(view.generate())
    assert text_of(deltas) == NO_WORDS
    assert np.concatenate([delta.audio for delta in deltas]).any()
    assert text_of(list(view.resume(NO_WORDS[:21]) or ())) == NO_WORDS[21:]


def test_a_recording_in_another_language_is_not_answered_by_the_language_model(
    view: LocalChatView,
) -> None:
    """Only the last message counts."""
    german = asks(AudioPart(float_bytes(spoken("Wer hat Faust geschrieben?", voice="de+Hugo"))))
    view.prefill([german], options())
    assert text_of(list(view.generate())) == ENGLISH_ONLY
    view.prefill([german, asks(TextPart(GERMANY))], options())
    assert "Berlin" in text_of(list(view.generate()))


def test_the_progress_of_the_transcription_is_reported(view: LocalChatView) -> None:
    long = np.concatenate([spoken(GERMANY), np.zeros(16_000 * 16, dtype=np.float32)])
    history = [asks(AudioPart(float_bytes(long)), AudioPart(float_bytes(spoken(ITALY))))]
    reported: list[float] = []
    view.prefill(history, options(), on_progress=reported.append)
    assert reported == sorted(reported)
    assert len(reported) == 3  # two pieces of the long one
    assert 0.0 < reported[0] < reported[1] == 0.5 < reported[2] == 1.0


def test_the_audio_of_a_video_is_transcribed_with_omni_mode(view: LocalChatView) -> None:
    clip = VideoPart(video(seconds=3, sound=spoken(GERMANY)))
    view.prefill([asks(clip)], options(omni_mode=True))
    shown, heard = view._history[-1]["content"].splitlines()
    assert shown.startswith("(The video shows ")
    assert "Germany" in heard


@pytest.mark.parametrize(
    ("part", "omni", "sees", "words"),
    [
        (ImagePart(b"nonsense"), False, True, "not a readable picture"),
        (VideoPart(b"nonsense"), True, True, "neither MP4"),
        (ImagePart(b""), False, False, "see images"),
        (VideoPart(video(seconds=1)), False, False, "omni_mode"),
        (VideoPart(video(seconds=1)), True, False, "no sound"),
    ],
)
def test_pictures_are_refused_by_name(
    local_engine: LocalProcessor, part: Part, words: str, *, omni: bool, sees: bool
) -> None:
    assert local_engine._models is not None
    view = local_engine.set_chat_mode()
    if not sees:
        view._slot.loaded = replace(local_engine._models, sight=None)
    history = [asks(TextPart("Hello.")), asks(TextPart("What is this?"), part)]
    with pytest.raises(UnsupportedContent, match=words) as refused:
        view.prefill(history, options(omni_mode=omni))
    view.cleanup()
    assert refused.value.field == "messages.1.content.1"


def test_a_picture_is_described(local_engine: LocalProcessor) -> None:
    """Also one of an earlier message, and one without a question."""
    assert (local_engine.info.sees_frames, local_engine.info.sees_in_words) == (True, True)
    cat, room = ImagePart(photograph("cat")), ImagePart(sign("Room 204"))
    before = [asks(cat), ConversationMessage(Role.ASSISTANT, (TextPart("I see a cat."),))]
    for history, answered in (
        ([asks(cat)], "I see a brown cat."),
        ([asks(cat, TextPart("Is there a dog?"))], "No, I see no dog. I see a brown cat."),
        ([*before, asks(TextPart("What colour is the cat?"))], "The cat is brown."),
        ([*before, asks(room, TextPart("What does it say?"))], "It says: Room 204."),
        ([asks(cat, room)], "I see a brown cat. The text says: Room 204."),
        ([asks(TextPart("What do you see?"))], NO_PICTURE),
    ):
        view = local_engine.set_chat_mode()
        view.prefill(history, options())
        assert text_of(list(view.generate())) == answered
        view.cleanup()


def answered(message: str) -> ConversationMessage:
    return ConversationMessage(Role.ASSISTANT, (TextPart(message),))


def test_a_sign_says_nothing_about_the_user(view: LocalChatView) -> None:
    name = ImagePart(sign("My name is Bob", size=40))
    history = [asks(name, TextPart("What does it say?")), answered("It says: My name is Bob.")]
    for question, told in (
        ("What is my name?", "I do not know your name yet."),
        ("What did I say?", 'You said: "What does it say?"'),
    ):
        view.prefill([*history, asks(TextPart(question))], options())
        assert view._by_rule == told
    foot = asks(name, TextPart("How many inches are in a foot?"))
    history = [foot, answered("1 foot is 12 inches."), asks(TextPart("And in a yard?"))]
    view.prefill(history, options())
    assert "36" in str(view._by_rule)


def test_a_picture_is_meant_only_while_it_is_the_subject(view: LocalChatView) -> None:
    shown = [asks(ImagePart(photograph("cat"))), answered("I see a brown cat.")]
    other = [asks(TextPart("And what is a banana?")), answered("A banana is a fruit.")]
    again = [asks(TextPart("What do you see?")), answered("I see a brown cat.")]
    for history, question, told in (
        (shown, "What colour is it?", "The cat is brown."),
        ([*shown, *other], "What colour is it?", None),
        ([*shown, *other], "What colours is it?", None),
        ([*shown, *other], "Who is that?", None),
        ([*shown, *other], "What colour is the cat?", "The cat is brown."),
        ([*shown, *other, *again], "What colour is it?", "The cat is brown."),
    ):
        view.prefill([*history, asks(TextPart(question))], options())
        assert view._by_rule == told, (len(history), question)


def test_two_pictures_are_compared(view: LocalChatView) -> None:
    cat, coffee = ImagePart(photograph("cat")), ImagePart(photograph("coffee"))
    news = "A cup and espresso appeared, and a cat disappeared."
    for history, told in (
        ([asks(cat, coffee, TextPart("What is different?"))], news),
        ([asks(cat), answered("A cat."), asks(coffee, TextPart("What has changed?"))], news),
        ([asks(cat, TextPart("What is different?"))], "I have seen one picture only."),
    ):
        view.prefill(history, options())
        assert view._by_rule == told


def test_the_model_reads_the_description(view: LocalChatView) -> None:
    question = TextPart("What is the room number?")
    view.prefill([asks(ImagePart(sign("Room 204")), question)], options())
    said = "(The picture shows the text: Room 204.)\nWhat is the room number?"
    assert view._history[-1]["content"] == said
    assert "204" in text_of(list(view.generate()))


def test_the_frames_of_a_video_are_described(view: LocalChatView) -> None:
    view.prefill([asks(VideoPart(video(seconds=3, sound=spoken(GERMANY))))], options())
    [shown] = view._history[-1]["content"].splitlines()  # without omni_mode, no sound
    assert shown.startswith("(The video shows ")


def test_thinking_is_refused_by_name(view: LocalChatView) -> None:
    with pytest.raises(UnsupportedContent) as refused:
        view.prefill([asks(TextPart("Hello."))], options(enable_thinking=True))
    assert refused.value.field == "enable_thinking"


def test_a_history_that_does_not_fit_is_refused(view: LocalChatView) -> None:
    with pytest.raises(ContextFull):
        view.prefill([asks(TextPart("word " * 900))], options())


def test_an_answer_is_as_long_as_the_client_wants(local_engine: LocalProcessor) -> None:
    """`max_new_tokens` is a limit; the length penalty changes where the model ends."""
    lengths = []
    for penalty in (0.1, 5.0):
        view = local_engine.set_chat_mode()
        generation = GenerationConfig(temperature=0.0, max_new_tokens=80, length_penalty=penalty)
        named = ConversationMessage(Role.SYSTEM, (TextPart(PERSONA),))
        asked = [named, asks(TextPart("Who was Mozart?"))]
        view.prefill(asked, options(generation=generation))
        lengths.append(len(list(view.generate())))
        view.cleanup()
    assert lengths[0] < lengths[1] <= 80


def test_another_worker_finishes_the_answer(local_engine: LocalProcessor) -> None:
    first, second = local_engine.set_chat_mode(), local_engine.set_chat_mode()
    for view in (first, second):
        view.prefill([asks(TextPart(ITALY))], options())
    deltas = list(first.generate())
    assert text_of(list(second.resume(text_of(deltas[:3])))) == text_of(deltas[3:])
    first.cleanup()
    second.cleanup()


def test_a_stop_ends_the_answer(view: LocalChatView) -> None:
    view.prefill([asks(TextPart("Tell me a long story."))], options())
    deltas = view.generate()
    next(deltas)
    view.stop()
    assert list(deltas) == []
    assert list(view.generate()) == []


def test_a_sum_is_calculated_and_streams(view: LocalChatView) -> None:
    view.prefill([asks(TextPart("whats 17 times 23"))], options())
    deltas = list(view.generate())
    assert text_of(deltas) == "17 times 23 is 391."
    assert len(deltas) > 2
    assert text_of(list(view.resume("17 times"))) == " 23 is 391."


@pytest.mark.parametrize("speaks", [False, True])
def test_an_answer_by_rule_is_as_long_as_the_client_wants(
    view: LocalChatView, speaks: bool
) -> None:
    generation = GenerationConfig(max_new_tokens=3)
    tts = TtsConfig(enabled=speaks, voice=ESPEAK)
    asked = [asks(TextPart("whats 17 times 23"))]
    view.prefill(asked, options(generation=generation, tts=tts))
    deltas = list(view.generate())
    assert text_of(deltas) == "17 times 23"
    assert sum(delta.n_tokens for delta in deltas) == 3
    assert text_of(list(view.resume("17 times"))) == " 23"
    view.prefill(asked, options(generation=GenerationConfig(max_new_tokens=9)))
    assert sum(delta.n_tokens for delta in view.generate()) == 5


def test_with_tools_the_model_answers(local_engine: LocalProcessor, view: LocalChatView) -> None:
    assert not local_engine.info.calls_tools  # its template has none
    function = {"name": "clock", "description": "The time.", "parameters": {}}
    tools = [{"type": "function", "function": function}]
    view.prefill([asks(TextPart("What time is it?"))], options(tools=tools))
    assert view._by_rule is None
