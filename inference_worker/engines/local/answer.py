"""What the half-duplex and chat views share: their slot, and the answer that they stream."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.clauses import ClauseSplitter
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.guard import AnswerGuard
from antiphon.inference_worker.engines.local.language_model import (
    Generation,
    spoken_pieces,
    word_pieces,
)
from antiphon.inference_worker.engines.local.models import LocalSlot
from antiphon.inference_worker.engines.local.rules.manner import USUAL
from antiphon.inference_worker.engines.local.self_knowledge import SelfKnowledge
from antiphon.inference_worker.engines.local.speech import Clause
from antiphon.inference_worker.engines.local.voices.speaker import Speaker
from antiphon.inference_worker.engines.processor import AnsweringView
from antiphon.inference_worker.engines.types import Delta, EngineError
from antiphon.shared_schemas.audio import SILENCE
from antiphon.shared_schemas.config import GenerationConfig, TtsConfig
from antiphon.shared_schemas.unit_result import TokenUsage


class FixedText(Generation):
    """Text that the language model does not write, such as a greeting."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._pieces = word_pieces(text)
        self.written_tokens = len(self._pieces)

    def __iter__(self) -> Generator[str, None, None]:  # noqa: PYI058  # its reader closes it
        yield from self._pieces

    def cancel(self) -> None:
        """Has nothing to end: the text is complete."""


class LocalAnswer:
    """Iterate once: for words, or for clauses with their audio if there is a speaker.

    The text of the pieces includes markup; the audio does not. With `says_faults`, a sentence takes the
    place of an answer that the model does not give; without, it raises ModelAway.
    """

    def __init__(
        self,
        generation: Generation,
        speaker: Speaker | None,
        guard: AnswerGuard,
        *,
        says_faults: bool = False,
    ) -> None:
        self.text = ""
        """The text yielded so far."""
        self._generation = generation
        self._says_faults = says_faults
        self._speaker = speaker
        self._guard = guard
        self._costs = StageCosts()
        self._ended = threading.Event()

    def end(self) -> None:
        """End the answer early. Safe to call from any thread, more than once."""
        self._ended.set()
        self._generation.cancel()

    @property
    def context_tokens(self) -> int | None:
        """Length of the context after a complete answer."""
        return self._generation.context_tokens

    def __iter__(self) -> Iterator[Delta]:
        speaker = self._speaker
        tokens = 0
        for delta in self._written() if speaker is None else self._spoken(speaker):
            self.text += delta.text
            tokens += delta.n_tokens
            yield delta
        if not self._ended.is_set() and (calls := self._generation.tool_calls):
            yield Delta(tool_calls=calls, n_tokens=max(0, self._generation.written_tokens - tokens))

    def _pieces(self) -> Iterator[tuple[str, int]]:
        """What may be said, with the tokens that it took."""
        generation, tokens = self._generation, 0
        with closing(
            spoken_pieces(generation) if self._says_faults else iter(generation)
        ) as pieces:
            try:
                for piece in pieces:
                    if self._ended.is_set():
                        return
                    tokens += 1
                    if text := self._guard.feed(piece):
                        yield text, tokens
                        tokens = 0
                    if self._guard.ended:
                        return
            except EngineError:
                if text := self._guard.flush():
                    yield text, tokens
                raise
        if not self._ended.is_set() and (text := self._guard.flush()):
            yield text, tokens

    def _written(self) -> Iterator[Delta]:
        for text, tokens in self._pieces():
            yield Delta(text=text, n_tokens=tokens)

    def _spoken(self, speaker: Speaker) -> Iterator[Delta]:
        splitter, raw, tokens = ClauseSplitter(), "", 0
        for text, more in self._pieces():
            tokens += more
            for character in text:
                if clauses := splitter.feed(character):
                    yield self._voiced(speaker, raw, clauses, tokens)
                    raw, tokens = "", 0
                raw += character
        if raw and not self._ended.is_set():
            yield self._voiced(speaker, raw, splitter.flush(), tokens)

    def _voiced(self, speaker: Speaker, raw: str, clauses: list[Clause], tokens: int) -> Delta:
        audio = [SILENCE, *(speaker.speak(clause, self._costs).audio for clause in clauses)]
        return Delta(text=raw, audio=np.concatenate(audio), n_tokens=tokens)


class LocalAnsweringView(AnsweringView):
    """Streams its answers from the language model, as speech if the request wants it."""

    def __init__(self, slot: LocalSlot) -> None:
        self._slot = slot
        self._answer: LocalAnswer | None = None
        self._stopped = threading.Event()
        self._says_faults = False
        self._manner = USUAL
        self._knowledge = SelfKnowledge(slot.options)

    def _begin_answer(
        self,
        messages: Sequence[LlmMessage],
        generation: GenerationConfig,
        *,
        tts: TtsConfig,
        tools: Sequence[dict[str, Any]] = (),
    ) -> LocalAnswer:
        limit = generation.max_new_tokens
        text = self._slot.stream(messages, generation, limit, self._knowledge.now, tools)
        return self._speak(text, tts)

    def _speak(self, text: Generation, tts: TtsConfig) -> LocalAnswer:
        voices = self._slot.models.voices
        speaker = voices.speaker(tts.voice, self._manner) if tts.enabled else None
        guard = AnswerGuard(filter_obscene=self._slot.options.filter_obscene)
        self._answer = answer = LocalAnswer(text, speaker, guard, says_faults=self._says_faults)
        if self._stopped.is_set():
            answer.end()
        return answer

    def _end_answer(self) -> None:
        if (answer := self._answer) is not None:
            answer.end()

    def take_usage(self) -> TokenUsage:
        return self._slot.tokens.take()

    def stop(self) -> None:
        self._stopped.set()
        self._end_answer()

    def cleanup(self) -> None:
        self.stop()
        self._slot.close()
