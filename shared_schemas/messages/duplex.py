"""Both directions of `/ws/duplex/{session_id}`, with the aliases that existing clients use."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, ConfigDict, Field

from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.unit_result import TimedText
from antiphon.shared_schemas.wire import (
    ClientMessage,
    Error,
    Media,
    MessageReader,
    Notice,
    Queued,
    QueueDone,
    QueueUpdate,
    Resumed,
    ServerMessage,
    Stopped,
)

DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."
MAX_FRAMES = 4
"""JPEG frames that one chunk may carry."""

Slices = Annotated[int, Field(ge=1, le=9)]
PlayedMs = Annotated[float, Field(ge=0, le=86_400_000)]


class Prepare(ClientMessage):
    """Initialise the session. Audio references are base64 float32 PCM at 16 kHz."""

    type: Literal["prepare"]
    system_prompt: str = Field(
        default=DEFAULT_SYSTEM_PROMPT,
        max_length=20_000,
        validation_alias=AliasChoices("prefix_system_prompt", "system_prompt"),
    )
    config: DuplexConfig = DuplexConfig()
    ref_audio_path: str | None = None
    ref_audio_base64: Media | None = None
    tts_ref_audio_base64: Media | None = None
    deferred_finalize: bool = True
    max_slice_nums: Slices | None = None
    record: bool = True


class AudioChunk(ClientMessage):
    """One chunk of microphone audio, with the camera frames that belong to it."""

    type: Literal["audio_chunk"]
    audio: Media = Field(validation_alias=AliasChoices("audio", "audio_base64"))
    frame_base64_list: list[Media] | None = Field(default=None, max_length=MAX_FRAMES)
    force_listen: bool = False
    max_slice_nums: Slices | None = None


class VideoFrame(ClientMessage):
    """A camera frame (base64 JPEG) that belongs to the next audio chunk."""

    type: Literal["video_frame"]
    frame: Media


class Pause(ClientMessage):
    """Suspend the session for at most `timeout` seconds (default: the server's pause timeout)."""

    type: Literal["pause"]
    timeout: float | None = Field(default=None, gt=0)


class Resume(ClientMessage):
    """Resume after a pause."""

    type: Literal["resume"]


class PlaybackAck(ClientMessage):
    """How much audio of the current answer the client has played."""

    type: Literal["playback_ack"]
    played_ms: PlayedMs


class Stop(ClientMessage):
    """End the session."""

    type: Literal["stop"]


class ClientDiagnostic(ClientMessage):
    """Metrics measured by the client; every field is stored in the recording."""

    model_config = ConfigDict(extra="allow")

    type: Literal["client_diagnostic"]
    metrics: dict[str, Any] | None = None


DuplexClientMessage = (
    Prepare | AudioChunk | VideoFrame | Pause | Resume | PlaybackAck | Stop | ClientDiagnostic
)

parse_duplex_message = MessageReader[DuplexClientMessage](DuplexClientMessage).parse


class Prepared(ServerMessage, type="prepared", bears_token=True):
    """Audio may be sent, best in chunks of `chunk_ms`, a second without it. `prompt_length` in tokens."""

    prompt_length: int
    recording_session_id: str | None = None
    chunk_ms: int | None = None


class Result(ServerMessage, type="result"):
    """The result of one unit. `audio_data` is float32 PCM at 24 kHz; `current_time`, costs in ms.

    `user_text` is what the user said up to this unit. `interim_user_text` is what the user has said so far
    of the utterance that continues, empty if none does; it replaces that of the unit before. `words` are
    the words of `text`, each with the millisecond of `audio_data` at which it begins. `interrupted`: the
    answer before this unit was cut; audio of it that has not been played must be dropped.
    """

    is_listen: bool
    text: str
    audio_data: bytes
    end_of_turn: bool
    current_time: int
    cost_llm_ms: float
    cost_tts_prep_ms: float
    cost_tts_ms: float
    cost_token2wav_ms: float
    cost_all_ms: float
    n_tokens: int
    n_tts_tokens: int
    server_send_ts: float
    wall_clock_ms: float
    kv_cache_length: int
    vision_slices: int
    vision_tokens: int
    simulated: bool | None = None
    timing: dict[str, float] | None = None
    user_text: str | None = None
    interim_user_text: str | None = None
    words: list[TimedText] | None = None
    goodbye: bool | None = None
    interrupted: bool | None = None


class Paused(ServerMessage, type="paused"):
    """The session is paused for at most `timeout` seconds."""

    timeout: float


class Timeout(ServerMessage, type="timeout"):
    """The pause, or the silence of the client, lasted too long; the session has ended."""

    reason: str


DuplexServerMessage = (
    Queued
    | QueueUpdate
    | QueueDone
    | Prepared
    | Result
    | Paused
    | Resumed
    | Stopped
    | Timeout
    | Notice
    | Error
)
