"""What lies in the streams of a full-duplex session, and what every kind of session shares."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from antiphon.shared_schemas.audio import PcmFormat, Samples, float_bytes, samples_from_bytes
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entry_codec import BINARY, StreamEntry
from antiphon.shared_schemas.unit_result import UnitResult


def _load_pcm(value: Any) -> PcmFormat:
    return PcmFormat(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareIn(StreamEntry):
    """The client's `prepare`. References are float32 PCM at 16 kHz; empty means none."""

    tag: ClassVar[str] = "prepare"
    system_prompt: str
    config: DuplexConfig = field(metadata={"load": DuplexConfig.model_validate})
    ref_audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    tts_ref_audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    deferred_finalize: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkIn(StreamEntry):
    """One chunk of user audio (16 kHz) with its JPEG frames."""

    tag: ClassVar[str] = "chunk"
    audio: bytes = field(metadata=BINARY, repr=False)
    pcm: PcmFormat = field(default=PcmFormat.F32, metadata={"load": _load_pcm})
    frames: tuple[bytes, ...] = field(default=(), metadata=BINARY, repr=False)
    force_listen: bool = False
    max_slice_nums: int | None = None

    def samples(self) -> Samples:
        """The audio as float32, shape (n,)."""
        return samples_from_bytes(self.audio, self.pcm)


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseIn(StreamEntry):
    """Rest for at most `timeout_s`."""

    tag: ClassVar[str] = "pause"
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeIn(StreamEntry):
    """Go on."""

    tag: ClassVar[str] = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybackIn(StreamEntry):
    """The client has played so much of the current answer's sound, or of the last one's if none is on."""

    tag: ClassVar[str] = "playback"
    played_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StopIn(StreamEntry):
    """End the session."""

    tag: ClassVar[str] = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosticIn(StreamEntry):
    """Figures measured by the client; the worker ignores them, the recorder keeps them."""

    tag: ClassVar[str] = "diagnostic"
    metrics: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedOut(StreamEntry):
    """The engine holds the prompt. `input_n`: the `prepare` it answers."""

    tag: ClassVar[str] = "prepared"
    input_n: int
    prompt_length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOut(StreamEntry):
    """One unit's result (24 kHz float32 audio).

    `input_n` is the chunk it answers, `skipped` the chunks dropped just before it under
    backpressure. `received_at`, `read_at` are the Redis-clock ms at which the edge appended that
    chunk and the worker read it; `at` is when the worker published.
    """

    tag: ClassVar[str] = "result"
    input_n: int
    skipped: tuple[int, ...] = field(default=(), metadata={"load": tuple})
    received_at: float
    read_at: float
    prefill_ms: float
    wall_clock_ms: float
    is_listen: bool
    text: str
    audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    end_of_turn: bool
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
    memo: dict[str, Any]

    @classmethod
    def of(cls, result: UnitResult, **context: Any) -> ResultOut:
        """Join an engine's result with where it stands in the session."""
        values = {f.name: getattr(result, f.name) for f in fields(UnitResult)}
        values["audio"] = float_bytes(result.audio)
        return cls(**values, **context)


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedOut(StreamEntry):
    """The session rests."""

    tag: ClassVar[str] = "paused"
    input_n: int
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedOut(StreamEntry):
    """The session goes on."""

    tag: ClassVar[str] = "resumed"
    input_n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedOut(StreamEntry):
    """Last entry of a session that was stopped."""

    tag: ClassVar[str] = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutOut(StreamEntry):
    """Last entry of a session whose pause, or whose client's silence, lasted too long.

    `elapsed_s`: the seconds without audio that ended a half-duplex session.
    """

    tag: ClassVar[str] = "timeout"
    reason: str
    elapsed_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorOut(StreamEntry):
    """A step failed (`input_n`: the entry that could not be served, 0 if none); `fatal` ends the session.

    `skipped`: the chunks dropped just before it under backpressure.
    """

    tag: ClassVar[str] = "error"
    input_n: int = 0
    skipped: tuple[int, ...] = field(default=(), metadata={"load": tuple})
    code: str
    message: str
    field: str | None = None
    fatal: bool = False
