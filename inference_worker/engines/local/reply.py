"""One reply in the making: the model's text, clause by clause, on its way to speech."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Executor, Future
from contextlib import closing
from dataclasses import dataclass

from antiphon.inference_worker.engines.local.clauses import ClauseSplitter, ends_sentence
from antiphon.inference_worker.engines.local.costs import Costs
from antiphon.inference_worker.engines.local.llm import Generation
from antiphon.inference_worker.engines.local.speech import Clause, SpokenClause, Word
from antiphon.inference_worker.engines.local.speech_queue import SpeechQueue
from antiphon.inference_worker.engines.local.tts import Speaker
from antiphon.shared_schemas.audio import SILENCE


@dataclass(frozen=True, slots=True)
class Rest:
    """What an interrupted worker left of a reply: words ready to be said, and whether more follow."""

    words: tuple[Word, ...] = ()
    more: bool = True


class Reply:
    """Runs on a pool's thread from `start` to the end of the text or `cancel`.

    `begun` is the view's note that the user has heard some of it.
    """

    def __init__(
        self,
        generate: Callable[[], Generation],
        speaker: Speaker | None,
        costs: Costs,
        word_limit: int,
        rest: Rest | None = None,
    ) -> None:
        self._generate = generate
        self._speaker = speaker
        self._costs = costs
        self._word_limit = word_limit
        self._rest = rest or Rest()
        self._cancelled = threading.Event()
        self._job: Future[None] | None = None
        self.begun = rest is not None
        self.queue = SpeechQueue(continues=self.begun)
        self.context_tokens: int | None = None

    def start(self, pool: Executor) -> None:
        """Begin on a thread of `pool`."""
        self._job = pool.submit(self._run)
        self._job.add_done_callback(lambda _: self.queue.finish())

    def cancel(self) -> None:
        """Stop at the next token; safe from any thread, more than once."""
        self._cancelled.set()
        self.queue.finish()

    @property
    def failure(self) -> BaseException | None:
        """What ended the background work, if it failed."""
        if self._job is None or not self._job.done() or self._cancelled.is_set():
            return None
        return self._job.exception()

    def rest(self) -> Rest:
        """What a successor would have to say, should this process die now."""
        more = not self.queue.finished
        return Rest(tuple(self.queue.remaining()), more)

    def _run(self) -> None:
        previous: Clause | None = None
        with closing(self._clauses()) as clauses:
            for clause in clauses:
                if self._cancelled.is_set():
                    return
                self.queue.push(self._spoken(clause, previous))
                previous = clause

    def _spoken(self, clause: Clause, previous: Clause | None) -> SpokenClause:
        if self._speaker is None:
            return SpokenClause(clause.words, SILENCE, (0,) * len(clause.words), ())
        return self._speaker.speak(clause, previous, self._costs)

    def _clauses(self) -> Generator[Clause, None, None]:
        words = self._rest.words
        if words:
            yield Clause(words, ends_sentence=ends_sentence(words[-1].text))
        if self._rest.more:
            yield from self._generated(len(words))

    def _generated(self, count: int) -> Generator[Clause, None, None]:
        """The model's clauses after `count` words; an unfinished last one is not spoken."""
        generation = self._generate()
        splitter = ClauseSplitter()
        with closing(iter(generation)) as pieces:
            while (piece := self._next_piece(pieces)) is not None:
                for clause in splitter.feed(piece):
                    yield clause
                    count += len(clause.words)
                    if clause.ends_sentence and count >= self._word_limit:
                        return
        self.context_tokens = generation.context_tokens
        if generation.complete or not count:
            yield from splitter.flush()

    def _next_piece(self, pieces: Iterator[str]) -> str | None:
        with self._costs.measure("llm"):
            return None if self._cancelled.is_set() else next(pieces, None)
