"""What a half-duplex and a chat view share: a slot, and streamed answers."""

import queue
from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager
from dataclasses import replace

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.minicpmo.conversations.prompts import PromptPart
from antiphon.inference_worker.engines.minicpmo.conversations.slot_lease import (
    EngineParts,
    SlotLease,
)
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import (
    ANSWER_SPEECH,
    AnswerSpeech,
)
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import (
    TurnWindow,
    counting_input,
)
from antiphon.inference_worker.engines.minicpmo.conversations.turns import (
    TurnConversation,
    WrittenAnswer,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import SamplingSettings
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Steps
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import VoiceState
from antiphon.inference_worker.engines.processor import AnsweringView
from antiphon.inference_worker.engines.types import Delta
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import GenerationConfig
from antiphon.shared_schemas.unit_result import TokenUsage

_TOP_K = 100
"""The reference's default for answers."""

UNFINISHED = "\ufffd"
"""Ends a text whose last character is incomplete."""


SpokenCodes = tuple[list[int], bool]
"""Codes of the next second of speech, and whether it is the last one."""


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

    def put_step(self) -> None:
        """Report that the search for an answer continues, so that its reader can stop it."""
        self._pieces.put(Delta())

    def put_answer(self, answer: WrittenAnswer) -> None:
        """Queue an answer whose text arrives at once."""
        self._unsent_tokens = len(answer.tokens)
        self.finish(answer.text)

    def finish(self, whole: str) -> None:
        """Queue the rest of the answer that was held back."""
        if self._unsent_tokens:
            self._send(whole)

    def _send(self, whole: str) -> None:
        self._pieces.put(Delta(text=whole[len(self._sent) :], n_tokens=self._unsent_tokens))
        self._sent, self._unsent_tokens = whole, 0

    def put_codes(self, codes: list[int], last: bool) -> None:
        self._pieces.put((codes, last))

    def close(self, _outcome: object = None) -> None:
        self._pieces.put(None)

    def __iter__(self) -> Iterator[Delta | SpokenCodes]:
        while (piece := self._pieces.get()) is not None:
            yield piece


class MiniCPMOAnsweringView(AnsweringView):
    """Generates on the engine thread, and synthesizes speech on the thread of the reader."""

    def __init__(self, parts: EngineParts, lease: SlotLease) -> None:
        self._parts = parts
        self._lease = lease
        self._voice: VoiceState | None = None
        self._last: WrittenAnswer | None = None
        self._broken = False
        self._tokens = TokenCounter()
        self._session = self._new_session()

    @abstractmethod
    def _generation(self) -> GenerationConfig:
        """Raises EngineError if there is no question."""

    def generate(self) -> Iterator[Delta]:
        return self.resume("")

    def resume(self, said: str) -> Generator[Delta, None, None]:
        """The rest of an answer that begins with `said`, which is not spoken again.

        Closing the iterator interrupts the answer.
        """
        tokenizer, generation = self._parts.tokenizer, self._generation()
        tokens = tokenizer.plain(tokenizer.encode(said))
        output = AnswerQueue(tokenizer.decode(tokens))
        yield from self._stream(output, self._write(generation, output, tokens))

    def _stream(
        self, output: AnswerQueue, writing: Steps[WrittenAnswer]
    ) -> Generator[Delta, None, None]:
        """The pieces that `writing` puts into `output`."""
        self._last = None
        if self._voice is not None and self._parts.vocoder is not None:
            self._parts.vocoder.reset(self._voice)  # the answer before may have been interrupted
        answer = self._lease.submit(writing)
        answer.add_done_callback(output.close)
        try:
            for piece in output:
                if isinstance(piece, tuple):
                    self._tokens.add(output_audio=len(piece[0]))
                    yield self._synthesize(*piece)
                else:
                    self._tokens.add(output_text=piece.n_tokens)
                    yield piece
        finally:
            self._broken = True
            wait([answer])
        self._last = answer.result()

    def take_usage(self) -> TokenUsage:
        return self._tokens.take()

    def stop(self) -> None:
        self._lease.stop()

    def cleanup(self) -> None:
        self._voice = None
        self._lease.close()

    def _counting_input(self, parts: Sequence[PromptPart] = ()) -> AbstractContextManager[None]:
        return counting_input(self._tokens, self._session, parts, self._parts.config.query_num)

    def _clone_voice(self, reference: Samples | None) -> None:
        self._voice = self._parts.clone_voice(reference)
        self._voice.whole_chunks = True

    def _synthesize(self, codes: list[int], last: bool) -> Delta:
        assert self._voice is not None
        assert self._parts.vocoder is not None
        return Delta(audio=self._parts.vocoder.synthesize(self._voice, codes, last=last))

    def _new_session(self) -> TurnConversation:
        parts, lease = self._parts, self._lease
        return TurnConversation(
            lease.slot,
            parts.tokenizer,
            capacity=parts.options.context_tokens,
            seed=lease.seed,
            window=TurnWindow(counts_as_reference=parts.options.fidelity == "upstream"),
        )

    def _write(
        self, generation: GenerationConfig, output: AnswerQueue, said: list[int]
    ) -> Steps[WrittenAnswer]:
        speech = self._speech(output)
        answer = yield from self._session.generate(
            answer_sampling(generation, spoken=speech is not None),
            generation.max_new_tokens,
            output.put_text,
            lambda: self._broken,
            speech,
            said,
        )
        output.finish(answer.text)
        return answer

    def _speech(self, output: AnswerQueue) -> AnswerSpeech | None:
        if self._voice is None:
            return None
        context = self._parts.new_speech_context(self._lease, ANSWER_SPEECH)
        return AnswerSpeech(context, output.put_codes, lambda: self._broken)


def answer_sampling(generation: GenerationConfig, *, spoken: bool) -> SamplingSettings:
    """Sampling settings of a written answer; temperature 0 is greedy."""
    return SamplingSettings(
        greedy=generation.temperature == 0.0,
        temperature=generation.temperature,
        top_k=_TOP_K if generation.top_k is None else generation.top_k,
        top_p=generation.top_p,
        repetition_penalty=1.02,
        length_penalty=generation.length_penalty,
        speakable=spoken,
    )


def search_sampling(generation: GenerationConfig) -> SamplingSettings:
    """Settings of the beam search for an answer that is not streamed."""
    sampling = answer_sampling(generation, spoken=False)
    return replace(sampling, repetition_penalty=1.2) if sampling.greedy else sampling
