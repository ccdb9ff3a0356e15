"""Requests of OpenAI's HTTP API, as far as this server serves them. Unknown fields are ignored."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import FailFast, Field, ValidationError
from pydantic_core import ErrorDetails

from antiphon.shared_schemas.config import VoiceName
from antiphon.shared_schemas.errors import InvalidInput, name_field
from antiphon.shared_schemas.messages.chat import MAX_PARTS
from antiphon.shared_schemas.wire import ClientMessage, Media

MAX_SPOKEN_CHARS = 4096

Kind = TypeVar("Kind", bound=ClientMessage)

STOCK_VOICES = frozenset(
    [
        *("alloy", "ash", "ballad", "beacon", "bossa", "cedar", "cinder", "coral", "delta"),
        *("echo", "fable", "gleam", "marin", "meridian", "nova", "onyx", "quartz", "ripple"),
        *("sage", "shida", "shimmer", "stone", "tempo", "verse", "vesper", "willow"),
    ]
)
"""OpenAI's voices, which clients name by default."""

_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "stop": ([],),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
    "functions": ([],),
    "function_call": ("auto", "none"),
    "response_format": ({"type": "text"},),
    "prediction": (),
    "web_search_options": (),
}
"""Settings without effect here, and their values that change nothing. Others are refused by name."""


class VoiceId(ClientMessage):
    """A voice as an object."""

    id: str = Field(max_length=64)


class AudioOutput(ClientMessage):
    """How a spoken answer is sent."""

    voice: VoiceName | VoiceId
    format: Literal["wav", "mp3", "flac", "opus", "aac", "pcm16"]


class StreamOptions(ClientMessage):
    """Options of a streamed answer."""

    include_usage: bool | None = None


class ImageUrl(ClientMessage):
    """A data URL."""

    url: Media


class InputAudio(ClientMessage):
    """Base64 of a sound file. Its content tells its kind."""

    data: Media


class RequestPart(ClientMessage):
    """A part of a message; the field of its `type` is required."""

    type: Literal["text", "image_url", "input_audio", "refusal"]
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | None = None
    input_audio: InputAudio | None = None


class RequestMessage(ClientMessage):
    """A message of the history."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[RequestPart], Field(max_length=MAX_PARTS)] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    audio: dict[str, Any] | None = None
    refusal: str | None = None


class FunctionName(ClientMessage):
    """A function by its name."""

    name: str = Field(max_length=256)


class NamedTool(ClientMessage):
    """The tool that an answer calls."""

    type: Literal["function"]
    function: FunctionName


class CompletionRequest(ClientMessage):
    """The body of `POST /v1/chat/completions`."""

    model: str = Field(max_length=256)
    messages: Annotated[list[RequestMessage], Field(min_length=1, max_length=1000), FailFast()]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    audio: AudioOutput | None = None
    store: bool | None = None


class SpeechRequest(ClientMessage):
    """The body of `POST /v1/audio/speech`."""

    model: str = Field(max_length=256)
    input: str = Field(min_length=1, max_length=MAX_SPOKEN_CHARS)
    voice: VoiceName | VoiceId = ""
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    speed: Literal[1] | None = None
    stream_format: Literal["audio"] | None = None


class TranscriptionRequest(ClientMessage):
    """The fields of `POST /v1/audio/transcriptions` except its `file`."""

    model: str = Field(max_length=256)
    language: str = Field(default="", max_length=16)
    response_format: Literal["json", "text", "verbose_json", "srt", "vtt"] = "json"
    stream: bool = Field(default=False, strict=False)  # a form has texts: "true", "True" or "1"
    timestamp_granularities: list[Literal["segment", "word"]] | None = None


def parse_completion(data: object) -> CompletionRequest:
    """Raises InvalidInput naming the field and the remedy."""
    if isinstance(data, dict):
        for name, values in _NEUTRAL.items():
            value = data.get(name)
            if value is not None and value not in values:
                text = f"{name}: this server does not support this value; leave it out"
                raise InvalidInput(text, field=name)
    return _parsed(CompletionRequest, data)


def parse_speech(data: object) -> SpeechRequest:
    """Raises InvalidInput naming the field and the remedy."""
    if isinstance(data, dict) and data.get("speed") == 1:
        data = {**data, "speed": 1}
    return _parsed(SpeechRequest, data)


def parse_transcription(fields: Mapping[str, Any]) -> TranscriptionRequest:
    """Raises InvalidInput naming the field and the remedy."""
    return _parsed(TranscriptionRequest, fields)


def voice_name(voice: str | VoiceId) -> str:
    return voice.id if isinstance(voice, VoiceId) else voice


def _parsed(kind: type[Kind], data: object) -> Kind:
    if not isinstance(data, dict):
        raise InvalidInput("the body must be a JSON object", field="model")
    data = {name: value for name, value in data.items() if value is not None}
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise _clearest(data, error) from None


def _clearest(data: dict[str, Any], error: ValidationError) -> InvalidInput:
    """The first error, or what it is about: a list where a text is possible too is first no text."""
    errors = error.errors(include_url=False, include_context=False)
    start = next((n for n, each in enumerate(errors) if each["type"] == "too_long"), 0)
    first, where = errors[start], _location(data, errors[start])
    for each in errors[start + 1 :]:
        inner = _location(data, each)
        if inner[: len(where)] != where:
            break
        if len(inner) > len(where):
            first, where = each, inner
    text = "must be an object" if first["type"] == "model_type" else first["msg"]
    return name_field(first["type"], text, [str(part) for part in where])  # has no tags any more


def _location(data: Any, error: ErrorDetails) -> list[int | str]:
    """The path of a field without the names of variants: pydantic has them where several are possible."""
    path, missing = error["loc"], error["type"] == "missing"
    found = []
    for number, part in enumerate(path, 1):
        is_new = missing and number == len(path)
        if isinstance(data, dict) and (part in data or is_new):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int):
            data = data[part]
        else:
            continue
        found.append(part)
    return found
