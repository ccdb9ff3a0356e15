"""The interface that every engine implements. docs/write-an-engine.md has the method chain.

An engine overrides what is abstract, and of the rest what it needs: the defaults do nothing or refuse.
All methods block and are called on engine threads. Calls on one view never overlap; views of
different sessions may be called from different threads at the same time.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil

from antiphon.inference_worker.engines.common.barge_in import Words
from antiphon.inference_worker.engines.types import (
    Delta,
    EngineError,
    EngineInfo,
    LoadProgress,
    PastTurn,
    PastUnit,
    PrefillReport,
    ProgressCallback,
    UnsupportedMode,
    no_progress,
)
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig, TtsConfig
from antiphon.shared_schemas.content import ConversationMessage
from antiphon.shared_schemas.entries import TextKind
from antiphon.shared_schemas.registry import Memory
from antiphon.shared_schemas.unit_result import TokenUsage, UnitResult


class SessionView(ABC):  # noqa: B024
    """One session on an engine."""

    take_usage: Callable[[], TokenUsage | None] | None = None
    """A method of engines that count tokens: those that the model read and generated since its last call.

    Called between other calls, after `prepare`, after each unit and after each answer. It returns None while
    nothing is counted.
    """

    def stop(self) -> None:  # noqa: B027
        """Abandon work in progress. Safe to call from any thread, at any time, more than once."""

    def cleanup(self) -> None:  # noqa: B027
        """Free everything the session holds; the view is unusable afterwards."""


class AnsweringView(SessionView):
    """A session view whose answers are streamed in pieces."""

    @abstractmethod
    def generate(self) -> Iterator[Delta]:
        """Yield the answer in pieces. `set_break`, if the kind has it, ends the answer early."""

    def resume(self, said: str) -> Iterator[Delta] | None:  # noqa: ARG002
        """The rest of an answer that another worker began; the client already has the text `said`.

        Called instead of `generate`. None if the engine can only start the answer again.
        """
        return None


class DuplexView(SessionView):
    """One full-duplex conversation: prepare once, then prefill, generate, finalize per unit."""

    detects_barge_in = False
    """True if the engine stops for the user's speech by `DuplexConfig.barge_in`; otherwise the worker makes it
    listen."""

    @abstractmethod
    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
    ) -> int:
        """Prefill the system prompt and set the voice (both references float32 mono 16 kHz).

        Returns the prompt's length in tokens. May be called again before the first unit.
        """

    @abstractmethod
    def prefill(
        self, audio: Samples, frames: Sequence[bytes] = (), max_slice_nums: int = 1
    ) -> PrefillReport:
        """Append one unit of user audio (float32 mono 16 kHz) and its JPEG frames to the context."""

    @abstractmethod
    def generate(self, force_listen: bool = False) -> UnitResult:
        """Decide whether to listen or speak in this unit; `force_listen` stops speech at once."""

    def finalize(self) -> None:
        """Close the unit. Required before the next prefill."""

    def replay(self, units: Sequence[PastUnit]) -> None:
        """Rebuild the context of a conversation that another worker began. Called after `prepare`.

        The default is for engines that keep nothing of past units.
        """

    def played(self, played_ms: float) -> None:
        """Report how much of the current (or last) answer's audio the client has played.

        An engine that can edit its context drops the part of an interrupted answer that the client
        did not play.
        """

    def add_history(self, history: Sequence[tuple[TextKind, str]]) -> None:  # noqa: ARG002
        """Take what was said before the session, on engines whose info has `takes_texts`.

        Called after each `prepare` whose session has a history, before `replay` and the first unit.
        """
        raise EngineError("the engine takes no history")

    def add_text(self, kind: TextKind, text: str) -> None:  # noqa: ARG002
        """Take a text between two units, on engines whose info has `takes_texts`.

        The memo of the next result must contain what `replay` needs of it. Raises InputRefused if it
        cannot be used.
        """
        raise EngineError("the engine takes no texts")

    @property
    def silence_ms(self) -> float | None:
        """How long the user had been silent at the end of the last prefilled unit, for metrics.

        None: the engine does not detect speech, and the worker estimates it from the level.
        """
        return None

    @property
    @abstractmethod
    def kv_cache_length(self) -> int:
        """Tokens in the session's context."""


