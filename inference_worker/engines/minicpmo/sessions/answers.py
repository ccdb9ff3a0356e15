"""Streams answers from the engine thread to the thread of the session."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import dataclass

from antiphon.inference_worker.engines.minicpmo.scheduling.steps import SamplingSettings, Steps
from antiphon.inference_worker.engines.minicpmo.sessions.media_input import AudioInput
from antiphon.inference_worker.engines.minicpmo.sessions.slot_lease import EngineParts, SlotLease
from antiphon.inference_worker.engines.minicpmo.sessions.speech_output import AnswerSpeech
from antiphon.inference_worker.engines.minicpmo.sessions.turns import (
    TurnConversation,
    WrittenAnswer,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import VoiceState
from antiphon.inference_worker.engines.types import Delta
from antiphon.shared_schemas.config import GenerationConfig

UNFINISHED = "\ufffd"
"""Ends a text whose last character is incomplete."""


@dataclass(frozen=True, slots=True)
class SpokenCodes:
    """Codes of the next second of speech; `last` marks the end."""

    codes: list[int]
    last: bool


class AnswerQueue:
    """Passes the pieces of an answer from the engine thread to the session.

    `sent` is the part of the answer that the client already has.
    """

    def __init__(self, sent: str = "") -> None:
        self._pieces: queue.SimpleQueue[Delta | SpokenCodes | None] = queue.SimpleQueue()
        self._sent = sent
        self._unsent_tokens = 0

    def put_text(self, whole: str) -> None:
        """Take the whole answer so far, one token longer, and queue what is new of it."""
        self._unsent_tokens += 1
        if not whole.endswith(UNFINISHED):
            self._send(whole)

    def finish(self, whole: str) -> None:
        """Queue the rest of the answer that was held back."""
        if self._unsent_tokens:
            self._send(whole)

    def _send(self, whole: str) -> None:
        self._pieces.put(Delta(text=whole[len(self._sent) :], n_tokens=self._unsent_tokens))
        self._sent, self._unsent_tokens = whole, 0

    def put_codes(self, codes: list[int], last: bool) -> None:
        """Queue the codes of the next second of speech."""
        self._pieces.put(SpokenCodes(codes, last))

    def close(self, _outcome: object = None) -> None:
        self._pieces.put(None)

    def __iter__(self) -> Iterator[Delta | SpokenCodes]:
        while (piece := self._pieces.get()) is not None:
            yield piece


class AnsweringSession:
    """A slot and streamed answers: what half-duplex and chat have in common."""

    def __init__(self, parts: EngineParts, lease: SlotLease) -> None:
        self.parts = parts
        self.lease = lease
        self.voice: VoiceState | None = None
        self.last: WrittenAnswer | None = None
        self.broken = False
        self.session = self._new_session()

    def restart(self) -> TurnConversation:
        """Erase the slot and begin a new conversation in it."""
        self.lease.clear()
        self.session = self._new_session()
        return self.session

    def answer(self, generation: GenerationConfig, said: str = "") -> Iterator[Delta]:
        """Generate on the engine thread and yield the pieces. Closing the iterator interrupts the answer.

        `said` is the part of an answer that another worker already sent; only the rest is
        generated.
        """
        tokenizer = self.parts.tokenizer
        tokens = tokenizer.plain(tokenizer.encode(said))
        self.last, output = None, AnswerQueue(tokenizer.decode(tokens))
        work = self._generate(generation, output, tokens)
        job = self.lease.submit(work)
        job.future.add_done_callback(output.close)
        try:
            for piece in output:
                yield self._synthesize(piece) if isinstance(piece, SpokenCodes) else piece
        finally:
            self.broken = True
            wait([job.future])
        self.last = job.future.result()

    def _synthesize(self, spoken: SpokenCodes) -> Delta:
        """Runs on the thread of the reader, in parallel with the engine."""
        assert self.voice is not None
        assert self.parts.vocoder is not None
        sound = self.parts.vocoder.synthesize(self.voice, spoken.codes, last=spoken.last)
        return Delta(audio=sound)

    def _new_session(self) -> TurnConversation:
        parts, lease = self.parts, self.lease
        return TurnConversation(
            lease.slot,
            parts.tokenizer,
            AudioInput(slot=lease.slot, capacity=parts.config.audio_config.max_source_positions),
            capacity=parts.options.context_tokens,
            seed=lease.seed,
        )

    def _generate(
        self, generation: GenerationConfig, output: AnswerQueue, said: list[int]
    ) -> Steps[WrittenAnswer]:
        speech = None
        if self.voice is not None:
            context = self.parts.new_speech_context(self.lease)
            speech = AnswerSpeech(context, output.put_codes)
        answer = yield from self.session.generate(
            answer_sampling(generation),
            generation.max_new_tokens,
            output.put_text,
            lambda: self.broken,
            speech,
            said,
        )
        output.finish(answer.text)
        return answer


def answer_sampling(generation: GenerationConfig) -> SamplingSettings:
    """Sampling settings of a written answer; temperature 0 is greedy."""
    return SamplingSettings(
        greedy=generation.temperature == 0.0,
        temperature=generation.temperature,
        top_k=generation.top_k,
        top_p=generation.top_p,
        repetition_penalty=1.02,
        repetition_window=0,
        length_penalty=generation.length_penalty,
    )
