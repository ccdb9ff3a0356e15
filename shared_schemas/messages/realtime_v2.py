"""Both directions of version 2 of `/v1/realtime`; queue messages and errors are those of version 1."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from antiphon.shared_schemas.config import CONTEXT_TOKENS, DuplexConfig
from antiphon.shared_schemas.messages.duplex import MAX_FRAMES, Slices
from antiphon.shared_schemas.messages.realtime import (
    ErrorEvent,
    PlaybackEvent,
    SessionClose,
    SessionCreated,
    SessionQueued,
    SessionQueueDone,
    SessionQueueUpdate,
)
from antiphon.shared_schemas.wire import ClientMessage, Media, MessageReader, ServerMessage

MAX_PROMPT_CHARS = 20_000

Mode = Literal["full_duplex", "turn_based"]


class VoiceReferences(ClientMessage):
    """Reference voices: base64 of float32 PCM at 16 kHz, or of a WAV file."""

    ref_audio_base64: Media | None = None
    tts_ref_audio_base64: Media | None = None


class NamedVoices(VoiceReferences):
    """`voice`, in which the references have shorter names too."""

    ref_audio: Media | None = None
    tts_ref_audio: Media | None = None


MOST_SPEAK_TOKENS = 200
"""Of a unit of a second, which never has more."""
HD_SLICES = 4


class SdkConfig(DuplexConfig):
    """`config`, with the names that the model makers' SDK has for some settings.

    None: not given. `max_tokens` is the most text tokens of a unit. With `vision_hd`, frames are cut into
    up to HD_SLICES slices.
    """

    tts_enabled: bool | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_kv_tokens: int | None = Field(default=None, ge=1)
    vision_hd: bool | None = None

    @field_validator("max_kv_tokens")
    @classmethod
    def _fits(cls, tokens: int | None) -> int | None:
        if tokens is not None and tokens < CONTEXT_TOKENS:
            raise PydanticCustomError(
                "max_kv_tokens",
                f"the context always has {CONTEXT_TOKENS} tokens; leave it out, or ask for as many",
            )
        return tokens

    def duplex(self) -> DuplexConfig:
        """The settings under their own names, which win over those of the SDK."""
        stated = self.model_dump(include=set(DuplexConfig.model_fields), exclude_unset=True)
        if self.tts_enabled is not None:
            stated.setdefault("generate_audio", self.tts_enabled)
        if self.max_tokens is not None:
            most = min(self.max_tokens, MOST_SPEAK_TOKENS)
            stated.setdefault("max_new_speak_tokens_per_chunk", most)
        if self.vision_hd:
            stated.setdefault("max_slice_nums", HD_SLICES)
        return DuplexConfig(**stated)


class InitPayload(VoiceReferences):
    """The settings of a session. Voices beside `voice` are those of the public demo's pages.

    `mode` matters only to a connection whose URL has none.
    """

    system_prompt: str | None = Field(default=None, max_length=MAX_PROMPT_CHARS)
    instructions: str | None = Field(default=None, max_length=MAX_PROMPT_CHARS)
    config: SdkConfig = SdkConfig()
    voice: NamedVoices = NamedVoices()
    use_tts: bool = True
    mode: Mode | None = None
    max_slice_nums: Slices | None = None
    deferred_finalize: bool = True
    record: bool = True


class SessionInit(ClientMessage):
    """Configure the session; once."""

    type: Literal["session.init"]
    payload: InitPayload = InitPayload()


class AppendHints(ClientMessage):
    """Another place of two fields of an input."""

    force_listen: bool = False
    max_slice_nums: Slices | None = None


class DuplexInput(AppendHints):
    """A second of audio (base64 float32 PCM, 16 kHz), with JPEG frames in video mode."""

    audio: Media
    video_frames: list[Media] | None = Field(default=None, max_length=MAX_FRAMES)
    hints: AppendHints = AppendHints()


class InputAppend(ClientMessage):
    """Input of a full-duplex session."""

    type: Literal["input.append"]
    input: DuplexInput


RealtimeV2Event = SessionInit | InputAppend | SessionClose | PlaybackEvent

parse_v2_event = MessageReader[RealtimeV2Event](SessionInit | InputAppend | SessionClose).parse
parse_v2_event_or_playback = MessageReader[RealtimeV2Event](RealtimeV2Event).parse
"""For clients that asked for `playback_ack`."""


class ChatAppend(ClientMessage):
    """A chat request, as `/ws/chat` takes it; only with `mode=chat`."""

    type: Literal["input.append"]
    input: dict[str, Any]


ChatModeEvent = SessionInit | ChatAppend | SessionClose

parse_chat_mode_event = MessageReader[ChatModeEvent](ChatModeEvent).parse
"""Does not check the request in a ChatAppend."""


class SessionCreatedV2(SessionCreated, type="session.created", bears_token=True):
    """`usage`: the tokens of the prompt, if the engine counts."""

    mode: Mode
    usage: dict[str, Any] | None = None


class OutputDelta(ServerMessage, type="response.output.delta"):
    """One kind of output: `listen`, `text`, or `audio` (float32 PCM at 24 kHz, never empty).

    The `text` of a `listen` is empty: the SDK of the model makers needs it to see the end of a turn.

    `response_id` is the same for all deltas of an answer and for the `listen` that ends it.
    `server_send_ts` is the time of sending in seconds since 1970. `chunk_usage` counts the tokens of
    the unit, which has the number `chunk_index`, and `usage` those of the session so far.
    """

    kind: Literal["listen", "text", "audio"]
    response_id: str
    session_id: str
    text: str | None = None
    audio: bytes | None = None
    metrics: dict[str, Any] | None = None
    server_send_ts: float | None = None
    chunk_index: int | None = None
    chunk_usage: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    user_text: str | None = None
    """What the user said, if the client asked for transcripts."""
    interim_user_text: str | None = None
    """What the user has said so far, empty in silence, if the session asks for it."""
    interrupted: bool | None = None
    """Of a `listen`: the answer before was cut, and unplayed audio of it must be dropped. With notices only."""


class UserTranscribed(ServerMessage, type="input_audio_transcription.completed"):
    """What the user said, for clients of the model makers' SDK."""

    text: str
    session_id: str


