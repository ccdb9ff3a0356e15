"""Chat requests to the local engine's real models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

from antiphon.inference_worker.engines.local.chat import NO_WORDS, LocalChatView
from antiphon.inference_worker.engines.local.processor import LocalProcessor
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
from support.speech import share_recognised, transcribe
from support.synthetic_speech import GERMANY, ITALY, JAPAN, spoken
from support.video_files import video

pytestmark = pytest.mark.speech

SHORT = GenerationConfig(temperature=0.0, max_new_tokens=20)
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
    view.prefill([message], options(tts=TtsConfig(enabled=True)))
    deltas = list(view.generate())
    assert text_of(deltas) == NO_WORDS
    assert np.concatenate([delta.audio for delta in deltas]).any()
    assert text_of(list(view.resume(NO_WORDS[:21]) or ())) == NO_WORDS[21:]


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
    assert "Germany" in view._history[-1]["content"]


@pytest.mark.parametrize(
    ("part", "omni", "words"),
    [
        (ImagePart(b""), False, "see images"),
        (VideoPart(video(seconds=1)), False, "omni_mode"),
        (VideoPart(video(seconds=1)), True, "no sound"),
        (VideoPart(b"nonsense"), True, "neither MP4"),
    ],
)
def test_images_are_refused_by_name(
    view: LocalChatView, part: Part, words: str, *, omni: bool
) -> None:
    history = [asks(TextPart("Hello.")), asks(TextPart("What is this?"), part)]
    with pytest.raises(UnsupportedContent, match=words) as refused:
        view.prefill(history, options(omni_mode=omni))
    assert refused.value.field == "messages.1.content.1"


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
        view.prefill([asks(TextPart("Who was Mozart?"))], options(generation=generation))
        lengths.append(len(list(view.generate())))
        view.cleanup()
    assert lengths[0] < lengths[1] <= 80


def test_temperature_zero_always_gives_the_same_answer(local_engine: LocalProcessor) -> None:
    answers = set()
    for _ in range(2):
        view = local_engine.set_chat_mode()
        view.prefill([asks(TextPart("Tell me about cats."))], options(generation=SHORT))
        answers.add(text_of(list(view.generate())))
        view.cleanup()
    assert len(answers) == 1


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


def test_with_tools_the_model_answers(view: LocalChatView) -> None:
    function = {"name": "clock", "description": "The time.", "parameters": {}}
    tools = [{"type": "function", "function": function}]
    view.prefill([asks(TextPart("What time is it?"))], options(tools=tools))
    assert view._by_rule is None