class HalfDuplexView(AnsweringView):
    """One turn-taking voice conversation: prepare once, then prefill an utterance and generate."""

    longest_patience = 1.0
    """The highest result of `patience`; it is not called if this is 1."""

    words_in: Callable[[Samples], Words] | None = None
    """A method of engines that can tell what is said in a piece of speech (float32 mono 16 kHz), also while
    they answer. Safe to call from any thread."""

    @abstractmethod
    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,
    ) -> int:
        """Prefill the system message and set the voice; returns its length in tokens."""

    def greet(self, said: str) -> Iterator[Delta]:  # noqa: ARG002
        """Speak `config.greeting` as the first turn, without the part `said` that the client already has.

        Called after `prepare`, in place of `prefill` and `generate`, on engines whose info has
        `greets`. `set_break`, `memo`, `rollback` and `replay` apply to it as to every turn.
        """
        raise EngineError("the engine does not greet")

    def patience(self, speech: Samples) -> float:  # noqa: ARG002
        """How long to wait after `speech` (float32 mono 16 kHz), if the user is silent now.

        A multiple of `vad.min_silence_duration_ms`. Called once in a silence, before `prefill`.
        """
        return self.longest_patience

    def words_so_far(self, begin: int, speech: Samples) -> str:  # noqa: ARG002
        """The text of an utterance that continues, on engines whose info has `interim_transcripts`.

        `speech` (float32 mono 16 kHz) began at sample `begin` of the input, which identifies it. The
        newest words may be missing: an engine transcribes when it has time.
        """
        raise EngineError("the engine has no interim transcripts")

    @abstractmethod
    def prefill(self, utterance: Samples) -> None:
        """Append one whole utterance (float32 mono 16 kHz) as the user's turn."""

    def interrupted(self, played_ms: float) -> None:
        """The user interrupted the answer after `played_ms` of the audio that this view made.

        Called after its last piece. An engine that can edit its context drops the rest.
        """

    @abstractmethod
    def memo(self) -> dict[str, Any]:
        """Engine data about the turn that just ended, passed to `replay` on another worker."""

    @abstractmethod
    def rollback(self) -> None:
        """Restore the context from before the turn, without its utterance and answer."""

    @abstractmethod
    def replay(self, turns: Sequence[PastTurn]) -> None:
        """Rebuild the context of a conversation that another worker began. Called after `prepare`."""

    @abstractmethod
    def set_break(self) -> None:
        """End the current answer. Safe to call from any thread."""

    @property
    @abstractmethod
    def kv_cache_length(self) -> int:
        """Tokens in the session's context."""


class ChatView(AnsweringView):
    """One request: prefill the whole history, then generate the answer once."""

    transcript: str | None = None
    """The words of the last message, once `prefill` has transcribed its sound; None: it makes no transcript."""

    @abstractmethod
    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,
        on_progress: ProgressCallback = no_progress,
    ) -> int:
        """Read the history; returns its length in tokens.

        Raises UnsupportedContent with the field that the engine cannot process.
        """

    def transcribe(self, speech: Samples) -> Iterator[Delta]:  # noqa: ARG002
        """The words of `speech` (float32 mono 16 kHz), on engines whose info has `transcribes`.

        Called in place of `prefill` and `generate`. Each piece has its `segment`.
        """
        raise EngineError("the engine does not transcribe")

    def read_aloud(self, text: str, tts: TtsConfig, said: str) -> Iterator[Delta]:  # noqa: ARG002
        """The speech of `text` without the part `said`, on engines whose info has `reads_aloud`.

        Called in place of `prefill` and `generate`. The pieces' texts together are the rest of `text`.
        """
        raise EngineError("the engine does not read texts aloud")


class UnifiedProcessor(ABC):
    """An engine with its weights. Creates one view per session."""

    @property
    @abstractmethod
    def info(self) -> EngineInfo: ...

    def load(self, report: LoadProgress) -> None:  # noqa: B027
        """Load weights and warm up (seconds). Raises EngineLoadError with the remedy."""

    def set_duplex_mode(self) -> DuplexView:
        raise UnsupportedMode(f"engine {self.info.name!r} does not serve full-duplex sessions")

    def set_half_duplex_mode(self) -> HalfDuplexView:
        raise UnsupportedMode(f"engine {self.info.name!r} does not serve half-duplex sessions")

    def set_chat_mode(self) -> ChatView:
        raise UnsupportedMode(f"engine {self.info.name!r} does not serve chat")

    @property
    def unusable_slots(self) -> int:
        """Slots that can serve no session now, for example because their server does not answer."""
        return 0

    @property
    def trouble(self) -> str:
        """Why sessions may get no answers now, for operators; empty if nothing is wrong."""
        return ""

    def memory(self) -> Memory:
        """Memory in use on the device. The default reports this process's share of host memory."""
        used = psutil.Process().memory_info().rss
        return Memory(int(used), int(psutil.virtual_memory().total))

    def close(self) -> None:  # noqa: B027
        """Release weights and threads."""


class SlotPool:
    """Allocates the numbers 0 to size - 1. Safe to use from any thread."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = list(range(size))
        self._lock = threading.Lock()

    def acquire(self) -> int:
        """Take the lowest free slot. Raises EngineError if none is free."""
        with self._lock:
            if not self._free:
                raise EngineError(f"all {self._size} slots of this engine are in use")
            return self._free.pop(0)

    def release(self, slot: int) -> None:
        """Free `slot`. Safe to call twice."""
        with self._lock:
            self._free = sorted({*self._free, slot})