class ResponseDone(ServerMessage, type="response.done"):
    """A chat answer is complete. `audio` only if it was not streamed.

    `recording_session_id` only with `notices=1`.
    `reason`: `turn_end`, or `stopped` if an operator or the client's page stopped the answer.
    """

    text: str
    reason: Literal["turn_end", "stopped"]
    response_id: str
    session_id: str
    audio: bytes | None = None
    usage: dict[str, Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    recording_session_id: str | None = None


class ClosedReasonV2(StrEnum):
    """The reason for closing a session."""

    CLIENT_CLOSED = "client_closed"
    TIMEOUT = "timeout"
    CONTEXT_FULL = "context_full"
    SERVER_SHUTDOWN = "server_shutdown"
    ERROR = "error"


class SessionClosedV2(ServerMessage, type="session.closed"):
    """Last event of a session; `diagnostic` has a `message` for people.

    An end that the client asked for has no diagnostic: the public demo's page would show it as an error.
    """

    reason: ClosedReasonV2
    diagnostic: dict[str, str] | None = None
    session_id: str | None = None
    usage: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        reason: ClosedReasonV2,
        text: str,
        session_id: str | None,
        usage: dict[str, Any] | None = None,
    ) -> "SessionClosedV2":
        diagnostic = None if reason is ClosedReasonV2.CLIENT_CLOSED else {"message": text}
        return cls(reason=reason, diagnostic=diagnostic, session_id=session_id, usage=usage)


RealtimeV2ServerEvent = (
    SessionQueued
    | SessionQueueUpdate
    | SessionQueueDone
    | SessionCreatedV2
    | OutputDelta
    | UserTranscribed
    | ResponseDone
    | SessionClosedV2
    | ErrorEvent
)
