"""What clients of OpenAI's Realtime API send: events, settings of a session, items, wanted answers.

Unknown fields of settings are refused, as OpenAI does: they may be those of the beta API.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from antiphon.shared_schemas.messages.chat import MAX_PARTS
from antiphon.shared_schemas.tools import FunctionName
from antiphon.shared_schemas.wire import ClientMessage, Media, MessageReader

Id = Annotated[str, Field(min_length=1, max_length=128)]
Milliseconds = Annotated[int, Field(ge=0)]
Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]

MAX_ARGUMENTS = 256 * 1024
"""Characters of a call's arguments."""

BETA_FIELDS: Mapping[str, str] = {
    "modalities": "output_modalities",
    "voice": "audio.output.voice",
    "speed": "audio.output.speed",
    "input_audio_format": "audio.input.format",
    "output_audio_format": "audio.output.format",
    "input_audio_transcription": "audio.input.transcription",
    "input_audio_noise_reduction": "audio.input.noise_reduction",
    "turn_detection": "audio.input.turn_detection",
    "max_response_output_tokens": "max_output_tokens",
    "temperature": "",
}
"""Fields of the beta API, and those that replace them. `temperature` has none."""


class _Settings(ClientMessage):
    """Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class WireFormat(_Settings):
    """PCM has 16 bits and 24 kHz, G.711 8 kHz."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
    rate: int | None = None

    @field_validator("rate")
    @classmethod
    def _fits(cls, rate: int | None, info: ValidationInfo) -> int | None:
        own = 24000 if info.data.get("type") == "audio/pcm" else 8000
        if rate not in (None, own):
            raise PydanticCustomError("rate", f"Input should be {own}")
        return rate


class TurnDetection(_Settings):
    """A part of it keeps the rest, and its type."""

    type: Literal["server_vad", "semantic_vad"] | None = None
    threshold: float | None = Field(default=None, ge=0, le=1)
    prefix_padding_ms: Milliseconds | None = None
    silence_duration_ms: Milliseconds | None = None
    idle_timeout_ms: None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None
    eagerness: Literal["low", "medium", "high", "auto"] | None = None


class InputSettings(_Settings):
    """`audio.input`. The recogniser and the suppression of noise are not chosen by clients."""

    format: WireFormat | None = None
    transcription: dict[str, Any] | None = None
    noise_reduction: dict[str, Any] | None = None
    turn_detection: TurnDetection | None = None


class VoiceObject(ClientMessage):
    """A voice by its id."""

    id: str = Field(max_length=64)


class OutputSettings(_Settings):
    """`audio.output`."""

    format: WireFormat | None = None
    voice: Annotated[str, Field(max_length=64)] | VoiceObject | None = None
    speed: Annotated[float, Field(ge=1, le=1)] | None = None


class AudioSettings(_Settings):
    """`audio`."""

    input: InputSettings | None = None
    output: OutputSettings | None = None


Tokens = Annotated[int, Field(ge=1)] | Literal["inf"] | None
Modalities = Annotated[list[Literal["audio", "text"]], Field(min_length=1, max_length=1)]


class RealtimeSettings(_Settings):
    """`session` of `session.update`. What is left out stays as it is."""

    type: Literal["realtime", "transcription"]
    model: str | None = Field(default=None, max_length=256)
    instructions: str | None = None
    output_modalities: Modalities | None = None
    audio: AudioSettings | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Tokens = None
    tracing: str | dict[str, Any] | None = None
    truncation: Literal["auto", "disabled"] | dict[str, Any] | None = None
    include: list[str] | None = None
    prompt: None = None
    reasoning: dict[str, Any] | None = None
    id: str | None = None
    object: str | None = None
    expires_at: int | None = None


class ItemPart(ClientMessage):
    """A part of a message."""

    type: Literal["input_text", "input_audio", "input_image", "output_text", "output_audio", "text"]
    text: str | None = None
    transcript: str | None = None
    audio: Media | None = None
    image_url: Media | None = None


class ItemFields(ClientMessage):
    """An item, or with the type `item_reference` the id of one. The fields of its `type` are required."""

    type: Literal["message", "function_call", "function_call_output", "item_reference"]
    id: Id | None = None
    role: Literal["system", "user", "assistant"] | None = None
    content: Annotated[list[ItemPart], Field(max_length=MAX_PARTS)] | None = None
    call_id: str | None = Field(default=None, max_length=256)
    name: FunctionName | None = None
    arguments: str | None = Field(default=None, max_length=MAX_ARGUMENTS)
    output: str | None = None


class ResponseSettings(_Settings):
    """`response` of `response.create`. What is left out is as in the session."""

    instructions: str | None = None
    output_modalities: Modalities | None = None
    audio: AudioSettings | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Tokens = None
    conversation: Literal["auto", "none"] | None = None
    metadata: Metadata | None = None
    input: list[dict[str, Any]] | None = None
    prompt: None = None
    reasoning: dict[str, Any] | None = None


class _Event(ClientMessage):
    """What errors name as their cause."""

    event_id: str | None = Field(default=None, max_length=512)


class UpdateSession(_Event):
    """Change settings."""

    type: Literal["session.update"]
    session: dict[str, Any]


class AppendAudio(_Event):
    """Sound in the session's input format, base64."""

    type: Literal["input_audio_buffer.append"]
    audio: Media


class CommitAudio(_Event):
    """The sound since the last item becomes an item."""

    type: Literal["input_audio_buffer.commit"]


class ClearAudio(_Event):
    """Forget the sound since the last item."""

    type: Literal["input_audio_buffer.clear"]


class ClearOutput(_Event):
    """Stop playing: for calls, whose sound the server paces."""

    type: Literal["output_audio_buffer.clear"]


class CreateItem(_Event):
    """Add an item behind another one, or with `root` at the beginning. Without either, at the end."""

    type: Literal["conversation.item.create"]
    previous_item_id: str | None = None
    item: dict[str, Any]


class DeleteItem(_Event):
    """Remove an item."""

    type: Literal["conversation.item.delete"]
    item_id: str


class RetrieveItem(_Event):
    """Ask for an item."""

    type: Literal["conversation.item.retrieve"]
    item_id: str


class TruncateItem(_Event):
    """Say how much of an answer was played."""

    type: Literal["conversation.item.truncate"]
    item_id: str
    content_index: int = 0
    audio_end_ms: Milliseconds


class CreateResponse(_Event):
    """Ask for an answer."""

    type: Literal["response.create"]
    response: dict[str, Any] | None = None


class CancelResponse(_Event):
    """End an answer."""

    type: Literal["response.cancel"]
    response_id: str | None = None


ClientEvent = (
    UpdateSession
    | AppendAudio
    | CommitAudio
    | ClearAudio
    | ClearOutput
    | CreateItem
    | DeleteItem
    | RetrieveItem
    | TruncateItem
    | CreateResponse
    | CancelResponse
)

_EVENTS: MessageReader[ClientEvent] = MessageReader(ClientEvent)

parse_client_event = _EVENTS.parse

SESSION_SETTINGS = TypeAdapter(RealtimeSettings)
RESPONSE_SETTINGS = TypeAdapter(ResponseSettings)
ITEM_FIELDS = TypeAdapter(ItemFields)
