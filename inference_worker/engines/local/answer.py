"""One answer of a turn-taking session: the model's text as it comes, spoken clause by clause."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from antiphon.inference_worker.engines.local.clauses import ClauseSplitter
from antiphon.inference_worker.engines.local.costs import Costs
from antiphon.inference_worker.engines.local.llm import Generation
from antiphon.inference_worker.engines.local.speech import Clause
from antiphon.inference_worker.engines.local.tts import Speaker
from antiphon.inference_worker.engines.types import Delta


class Answer:
    """Iterate over it once. Without a speaker each piece is a token, with one a clause and its sound.

    The pieces' texts make the model's text, markup included; only the sound leaves that out.
    """

    def __init__(self, generation: Generation, speaker: Speaker | None) -> None:
        self.text = ""
        """What was handed out so far."""
        self._generation = generation
        self._speaker = speaker
        self._costs = Costs()
        self._previous: Clause | None = None
        self._ended = threading.Event()

    def end(self) -> None:
        """Say nothing more; safe from any thread, more than once."""
        self._ended.set()
        self._generation.cancel()

    @property
    def context_tokens(self) -> int | None:
        """Length of the context after an answer that was made to its end."""
        return self._generation.context_tokens

    def __iter__(self) -> Iterator[Delta]:
        deltas = self._written() if self._speaker is None else self._spoken(self._speaker)
        for delta in deltas:
            self.text += delta.text
            yield delta

    def _pieces(self) -> Iterator[str]:
        with closing(iter(self._generation)) as pieces:
            for piece in pieces:
                if self._ended.is_set():
                    return
                yield piece

    def _written(self) -> Iterator[Delta]:
        for piece in self._pieces():
            yield Delta(text=piece, n_tokens=1)

    def _spoken(self, speaker: Speaker) -> Iterator[Delta]:
        splitter, raw, tokens = ClauseSplitter(), "", 0
        for piece in self._pieces():
            tokens += 1
            for character in piece:
                if clauses := splitter.feed(character):
                    yield self._voiced(speaker, raw, clauses, tokens)
                    raw, tokens = "", 0
                raw += character
        if raw and not self._ended.is_set():
            yield self._voiced(speaker, raw, splitter.flush(), tokens)

    def _voiced(self, speaker: Speaker, raw: str, clauses: list[Clause], tokens: int) -> Delta:
        audio = [np.zeros(0, dtype=np.float32)]
        for clause in clauses:
            audio.append(speaker.speak(clause, self._previous, self._costs).audio)
            self._previous = clause
        return Delta(text=raw, audio=np.concatenate(audio), n_tokens=tokens)
