"""What requests of OpenAI's HTTP API are taken, and what their answers look like."""

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from openai.types.audio import TranscriptionSegment, TranscriptionVerbose

from antiphon.edge.protocols.openai import decode_completion, decode_speech
from antiphon.edge.protocols.openai_answers import TranscriptionAnswer, subtitles, usage_of
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.content import ConversationMessage
from antiphon.shared_schemas.entries import ChatDoneOut
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.chat import MAX_PARTS
from antiphon.shared_schemas.messages.openai import (
    parse_completion,
    parse_speech,
    parse_transcription,
)
from antiphon.shared_schemas.unit_result import TokenUsage
from antiphon.shared_schemas.wire import ClientMessage

SEGMENTS = [
    {"start": 0.0, "end": 9.5, "text": "One --> two."},
    {"start": 3599.9996, "end": 7322.25, "text": "Three."},
]


def test_subtitles() -> None:
    assert subtitles("srt", SEGMENTS) == (
        "1\n00:00:00,000 --> 00:00:09,500\nOne -> two.\n"
        "\n2\n01:00:00,000 --> 02:02:02,250\nThree.\n"
    )
    assert subtitles("vtt", SEGMENTS) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:09.500\nOne -> two.\n"
        "\n01:00:00.000 --> 02:02:02.250\nThree.\n"
    )
    assert subtitles("vtt", []) == "WEBVTT\n"
    assert subtitles("srt", []) == ""


def test_the_words_of_a_rule_are_counted_as_tokens() -> None:
    """The language model has written none of them."""
    done = ChatDoneOut(text="Hello! How?", generated_tokens=2, input_tokens=9, duration_ms=1.0)
    for usage in (None, TokenUsage(input_text=9)):
        counted = usage_of(structs.replace(done, usage=usage))
        assert (counted["completion_tokens"], counted["total_tokens"]) == (2, 11)
    counted = usage_of(structs.replace(done, usage=TokenUsage(input_text=9, output_text=5)))
    assert counted["completion_tokens"] == 5


def test_segments_have_all_fields_of_openai() -> None:
    """Clients that check answers refuse segments without them, or compare them with numbers."""
    asked = parse_transcription({"model": "m", "response_format": "verbose_json"})
    done = ChatDoneOut(
        text="Three.", generated_tokens=0, input_tokens=0, duration_ms=1.0, segments=SEGMENTS
    )
    [piece] = TranscriptionAnswer(asked, 7322.25).done(done)
    assert isinstance(piece, bytes)
    answer = TranscriptionVerbose.model_validate_json(piece)
    required = set(TranscriptionSegment.model_fields)
    for shown, segment in zip(json.loads(piece)["segments"], SEGMENTS, strict=True):
        TranscriptionSegment.model_validate(shown, strict=True)
        assert required <= set(shown)
        assert segment.items() <= shown.items()
    assert answer.segments is not None
    assert [segment.id for segment in answer.segments] == [0, 1]


@pytest.mark.parametrize(
    ("asked", "text", "language"),
    [
        (None, "Three.", "english"),
        (None, "\u4f60\u597d", "chinese"),
        ("zh", "OK", "chinese"),
        (None, "", "english"),
    ],
)
def test_the_language_is_that_of_the_transcript(
    asked: str | None, text: str, language: str
) -> None:
    fields = {"model": "m", "response_format": "verbose_json"}
    request = parse_transcription(fields | ({"language": asked} if asked else {}))
    done = ChatDoneOut(text=text, generated_tokens=0, input_tokens=0, duration_ms=1.0)
    [piece] = TranscriptionAnswer(request, 1.0).done(done)
    assert isinstance(piece, bytes)
    assert json.loads(piece)["language"] == language


