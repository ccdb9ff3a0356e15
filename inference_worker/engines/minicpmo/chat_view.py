"""A chat request, as the worker's thread holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from inference_worker.engines.minicpmo.answering import AnsweringSlot
from inference_worker.engines.minicpmo.content import read_message
from inference_worker.engines.minicpmo.held_slot import (
    HeldSlot,
    Parts,
    clone_voice,
)
from inference_worker.engines.minicpmo.steps import Steps
from inference_worker.engines.processor import ChatView
from inference_worker.engines.types import Delta, EngineError, ShareDone, untold
from shared_schemas.audio import Samples
from shared_schemas.config import ChatOptions
from shared_schemas.content import Message

_STEPS = 3
"""Of the engine for one request: hear, see, feed."""

T = TypeVar("T")


class _Told:
    """Counts what is done of a prefill: each message prepared, each step of the engine."""

    def __init__(self, on_progress: ShareDone, count: int) -> None:
        self._on_progress = on_progress
        self._count = count
        self._done = 0

    def one(self, value: T) -> T:
        """One more is done."""
        self._done += 1
        self._on_progress(self._done / self._count)
        return value

    def steps(self, work: Steps[T]) -> Steps[T]:
        """The same work, counted."""
        answer: Any = None
        try:
            while True:
                answer = self.one((yield work.send(answer)))
        except StopIteration as end:
            value: T = end.value
            return value


class MiniCPMOChatView(ChatView):
    """One chat request in its slot."""

    def __init__(self, parts: Parts, held: HeldSlot) -> None:
        self._turns = AnsweringSlot(parts, held)
        self._options: ChatOptions | None = None

    def prefill(
        self,
        messages: Sequence[Message],
        options: ChatOptions,
        ref_audio: Samples | None = None,
        on_progress: ShareDone = untold,
    ) -> int:
        """Read the history; returns its length in tokens."""
        turns = self._turns
        if options.tts.enabled:
            turns.voice = clone_voice(turns.parts, ref_audio)
        settings = turns.parts.config.slice_config
        slices = options.max_slice_nums or settings.max_slice_nums
        told = _Told(on_progress, len(messages) + _STEPS)
        history = [
            (str(message.role), told.one(read_message(message, settings, max_slices=slices)))
            for message in messages
        ]
        reading = turns.session.chat(
            history,
            joint="" if options.omni_mode else "\n",
            thinking=options.enable_thinking,
            speak=options.use_tts_template or options.tts.enabled,
        )
        turns.held.run(told.steps(reading))
        self._options = options
        return turns.session.length

    def generate(self) -> Iterator[Delta]:
        """The answer, piece by piece."""
        if self._options is None:
            raise EngineError("prefill must come before generate")
        yield from self._turns.answer(self._options.generation)

    def stop(self) -> None:
        """Abandon work in progress."""
        self._turns.held.stop()

    def cleanup(self) -> None:
        """Erase the slot and give it back."""
        self._turns.voice = None
        self._turns.held.close()
