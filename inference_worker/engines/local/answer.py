"""What the half-duplex and chat views share: their slot, and the answer that they stream."""

import math
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.clauses import ClauseSplitter
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.guard.answer_guard import AnswerGuard, Repeats, mourns
from antiphon.inference_worker.engines.local.language_model import (
    Generation,
    spoken_pieces,
    word_pieces,
)
from antiphon.inference_worker.engines.local.models import LocalSlot
from antiphon.inference_worker.engines.local.rules.manner import USUAL
from antiphon.inference_worker.engines.local.self_knowledge import SelfKnowledge
from antiphon.inference_worker.engines.local.speech import Clause, TimedWord, milliseconds
from antiphon.inference_worker.engines.local.voices.cancellation import (
    Cancellation,
    SynthesisCancelled,
)
from antiphon.inference_worker.engines.local.voices.speaker import Speaker
from antiphon.inference_worker.engines.processor import AnsweringView
from antiphon.inference_worker.engines.types import Delta, EngineError
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import GenerationConfig, TtsConfig
from antiphon.shared_schemas.unit_result import TokenUsage

_LONG_SENTENCE = 1.25
"""Of the longest speech, after which it ends within a sentence too."""


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

    The text of the pieces includes markup; the audio does not. Speech ends with the sentence, or with the
    clause if that is a long one, in which it gets longer than `longest_s`. With `says_faults`, a sentence
    takes the place of an answer that the model does not give; without, it raises ModelAway.
    """

    def __init__(
        self,
        generation: Generation,
        speaker: Speaker | None,
        guard: AnswerGuard,
        *,
        says_faults: bool = False,
        language: str = "en",
        longest_s: float = math.inf,
    ) -> None:
        self.pieces: list[TimedWord] = []
        """The text yielded so far, in words with the time at which each begins."""
        self.sound_ms = 0.0
        """The audio yielded so far."""
        self._generation = generation
        self._says_faults = says_faults
        self._language = language
        self._longest_ms = longest_s * 1000
        self._speaker = speaker
        self._guard = guard
        self._ended = Cancellation()

    def end(self) -> None:
        """End the answer early. Safe to call from any thread, more than once."""
        self._ended.set()
        self._generation.cancel()

    @property
    def ended(self) -> bool:
        """`end` was called."""
        return self._ended.is_set()

    @property
    def context_tokens(self) -> int | None:
        """Length of the context after a complete answer."""
        return self._generation.context_tokens

    def __iter__(self) -> Iterator[Delta]:
        speaker = self._speaker
        tokens = 0
        for delta in self._written() if speaker is None else self._spoken(speaker):
            self._add(delta)
            tokens += delta.n_tokens
            yield delta
        if not self._ended.is_set() and (calls := self._generation.tool_calls):
            yield Delta(tool_calls=calls, n_tokens=max(0, self._generation.written_tokens - tokens))

    def _add(self, delta: Delta) -> None:
        """The words of a clause are taken to be spoken at an even pace."""
        words, length_ms = re.findall(r"\s*\S+\s*", delta.text), milliseconds(len(delta.audio))
        share_ms = length_ms / max(1, len(delta.text))
        at = 0
        for word in words:
            self.pieces.append(TimedWord(self.sound_ms + at * share_ms, word))
            at += len(word)
        self.sound_ms += length_ms

    def _pieces(self) -> Iterator[tuple[str, int]]:
        """What may be said, with the tokens that it took."""
        generation, tokens = self._generation, 0
        with closing(
            spoken_pieces(generation, self._language) if self._says_faults else iter(generation)
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
        written = self._pieces()
        for deltas, is_whole in spoken_clauses(written, speaker, self._language, self._ended):
            yield from deltas
            limit = self._longest_ms if is_whole else _LONG_SENTENCE * self._longest_ms
            if self.sound_ms >= limit:
                return


def spoken_clauses(
    pieces: Iterable[tuple[str, int]],
    speaker: Speaker,
    language: str,
    cancellation: Cancellation,
) -> Iterator[tuple[Iterator[Delta], bool]]:
    """A text clause by clause with its audio until cancelled, and whether a sentence ends with the clause.

    `pieces`: text, and the tokens that it took.
    """
    splitter, raw, tokens = ClauseSplitter(language), "", 0
    for text, more in pieces:
        tokens += more
        for character in text:
            if cancellation.is_set():
                return
            if clauses := splitter.feed(character):
                spoken = _spoken_text(raw, tokens, clauses, speaker, cancellation)
                yield spoken, clauses[-1].ends_sentence
                raw, tokens = "", 0
            raw += character
    if raw and not cancellation.is_set():
        yield _spoken_text(raw, tokens, splitter.flush(), speaker, cancellation), True


def _spoken_text(
    raw: str,
    tokens: int,
    clauses: Sequence[Clause],
    speaker: Speaker,
    cancellation: Cancellation,
) -> Iterator[Delta]:
    """The text of `clauses`, each word with the part of the audio in which it begins."""
    shown = re.findall(r"\s*\S+|\s+$", raw)
    unspoken = sum(len(clause.words) for clause in clauses)
    with suppress(SynthesisCancelled):
        for clause in clauses:
            for part in speaker.speak(clause, StageCosts(), cancellation):
                unspoken -= len(part.words)
                # Marks that are not spoken may stand alone, so the last word takes what is left.
                due = len(part.words) if unspoken else len(shown)
                if due or len(part.audio):
                    yield Delta(text="".join(shown[:due]), audio=part.audio, n_tokens=tokens)
                shown, tokens = shown[due:], 0
    if shown and not cancellation.is_set():
        yield Delta(text="".join(shown), n_tokens=tokens)


class LocalAnsweringView(AnsweringView):
    """Streams its answers from the language model, as speech if the request wants it."""

    _longest_s = math.inf
    """Of a spoken answer."""

    def __init__(self, slot: LocalSlot) -> None:
        self._slot = slot
        self._answer: LocalAnswer | None = None
        self._stopped = Cancellation()
        self._says_faults = False
        self._manner = USUAL
        self._knowledge = SelfKnowledge(slot.options)

    def _chosen_voice(self, tts: TtsConfig, reference: Samples | None) -> TtsConfig:
        if not tts.enabled:
            return tts
        voice = self._slot.models.voices.choose(tts.voice, reference)
        return tts.model_copy(update={"voice": voice})

    def _begin_answer(
        self,
        messages: Sequence[LlmMessage],
        generation: GenerationConfig,
        *,
        tts: TtsConfig,
        tools: Sequence[dict[str, Any]] = (),
        must_call: bool = False,
    ) -> LocalAnswer:
        limit, now = generation.max_new_tokens, self._knowledge.now
        text = self._slot.stream(
            messages, generation, limit, now, tools, must_call=must_call, spoken=tts.enabled
        )
        content = messages[-1]["content"]
        asks = messages[-1]["role"] == "user" and not tools and not mourns(content)
        ends_empty = asks and self._slot.options.knows_little
        return self._speak(text, tts, ends_empty=ends_empty, messages=messages)

    def _speak(
        self,
        text: Generation,
        tts: TtsConfig,
        *,
        ends_empty: bool = False,
        messages: Sequence[LlmMessage] = (),
    ) -> LocalAnswer:
        voices = self._slot.models.voices
        speaker = voices.speaker(tts.voice, self._manner) if tts.enabled else None
        options = self._slot.options
        repeats = Repeats.ALL if isinstance(text, FixedText) else options.repeats
        guard = self._slot.answer_guard(ends_empty=ends_empty, repeats=repeats, messages=messages)
        self._answer = answer = LocalAnswer(
            text,
            speaker,
            guard,
            says_faults=self._says_faults,
            language=options.language,
            longest_s=self._longest_s,
        )
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
