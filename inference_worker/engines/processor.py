"""The method chain that every engine implements (duplex-api.txt, Processor Method Chain).

All methods block and are called on engine threads. Calls on one view never overlap; views of
different sessions may be called from different threads at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import psutil

from antiphon.inference_worker.engines.types import (
    Delta,
    EngineInfo,
    LoadProgress,
    PastTurn,
    PastUnit,
    PrefillReport,
    ShareDone,
    UnsupportedMode,
    untold,
)
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import Message
from antiphon.shared_schemas.registry import Memory
from antiphon.shared_schemas.unit_result import UnitResult


class SessionView(ABC):
    """One session on an engine, whatever its kind."""

    @abstractmethod
    def stop(self) -> None:
        """Abandon work in progress. Safe to call from any thread, at any time, more than once."""

    @abstractmethod
    def cleanup(self) -> None:
        """Free everything the session holds; the view is unusable afterwards."""


class AnsweringView(SessionView):
    """One whose answers come in pieces."""

    @abstractmethod
    def generate(self) -> Iterator[Delta]:
        """The answer, piece by piece; where its kind has one, `set_break` ends it early."""

    def resume(self, said: str) -> Iterator[Delta] | None:  # noqa: ARG002
        """The rest of an answer that another worker began: the client already has `said`.

        Called in place of `generate`. None where an engine can only begin the answer anew.
        """
        return None


class DuplexView(SessionView):
    """One full-duplex conversation: prepare once, then prefill, generate, finalize per unit."""

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
        """Decide listen or speak for the unit just prefilled; `force_listen` stops speech at once."""

    @abstractmethod
    def finalize(self) -> None:
        """Close the unit: the bookkeeping that must precede the next prefill."""

    @abstractmethod
    def replay(self, units: Sequence[PastUnit]) -> None:
        """Rebuild the context of a conversation that another worker began. Called after `prepare`."""

    def played(self, played_ms: float) -> None:
        """The client has played so much of the current answer's sound (the last one's if none is on).

        What is broken off before it was heard is to be forgotten, by engines that can: those whose
        context cannot be cut keep what they said.
        """

    @abstractmethod
    def set_break(self) -> None:
        """Listen from the next step on, whatever was being said."""

    @abstractmethod
    def clear_break(self) -> None:
        """Undo `set_break`."""

    @property
    @abstractmethod
    def kv_cache_length(self) -> int:
        """Tokens in the session's context."""


class HalfDuplexView(AnsweringView):
    """One turn-taking voice conversation: prepare once, then prefill an utterance and generate."""

    @abstractmethod
    def prepare(
        self, system: Message, config: HalfDuplexConfig, ref_audio: Samples | None = None
    ) -> int:
        """Prefill the system message and set the voice; returns its length in tokens."""

    @abstractmethod
    def prefill(self, utterance: Samples) -> PrefillReport:
        """Append one whole utterance (float32 mono 16 kHz) as the user's turn."""

    @abstractmethod
    def memo(self) -> dict[str, Any]:
        """The engine's note on the turn just ended, for `replay`."""

    @abstractmethod
    def rollback(self) -> None:
        """Restore the context of before the turn: its utterance and answer never were."""

    @abstractmethod
    def replay(self, turns: Sequence[PastTurn]) -> None:
        """Rebuild the context of a conversation that another worker began. Called after `prepare`."""

    @abstractmethod
    def set_break(self) -> None:
        """End the answer being generated. Safe to call from any thread."""

    @property
    @abstractmethod
    def kv_cache_length(self) -> int:
        """Tokens in the session's context."""


class ChatView(AnsweringView):
    """One request: prefill the whole history, then generate the answer once."""

    @abstractmethod
    def prefill(
        self,
        messages: Sequence[Message],
        options: ChatOptions,
        ref_audio: Samples | None = None,
        on_progress: ShareDone = untold,
    ) -> int:
        """Read the history; returns its length in tokens.

        Raises UnsupportedContent naming what the engine cannot take in.
        """


class UnifiedProcessor(ABC):
    """An engine with its weights: hands out one view per session."""

    @property
    @abstractmethod
    def info(self) -> EngineInfo:
        """What this engine is and which kinds it serves."""

    @abstractmethod
    def load(self, report: LoadProgress) -> None:
        """Load weights and warm up (seconds). Raises EngineLoadError with the remedy."""

    def set_duplex_mode(self) -> DuplexView:
        """A new full-duplex session."""
        raise UnsupportedMode(f"engine {self.info.name!r} does not serve full-duplex sessions")

    def set_half_duplex_mode(self) -> HalfDuplexView:
        """A new half-duplex session."""
        raise UnsupportedMode(f"engine {self.info.name!r} does not serve half-duplex sessions")

    def set_chat_mode(self) -> ChatView:
        """A new chat request."""
        raise UnsupportedMode(f"engine {self.info.name!r} does not serve chat")

    def memory(self) -> Memory:
        """What of the device's memory is taken: by default, of the host's by this process."""
        used = psutil.Process().memory_info().rss
        return Memory(int(used), int(psutil.virtual_memory().total))

    @abstractmethod
    def close(self) -> None:
        """Release weights and threads."""
