"""The entries of full-duplex sessions."""

from enum import StrEnum
from typing import Any

import msgspec

from antiphon.shared_schemas.audio import PcmFormat, float_bytes
from antiphon.shared_schemas.config import CONTEXT_TOKENS, USUAL_CHUNK_MS, DuplexConfig
from antiphon.shared_schemas.entries.base import StreamEntry
from antiphon.shared_schemas.unit_result import FirstAudio, TokenUsage, UnitResult


class PrepareIn(StreamEntry, tag="prepare"):
    """The client's `prepare`. References are float32 PCM at 16 kHz; empty means none.

    `version`: that of the realtime API which the client speaks. `input_n`: its number in the input stream, in
    the copy that `past` begins with.
    """

    system_prompt: str
    config: DuplexConfig
    ref_audio: bytes = b""
    tts_ref_audio: bytes = b""
    deferred_finalize: bool = True
    version: int = 1
    input_n: int = 0
    history: list[list[str]] = msgspec.field(default_factory=list)
    """The conversation so far, oldest first: a `TextKind` and a text for each part."""


class ChunkIn(StreamEntry, tag="chunk"):
    """One chunk of user audio (16 kHz) with its JPEG frames."""

    audio: bytes = b""
    pcm: PcmFormat = PcmFormat.F32
    frames: tuple[bytes, ...] = ()
    force_listen: bool = False
    max_slice_nums: int | None = None


class PauseIn(StreamEntry, tag="pause"):
    """Pause for at most `timeout_s`."""

    timeout_s: float


class ResumeIn(StreamEntry, tag="resume"):
    """Resume after a pause."""


class PlaybackIn(StreamEntry, tag="playback"):
    """How much of the current answer's audio, or else of the last one's, the client has played."""

    played_ms: float


class TextKind(StrEnum):
    """What a text is for the model of a full-duplex session."""

    INSTRUCTIONS = "instructions"
    """It does so from now on."""
    THINKING = "thinking"
    """It knows this from now on, and does not say it unasked."""
    COMMENTARY = "commentary"
    """It says this at the next silence."""
    USER = "user"
    """The user said this before the session."""
    ASSISTANT = "assistant"
    """It said this before the session."""


class TextIn(StreamEntry, tag="text"):
    """A text for the model of an active full-duplex session. The worker answers TextAddedOut or ErrorOut."""

    kind: TextKind
    text: str


class DiagnosticIn(StreamEntry, tag="diagnostic"):
    """Metrics measured by the client; the worker ignores them, the recorder stores them."""

    metrics: dict[str, Any]


class PreparedOut(StreamEntry, tag="prepared"):
    """The engine has processed the prompt. `input_n`: the `prepare` that this answers.

    `chunk_ms`: the length of a full-duplex chunk that suits the engine best.
    """

    input_n: int
    prompt_length: int
    chunk_ms: int = USUAL_CHUNK_MS
    usage: TokenUsage | None = None


class ResultOut(StreamEntry, tag="result"):
    """One unit's result (24 kHz float32 audio).

    `input_n` is the chunk it answers, `skipped` the chunks dropped just before it under
    backpressure. `received_at`, `read_at` are the Redis-clock ms at which the edge appended that
    chunk and the worker read it; `at` is when the worker published. `interrupted`: the answer before this
    unit was cut, and what the client has not played of it must not play.

    The other fields say what depends on earlier units, so that a reader needs none of them. `unit` counts
    the units before this one, `turn` the turns of the model up to here, `total_usage` the tokens.
    `text_before` and `user_text_before` are the words of the units just before that spoke without audio.
    `context_left_s` is set once, when the context of `context_tokens` is nearly full. `context_forecast`
    is false when no such report follows.
    """

    input_n: int
    skipped: tuple[int, ...] = ()
    received_at: float
    read_at: float
    prefill_ms: float
    wall_clock_ms: float
    is_listen: bool
    text: str
    audio: bytes = b""
    end_of_turn: bool
    interrupted: bool = False
    current_time: int
    cost_llm_ms: float
    cost_tts_prep_ms: float
    cost_tts_ms: float
    cost_token2wav_ms: float
    cost_all_ms: float
    n_tokens: int
    n_tts_tokens: int
    kv_cache_length: int
    vision_slices: int
    vision_tokens: int
    simulated: bool
    interim_user_text: str | None = None
    memo: dict[str, Any]
    unit: int = 0
    turn: int = 0
    text_before: str = ""
    user_text_before: str = ""
    context_left_s: float | None = None
    context_forecast: bool = True
    context_tokens: int = CONTEXT_TOKENS
    usage: TokenUsage | None = None
    total_usage: TokenUsage | None = None
    first_audio: FirstAudio | None = None

    @classmethod
    def of(cls, result: UnitResult, **context: Any) -> "ResultOut":
        """Join an engine's result with its position in the session."""
        values = {name: getattr(result, name) for name in UnitResult.__slots__}
        values["audio"] = float_bytes(result.audio)
        return cls(**values, **context)


class PausedOut(StreamEntry, tag="paused"):
    """The session is paused."""

    input_n: int
    timeout_s: float


class ResumedOut(StreamEntry, tag="resumed"):
    """The session is active again after a pause."""

    input_n: int


class TextAddedOut(StreamEntry, tag="text_added"):
    """The engine has the text of the input `text_n`.

    It is no `input_n`: until a result's memo contains the text, a new worker has to read the input again.
    """

    text_n: int


class PastSteps(StreamEntry, tag="past"):
    """Finished units or turns in a row, as recovery needs them, so that their entries can be trimmed.

    `last_input` and `last_output` are the stream ids of the last entries that belong to them. `count`
    is the duration of the input up to there (ms), or the index of the next turn. A step has the
    fields of the engine's `PastUnit` or `PastTurn`. `audio` is the steps' sound as one FLAC file, and
    empty if the engine does not need it; `samples` in each step is its share, `frames` its number of
    frames.
    """

    last_input: str
    last_output: str
    count: int
    steps: list[dict[str, Any]]
    audio: bytes = b""
    frames: tuple[bytes, ...] = ()
