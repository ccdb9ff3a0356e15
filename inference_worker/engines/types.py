"""What the worker and an engine exchange. Plain values: no torch, no Redis, no asyncio."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from antiphon.shared_schemas.audio import SILENCE, Samples
from antiphon.shared_schemas.config import USUAL_CHUNK_MS
from antiphon.shared_schemas.content import ToolCall, TranscribedSegment
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.voices import NamedVoice

LoadProgress = Callable[[str], None]
"""Receives one short line for each stage of loading ("speech recogniser", "language model", ...)."""

ProgressCallback = Callable[[float], None]
"""Receives, from any thread, the share of a call's work (0 to 1) that is done."""


def no_progress(done: float) -> None:
    """A progress callback that does nothing."""


class EngineError(Exception):
    """This session's step failed; the engine and its other sessions are not affected."""


class TooManyRequests(EngineError):
    """What computes the answer takes no further requests now. The same request may succeed later."""


class EngineLoadError(Exception):
    """The engine cannot start; the message says what is missing and how to get it."""


class UnsupportedMode(EngineError):
    """The engine does not offer the requested kind of session."""


class RefusalReason(StrEnum):
    """Why an engine refuses input of a client, as metrics name it."""

    UNSUPPORTED = "unsupported"
    CONTEXT_FULL = "context_full"
    UNUSABLE = "unusable"


class InputRefused(EngineError):
    """The client's input or settings cannot be used. This counts as no error of the engine."""

    reason: ClassVar = RefusalReason.UNUSABLE


class UnsupportedContent(InputRefused):
    """The engine cannot process part of the request; `field` names that part."""

    reason: ClassVar = RefusalReason.UNSUPPORTED

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class EngineLost(Exception):
    """What computes this session is gone, so the session ends; the engine's others continue.

    The client receives the message. It is no EngineError: those end a step, and the session continues.
    """


class UnusableResult(EngineLost):
    """An engine has returned a value that is not of its declared type. Another step would do the same."""


class EngineBusy(EngineLost):
    """Nothing has room for this session now. It returns to the queue, and a worker with room continues it."""


class ContextFull(InputRefused):
    """The session's context window has no space for another unit."""

    reason: ClassVar = RefusalReason.CONTEXT_FULL


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """What an engine is and what it supports, as the registry shows it."""

    name: str
    model: str
    kinds: frozenset[SessionKind]
    device: str
    context_tokens: int
    sees_frames: bool = False
    sees_in_words: bool = False
    """Of pictures, it recognises everyday objects, colours and text, and nothing else."""
    clones_voice: bool = False
    matches_voice: bool = False
    """Speaks with the one of its voices that is nearest to a reference voice, which it does not imitate."""
    hears: tuple[str, ...] = ()
    """Codes of the languages that it understands, such as `en`. Empty: not known."""
    speaks: tuple[str, ...] = ()
    """Codes of the languages that it speaks. Empty: not known."""
    calls_tools: bool = False
    """The model's template has tools. If not, requests with tools are refused."""
    forces_calls: bool = False
    """Can make a model call a tool. If not, requests for that are refused."""
    greets: bool = False
    """Speaks the `greeting` of a full-duplex or half-duplex session as its first turn."""
    takes_texts: bool = False
    """Has `DuplexView.add_text` and `add_history`. If not, texts during a session are refused."""
    interim_transcripts: bool = False
    """Reports the user's words while the user speaks, to sessions that ask for them."""
    chunk_ms: int = USUAL_CHUNK_MS
    """The length of a full-duplex chunk that suits it best. Clients that do not ask send seconds."""
    transcribes: bool = False
    """Has `ChatView.transcribe`. If not, requests for a transcript are refused."""
    reads_aloud: bool = False
    """Has `ChatView.read_aloud`. If not, requests for the speech of a text are refused."""
    voices: tuple[NamedVoice, ...] = ()
    """The voices that a session chooses by name."""
    simulated: bool = False
    replayed_audio: int = 0
    """The newest units or turns whose audio and frames `replay` needs. 0: only open utterances."""

    def check_voice(self, voice: str, field: str) -> None:
        """Raises UnsupportedContent if a session names a voice that the engine does not have."""
        if not voice or any(voice == known.id for known in self.voices):
            return
        if self.voices:
            choices = ", ".join(known.id for known in self.voices)
            text = f"{field}: there is no voice {voice!r}; choose one of: {choices}"
        else:
            text = (
                f"{field}: the engine {self.name!r} has no voices to choose by name; leave it out"
            )
        raise UnsupportedContent(text, field)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillReport:
    """Cost of encoding one unit's input, with the share of images."""

    cost_ms: float
    vision_slices: int = 0
    vision_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastUnit:
    """One unit that another worker already ran: its input, its decision, its text, its memo.

    `audio` is float32 mono at 16 kHz, or None if the stream no longer has it. `played_ms` is the
    last playback position that the client reported before this unit (see `DuplexView.played`).
    """

    audio: Samples | None
    frames: tuple[bytes, ...] = ()
    is_listen: bool
    text: str
    end_of_turn: bool
    played_ms: float | None = None
    memo: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Delta:
    """A piece of an answer: text, audio (float32 mono 24 kHz) that may lag behind it, calls of tools.

    A piece of a transcript has the `segment` that its text is.
    """

    text: str = ""
    audio: Samples = field(default_factory=lambda: SILENCE, repr=False)
    n_tokens: int = 0
    tool_calls: tuple[ToolCall, ...] = ()
    segment: TranscribedSegment | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PastTurn:
    """One half-duplex turn that another worker already ran.

    `audio` is the utterance (float32 mono 16 kHz), or None if it is no longer stored. A greeting has none.
    `cut`: the user interrupted the answer, and `text` is the part that was played.
    """

    audio: Samples | None = field(repr=False)
    text: str
    memo: dict[str, Any] = field(default_factory=dict)
    cut: bool = False
