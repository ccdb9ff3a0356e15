"""Makes one reply in the background: the model's text becomes speech, clause by clause."""

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future
from contextlib import closing
from dataclasses import dataclass

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.clauses import ClauseSplitter, clauses_of
from antiphon.inference_worker.engines.local.guard.answer_guard import AnswerGuard
from antiphon.inference_worker.engines.local.language_model import Generation, spoken_pieces
from antiphon.inference_worker.engines.local.speech import Clause, SpeechQueue, SpokenClause, Word
from antiphon.inference_worker.engines.local.voices.cancellation import (
    Cancellation,
    SynthesisCancelled,
)
from antiphon.inference_worker.engines.local.voices.speaker import Speaker
from antiphon.shared_schemas.audio import SILENCE


@dataclass(frozen=True, slots=True)
class UnfinishedReply:
    """The rest of a reply on another worker, or a greeting: words, and whether the model adds more."""

    words: tuple[Word, ...] = ()
    more: bool = True


class Reply:
    """Runs on a pool's thread from `start` until the end of the text or `cancel`.

    The conversation sets `begun` when it has sent the first words to the user.
    """

    def __init__(
        self,
        generate: Callable[[], Generation],
        speaker: Speaker | None,
        costs: StageCosts,
        word_limit: int,
        rest: UnfinishedReply | None,
        guard: AnswerGuard,
        *,
        begun: bool,
        language: str = "en",
    ) -> None:
        self._generate = generate
        self._speaker = speaker
        self._costs = costs
        self._word_limit = word_limit
        self._rest = rest or UnfinishedReply()
        self._guard = guard
        self._language = language
        self._unspoken = self._rest.words
        self._pushing = threading.Lock()
        self._cancelled = Cancellation()
        self._generation: Generation | None = None
        self._job: Future[None] | None = None
        self.begun = begun
        self.queue = SpeechQueue(continues=begun)
        self.context_tokens: int | None = None

    def start(self, pool: Executor) -> None:
        self._job = pool.submit(self._run)
        self._job.add_done_callback(lambda _: self.queue.finish())

    def cancel(self) -> None:
        """Stop the model and the voice. Safe to call from any thread, more than once."""
        self._cancelled.set()
        if self._generation is not None:
            self._generation.cancel()
        self.queue.finish()

    @property
    def failure(self) -> BaseException | None:
        """The exception of the background work, if it failed."""
        if self._job is None or not self._job.done() or self._cancelled.is_set():
            return None
        return self._job.exception()

    def unfinished(self) -> UnfinishedReply:
        """The words that another worker would have to speak if this process died now."""
        with self._pushing:
            remaining, unspoken = self.queue.remaining(), self._unspoken
        if remaining is None:
            return self._rest
        words, may_follow = remaining
        return UnfinishedReply((*words, *unspoken), self._rest.more and may_follow)

    def _run(self) -> None:
        with closing(self._clauses()) as clauses:
            for clause in clauses:
                if self._cancelled.is_set():
                    return
                try:
                    for part in self._spoken(clause):
                        with self._pushing:
                            self.queue.push(part)
                            self._unspoken = self._unspoken[len(part.words) :]
                except SynthesisCancelled:
                    return

    def _spoken(self, clause: Clause) -> Iterator[SpokenClause]:
        if self._speaker is None:
            return iter([SpokenClause(clause.words, SILENCE, (0,) * len(clause.words), ())])
        return self._speaker.speak(clause, self._costs, self._cancelled)

    def _clauses(self) -> Generator[Clause, None, None]:
        yield from clauses_of(self._rest.words, self._language)
        if self._rest.more:
            yield from self._generated(len(self._rest.words))

    def _generated(self, count: int) -> Generator[Clause, None, None]:
        """The model's clauses after `count` words. An incomplete last clause is dropped."""
        self._generation = generation = self._generate()
        if self._cancelled.is_set():  # before there was a generation
            generation.cancel()
        splitter = ClauseSplitter(self._language)
        with closing(spoken_pieces(generation, self._language)) as pieces:
            while (piece := self._next_piece(pieces)) is not None:
                for clause in splitter.feed(self._guard.feed(piece)):
                    yield clause
                    count += len(clause.words)
                    if clause.ends_sentence and count >= self._word_limit:
                        return
                if self._guard.ended:
                    break
        self.context_tokens = generation.context_tokens
        if generation.complete or self._guard.ended or not count:
            yield from splitter.feed(self._guard.flush())
            yield from splitter.flush()

    def _next_piece(self, pieces: Iterator[str]) -> str | None:
        with self._costs.measure("llm"):
            return None if self._cancelled.is_set() else next(pieces, None)