USER: dict[str, Any] = {"role": "user", "content": "Hello"}
HELLO = {"type": "text", "text": "Hello"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tool_choice": "always"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tool_choice": {"type": "function", "function": {}}}, "tool_choice.function.name"),
        ({"audio": {"voice": 5, "format": "wav"}}, "audio.voice"),
        ({"audio": {"voice": {}, "format": "wav"}}, "audio.voice.id"),
        ({"audio": {"voice": "v" * 65, "format": "wav"}}, "audio.voice"),
        ({"audio": {"voice": "alloy"}}, "audio.format"),
        ({"messages": [{**USER, "content": 5}]}, "messages.0.content"),
        ({"messages": [{**USER, "content": [{"text": "x"}]}]}, "messages.0.content.0.type"),
        ({"messages": [{**USER, "content": [HELLO, 5]}]}, "messages.0.content.1"),
        (
            {"messages": [{**USER, "content": [{"type": "text", "text": 5}]}]},
            "messages.0.content.0.text",
        ),
        ({"messages": 5}, "messages"),
        ({"model": None}, "model"),
    ],
)
def test_a_field_of_several_forms_has_its_own_name(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_completion({"model": "m", "messages": [USER], **change})
    assert refused.value.field == field
    assert refused.value.message.startswith(field)


@pytest.mark.parametrize("kind", ["file", "input_text", "audio_url", "video_url"])
def test_a_part_of_an_unknown_type_is_named(kind: str) -> None:
    """Not the message: its content is no text because it is a list, which is right."""
    part = {"type": kind, kind: {"url": "data:,"}}
    with pytest.raises(InvalidInput) as refused:
        parse_completion({"model": "m", "messages": [USER, {**USER, "content": [HELLO, part]}]})
    assert refused.value.message.startswith("messages.1.content.1.type: input should be 'text', ")


def test_a_text_in_place_of_an_object_is_named() -> None:
    part = {"type": "image_url", "image_url": "data:image/png;base64,AA=="}
    with pytest.raises(InvalidInput) as refused:
        parse_completion({"model": "m", "messages": [{**USER, "content": [part]}]})
    assert refused.value.message == "messages.0.content.0.image_url: must be an object"


SPOKEN = {"id": "audio_1", "data": "AAAA", "expires_at": 1, "transcript": "It is Rome."}


async def _history(**assistant: Any) -> Sequence[ConversationMessage]:
    """What the model gets if the second of three messages is this one of the assistant."""
    messages = [USER, {"role": "assistant", **assistant}, USER]
    asked = parse_completion({"model": "m", "messages": messages})
    entry = await decode_completion(asked, frozenset(), EdgeSettings(), uploads, no_sound)
    return entry.messages()


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": ""}, {"content": []}])
async def test_a_spoken_answer_in_the_history_is_its_transcript(content: dict[str, Any]) -> None:
    assert await _history(**content, audio=SPOKEN) == await _history(content="It is Rome.")
    for audio in ({"id": "audio_1"}, {**SPOKEN, "transcript": None}):
        with pytest.raises(InvalidInput, match="spoken answers are not kept") as refused:
            await _history(**content, audio=audio)
        assert refused.value.field == "messages.1.audio"


async def test_the_content_of_a_spoken_answer_wins() -> None:
    assert await _history(content="Rome.", audio={"id": "a"}) == await _history(content="Rome.")


async def test_a_refusal_in_the_history_is_its_text() -> None:
    said = await _history(content="I cannot say that.")
    assert await _history(content=None, refusal="I cannot say that.") == said
    assert await _history(content="Rome.", refusal="No.") == await _history(content="Rome.")


async def test_a_call_in_the_history_may_have_no_arguments() -> None:
    """Models that call a function without parameters send them like this."""
    call = {"id": "c", "type": "function", "function": {"name": "now", "arguments": ""}}
    whole = {**call, "function": {"name": "now", "arguments": "{}"}}
    assert await _history(tool_calls=[call]) == await _history(tool_calls=[whole])


SOUND_FORMS = ({}, {"voice": None}, {"response_format": None}, {"speed": None})


@pytest.mark.parametrize("change", SOUND_FORMS)
def test_null_in_a_speech_is_the_default(change: dict[str, Any]) -> None:
    whole = parse_speech({"model": "m", "input": "Hello"})
    assert parse_speech({"model": "m", "input": "Hello", **change}) == whole


def test_a_message_has_a_limited_number_of_parts() -> None:
    parts = [{"type": "text", "text": "x"}] * MAX_PARTS
    parse_completion({"model": "m", "messages": [{**USER, "content": parts}]})
    with pytest.raises(InvalidInput) as refused:
        parse_completion({"model": "m", "messages": [{**USER, "content": [*parts, parts[0]]}]})
    assert refused.value.field == "messages.0.content"
    assert f"at most {MAX_PARTS}" in refused.value.message


async def test_the_sounds_of_a_request_are_limited_together() -> None:
    """Small files may hold much sound."""
    data = base64.b64encode(b"a small file").decode()
    sound = {"type": "input_audio", "input_audio": {"data": data, "format": "flac"}}
    message = {**USER, "content": [sound, sound]}
    asked = parse_completion({"model": "m", "messages": [message] * 4})
    decoded = []

    async def read_sound(_file: bytes, field: str) -> bytes:
        decoded.append(field)
        return bytes(1500)

    settings = EdgeSettings(max_chat_bytes=4000)
    with pytest.raises(InvalidInput) as refused:
        await decode_completion(asked, frozenset(), settings, uploads, read_sound)
    field = "messages.1.content.0.input_audio.data"
    assert (refused.value.field, refused.value.code) == (field, ErrorCode.MESSAGE_TOO_LARGE)
    assert refused.value.message.startswith(field)
    assert decoded == [
        "messages.0.content.0.input_audio.data",
        "messages.0.content.1.input_audio.data",
        field,
    ]


def test_a_voice_of_speech_has_a_longest_name() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_speech({"model": "m", "input": "Hello", "voice": "v" * 65})
    assert refused.value.field == "voice"


async def uploads(voice_id: str) -> bytes | None:
    """One voice: a second of one value."""
    return np.full(16000, 16384, dtype="<i2").tobytes() if voice_id == "a" * 32 else None


async def test_uploaded_voices_read_aloud_and_answer() -> None:
    none = frozenset[str]()
    voice = f"uploaded:{'a' * 32}"
    asked = parse_speech({"model": "m", "input": "Hello", "voice": voice})
    entry = await decode_speech(asked, none, EdgeSettings(), uploads)
    assert entry.options.tts.voice == ""
    reference = np.frombuffer(entry.ref_audio, dtype="<f4")
    assert len(reference) == 16000
    assert reference == pytest.approx(0.5, abs=1e-4)
    asked = parse_speech({"model": "m", "input": "Hello", "voice": "uploaded:none"})
    with pytest.raises(InvalidInput) as refused:
        await decode_speech(asked, none, EdgeSettings(), uploads)
    assert refused.value.field == "voice"
    audio = {"voice": "uploaded:none", "format": "wav"}
    spoken = {"model": "m", "messages": [USER], "modalities": ["text", "audio"], "audio": audio}
    with pytest.raises(InvalidInput) as refused:
        await decode_completion(parse_completion(spoken), none, EdgeSettings(), uploads, no_sound)
    assert refused.value.field == "audio.voice"
    assert refused.value.message.startswith("audio.voice")


async def no_sound(_file: bytes, _field: str) -> bytes:
    raise AssertionError("no sound was sent")


TOOL = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
OFFERED = {"model": "m", "messages": [USER], "tools": [TOOL], "stream": True}


@pytest.mark.parametrize(
    ("parse", "sent"),
    [
        (parse_completion, {**OFFERED, "seed": 1, "stream_options": {"include_usage": True}}),
        (parse_completion, {**OFFERED, "max_tokens": 3000, "temperature": 0.7, "user": "01M8"}),
        (parse_speech, {"model": "tts-1", "input": "Hello", "voice": "alloy"}),
        (
            parse_speech,
            {
                "model": "gpt-4o-mini-tts",
                "input": "Hello",
                "voice": "marin",
                "instructions": "Speak like a pirate.",
                "response_format": "mp3",
                "speed": 1.0,
            },
        ),
        (parse_transcription, {"model": ""}),
        (parse_transcription, {"model": "whisper-1", "language": "en", "prompt": "A smart home."}),
    ],
)
def test_requests_of_open_webui_and_home_assistant_are_taken(
    parse: Callable[[object], ClientMessage], sent: dict[str, Any]
) -> None:
    taken = parse(sent).model_dump(exclude_unset=True, exclude={"messages"})
    assert taken.items() <= sent.items()
    assert "model" in taken
