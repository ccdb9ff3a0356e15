"""Turn-taking sessions and chats of the simulated engine: answers by the clock, which say so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from antiphon.inference_worker.engines.processor import ChatView, HalfDuplexView
from antiphon.inference_worker.engines.simulated.options import SimulatedOptions, tone
from antiphon.inference_worker.engines.types import (
    Delta,
    PastTurn,
    PrefillReport,
    ProgressCallback,
    no_progress,
)
from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.config import ChatOptions, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage

_OPENING = "This is simulated."
_TOKENS_PER_TURN = 50
_PREFILL_STEPS = 10
_PIECE_SAMPLES = OUTPUT_RATE // 2


class SimulatedAnswers:
    """Takes the time that an answer would take; `end` cuts it short, `stop` cuts all of them."""

    def __init__(self, options: SimulatedOptions) -> None:
        self._options = options
        self._stopped = threading.Event()
        self._ended = threading.Event()

    def sleep(self, duration_ms: float) -> None:
        """Take this time, or less when ended."""
        self._ended.wait(duration_ms / 1000.0)

    def begin(self) -> None:
        """Let an end that came too late be over."""
        self._ended.clear()
        if self._stopped.is_set():
            self._ended.set()

    def end(self) -> None:
        """Say no more this time."""
        self._ended.set()

    def stop(self) -> None:
        """Say no more."""
        self._stopped.set()
        self._ended.set()

    def pieces(self, limit: int, said: str, *, speak: bool) -> Iterator[Delta]:
        """An answer's words, at most `limit`, without those that were `said` already."""
        words = [_OPENING, *(f" {n}" for n in range(2, self._options.answer_pieces + 1))]
        told = 0
        for word in words[: min(limit, self._options.answer_pieces)]:
            told += len(word)
            if told <= len(said):
                continue
            self.sleep(self._options.speak_ms)
            if self._ended.is_set():
                return
            audio = tone(_PIECE_SAMPLES) if speak else SILENCE
            yield Delta(text=word, audio=audio, n_tokens=1)


class SimulatedHalfDuplexView(HalfDuplexView):
    """A session whose every answer is the same; its memos hold `simulated`."""

    def __init__(self, options: SimulatedOptions, release: Callable[[], None]) -> None:
        self._options = options
        self._release: Callable[[], None] | None = release
        self._answers = SimulatedAnswers(options)
        self._config = HalfDuplexConfig()
        self._turns = 0

    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,  # noqa: ARG002
    ) -> int:
        """Take `prepare_ms`; returns the number of words in the prompt."""
        self._answers.sleep(self._options.prepare_ms)
        self._config, self._turns = config, 0
        return len(system.text.split())

    def prefill(self, utterance: Samples) -> PrefillReport:  # noqa: ARG002
        """Take `prefill_ms`."""
        self._answers.begin()
        self._turns += 1
        self._answers.sleep(self._options.prefill_ms)
        return PrefillReport(cost_ms=self._options.prefill_ms)

    def generate(self) -> Iterator[Delta]:
        """Words and a quiet tone, `speak_ms` each."""
        return self.resume("")

    def resume(self, said: str) -> Iterator[Delta]:
        """What follows `said`."""
        limit = self._config.generation.max_new_tokens
        return self._answers.pieces(limit, said, speak=self._config.tts.enabled)

    def memo(self) -> dict[str, Any]:
        """That nothing of it is real."""
        return {"simulated": True}

    def rollback(self) -> None:
        """Forget one turn."""
        self._turns = max(0, self._turns - 1)

    def replay(self, turns: Sequence[PastTurn]) -> None:
        """Count the turns."""
        self._turns = len(turns)

    def set_break(self) -> None:
        """End the answer."""
        self._answers.end()

    def stop(self) -> None:
        """End a sleep in progress, and every later one."""
        self._answers.stop()

    def cleanup(self) -> None:
        """Stop, and give the slot back."""
        self.stop()
        release, self._release = self._release, None
        if release is not None:
            release()

    @property
    def kv_cache_length(self) -> int:
        """A made-up number that grows by 50 with each turn."""
        return min(self._options.context_tokens, self._turns * _TOKENS_PER_TURN)


class SimulatedChatView(ChatView):
    """A request whose answer is always the same."""

    def __init__(self, options: SimulatedOptions, release: Callable[[], None]) -> None:
        self._options = options
        self._release: Callable[[], None] | None = release
        self._answers = SimulatedAnswers(options)
        self._request = ChatOptions()

    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,  # noqa: ARG002
        on_progress: ProgressCallback = no_progress,
    ) -> int:
        """Take `prefill_ms`, in steps; returns the number of words in the history."""
        for step in range(_PREFILL_STEPS):
            on_progress(step / _PREFILL_STEPS)
            self._answers.sleep(self._options.prefill_ms / _PREFILL_STEPS)
        self._request = options
        return sum(len(message.text.split()) for message in messages)

    def generate(self) -> Iterator[Delta]:
        """Words, with a quiet tone where sound is wanted, `speak_ms` each."""
        return self.resume("")

    def resume(self, said: str) -> Iterator[Delta]:
        """What follows `said`."""
        limit = self._request.generation.max_new_tokens
        return self._answers.pieces(limit, said, speak=self._request.tts.enabled)

    def stop(self) -> None:
        """End a sleep in progress, and every later one."""
        self._answers.stop()

    def cleanup(self) -> None:
        """Stop, and give the slot back."""
        self.stop()
        release, self._release = self._release, None
        if release is not None:
            release()
