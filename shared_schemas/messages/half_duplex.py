"""Both directions of `/ws/half_duplex/{session_id}`."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.messages.duplex import Stop
from antiphon.shared_schemas.wire import (
    ClientMessage,
    Error,
    Media,
    MessageReader,
    Queued,
    QueueDone,
    QueueUpdate,
    ServerMessage,
    Stopped,
)

MAX_SYSTEM_ITEMS = 32


class SystemText(ClientMessage):
    """Text; ignored if empty."""

    type: Literal["text"]
    text: str | None = None


class SystemAudio(ClientMessage):
    """Base64 float32 PCM at 16 kHz; ignored if empty (pages without a voice send it)."""

    type: Literal["audio"]
    data: Media | None = None


SystemItem = Annotated[SystemText | SystemAudio, Field(discriminator="type")]


class HalfDuplexPrepare(ClientMessage):
    """Initialise the session. A non-empty `system_content` replaces `system_prompt`.

    Audio is base64 float32 PCM at 16 kHz; the first audio of `system_content` is the voice to
    speak with, unless `ref_audio_base64` is set.
    """

    type: Literal["prepare"]
    system_prompt: str | None = Field(
        default=None,
        max_length=20_000,
        validation_alias=AliasChoices("system_prompt", "prefix_system_prompt"),
    )
    system_content: list[SystemItem] | None = Field(default=None, max_length=MAX_SYSTEM_ITEMS)
    config: HalfDuplexConfig = HalfDuplexConfig()
    record: bool = True
    ref_audio_base64: Media | None = None


class HalfDuplexAudioChunk(ClientMessage):
    """Microphone audio of any length."""

    type: Literal["audio_chunk"]
    audio_base64: Media = Field(validation_alias=AliasChoices("audio_base64", "audio"))


HalfDuplexClientMessage = HalfDuplexPrepare | HalfDuplexAudioChunk | Stop

parse_half_duplex_message = MessageReader[HalfDuplexClientMessage](HalfDuplexClientMessage).parse


class HalfDuplexPrepared(ServerMessage, type="prepared", bears_token=True):
    """Audio may be sent; the session ends after `timeout_s` without any. `prompt_length` in tokens."""

    session_id: str
    timeout_s: float
    recording_session_id: str
    prompt_length: int


class VadState(ServerMessage, type="vad_state"):
    """The user started or stopped speaking.

    It is repeated with `interim_user_text`, what the user has said so far, if the session asks for it.
    """

    speaking: bool
    interim_user_text: str | None = None


class Generating(ServerMessage, type="generating"):
    """The user has finished; the answer starts."""

    speech_duration_ms: int


class TurnChunk(ServerMessage, type="chunk"):
    """A part of the answer; text or audio may be empty. Float32 PCM at 24 kHz."""

    text_delta: str
    audio_data: bytes


class TurnDone(ServerMessage, type="turn_done"):
    """The answer is complete. `turn_index` counts from 0.

    `goodbye` is true if the answer to a goodbye ends and the client asked for that.
    """

    turn_index: int
    text: str
    user_text: str | None = None
    goodbye: bool | None = None


class Interrupted(ServerMessage, type="interrupted"):
    """The user interrupted answer `turn_index`: audio of it that has not been played must be dropped.

    `text` and `played_ms` are the part of it that was played by now. Only for sessions with `barge_in`.
    """

    turn_index: int
    played_ms: int
    text: str


class HalfDuplexTimeout(ServerMessage, type="timeout"):
    """The session has ended because no audio arrived for too long."""

    elapsed_s: float
    reason: str


HalfDuplexServerMessage = (
    Queued
    | QueueUpdate
    | QueueDone
    | HalfDuplexPrepared
    | VadState
    | Generating
    | TurnChunk
    | TurnDone
    | Interrupted
    | Stopped
    | HalfDuplexTimeout
    | Error
)
