"""What lies in the streams of half-duplex and chat sessions, beside what all kinds share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from antiphon.shared_schemas.config import ChatOptions, HalfDuplexConfig
from antiphon.shared_schemas.content import Message, restore
from antiphon.shared_schemas.entry_codec import BINARY, StreamEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfPrepareIn(StreamEntry):
    """A half-duplex `prepare`. `content`, `blobs`: the system message, flattened (see `content`).

    `ref_audio` is float32 PCM at 16 kHz; empty means none.
    """

    tag: ClassVar[str] = "half_prepare"
    content: list[dict[str, Any]]
    blobs: tuple[bytes, ...] = field(default=(), metadata=BINARY, repr=False)
    config: HalfDuplexConfig = field(metadata={"load": HalfDuplexConfig.model_validate})
    ref_audio: bytes = field(default=b"", metadata=BINARY, repr=False)

    def system(self) -> Message:
        """The system message."""
        return restore(self.content, self.blobs)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakIn(StreamEntry):
    """Stop the reply that is being generated; the session goes on."""

    tag: ClassVar[str] = "break"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatIn(StreamEntry):
    """A whole chat request. `ref_audio` is float32 PCM at 16 kHz; empty means none.

    `progress`: the client wants to hear how far a long prefill has come.
    """

    tag: ClassVar[str] = "chat"
    content: list[dict[str, Any]]
    blobs: tuple[bytes, ...] = field(default=(), metadata=BINARY, repr=False)
    options: ChatOptions = field(metadata={"load": ChatOptions.model_validate})
    ref_audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    progress: bool = False

    def messages(self) -> tuple[Message, ...]:
        """The history, oldest first."""
        return restore(self.content, self.blobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class VadOut(StreamEntry):
    """The user began or ceased to speak, within input `input_n`."""

    tag: ClassVar[str] = "vad"
    input_n: int
    speaking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratingOut(StreamEntry):
    """An utterance is complete and its answer begins. `audio`: the utterance, float32 at 16 kHz."""

    tag: ClassVar[str] = "generating"
    input_n: int
    turn_index: int
    speech_duration_ms: int
    audio: bytes = field(default=b"", metadata=BINARY, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaOut(StreamEntry):
    """A piece of an answer: text, and sound (float32 at 24 kHz) that may lag behind it."""

    tag: ClassVar[str] = "delta"
    text_delta: str
    audio: bytes = field(default=b"", metadata=BINARY, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDoneOut(StreamEntry):
    """A half-duplex answer is complete, was stopped, or failed. `input_n`: the last input it took in.

    After a failure (an ErrorOut came before) the context is as before the turn. `memo` is the
    engine's note for recovery; costs are milliseconds.
    """

    tag: ClassVar[str] = "turn_done"
    input_n: int
    turn_index: int
    text: str
    stopped: bool = False
    failed: bool = False
    n_tokens: int = 0
    cost_all_ms: float = 0.0
    kv_cache_length: int = 0
    memo: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressOut(StreamEntry):
    """So much of a chat request, between 0 and 1, has been read; for those only that asked."""

    tag: ClassVar[str] = "progress"
    done: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillDoneOut(StreamEntry):
    """A chat request has been read: it is `input_tokens` long."""

    tag: ClassVar[str] = "prefill_done"
    input_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDoneOut(StreamEntry):
    """Last entry of a chat: the whole answer. `audio` (float32 at 24 kHz) unless it was streamed."""

    tag: ClassVar[str] = "chat_done"
    text: str
    audio: bytes = field(default=b"", metadata=BINARY, repr=False)
    generated_tokens: int
    input_tokens: int
    duration_ms: float
    stopped: bool = False
