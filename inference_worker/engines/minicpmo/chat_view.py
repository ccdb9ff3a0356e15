"""A chat request, as the worker's thread holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inference_worker.engines.minicpmo.answering import AnsweringSlot
from inference_worker.engines.minicpmo.content import read_message
from inference_worker.engines.minicpmo.held_slot import (
    HeldSlot,
    Parts,
    clone_voice,
)
from inference_worker.engines.processor import ChatView
from inference_worker.engines.types import Delta, EngineError
from shared_schemas.audio import Samples
from shared_schemas.config import ChatOptions
from shared_schemas.content import Message


class MiniCPMOChatView(ChatView):
    """One chat request in its slot."""

    def __init__(self, parts: Parts, held: HeldSlot) -> None:
        self._turns = AnsweringSlot(parts, held)
        self._options: ChatOptions | None = None

    def prefill(
        self, messages: Sequence[Message], options: ChatOptions, ref_audio: Samples | None = None
    ) -> int:
        """Read the history; returns its length in tokens."""
        turns = self._turns
        if options.tts.enabled:
            turns.voice = clone_voice(turns.parts, ref_audio)
        settings = turns.parts.config.slice_config
        slices = options.max_slice_nums or settings.max_slice_nums
        history = [
            (str(message.role), read_message(message, settings, max_slices=slices))
            for message in messages
        ]
        turns.held.run(
            turns.session.chat(
                history,
                joint="" if options.omni_mode else "\n",
                thinking=options.enable_thinking,
                speak=options.use_tts_template or options.tts.enabled,
            )
        )
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
