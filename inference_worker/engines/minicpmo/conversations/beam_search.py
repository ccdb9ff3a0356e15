"""Beam search with sampling: how the reference writes an answer that is not streamed."""

import math
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.conversations.text_context import TextContext
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    BEAMS,
    CANDIDATES,
    RankedTokens,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import FeedResult, Steps

NEGLIGIBLE = 1e-12
"""When the remaining candidates are together less likely, the best ones are taken without a draw."""


@dataclass(frozen=True, slots=True)
class Beam:
    """A beginning of an answer. `states` are the hidden states of its tokens that were fed."""

    tokens: tuple[int, ...] = ()
    states: tuple[Tensor, ...] = ()
    score: float = 0.0

    @property
    def mean_score(self) -> float:
        return self.score / len(self.tokens) if self.tokens else -math.inf


class BeamSearch:
    """The rules of transformers: `running` are the beams that continue, the best one first.

    Each step draws continuations of all beams without replacement (`greedy`: takes the best). The
    first three of them that end are kept. The search is done when no running beam can become better
    than the three that ended, by score per token.
    """

    def __init__(
        self, ends: Collection[int], limit: int, rng: random.Random, *, greedy: bool
    ) -> None:
        self.running = [Beam()]
        self.done = False
        self._ended: list[Beam] = []
        self._ends = frozenset(ends)
        self._limit = limit
        self._rng = rng
        self._greedy = greedy

    @property
    def best(self) -> Beam:
        """The best beam that ended; before one did, the best one that continues."""
        return (
            max(self._ended, key=lambda beam: beam.mean_score) if self._ended else self.running[0]
        )

    def advance(self, ranked: RankedTokens) -> None:
        """Continue every running beam with one of its ranked tokens, one row for each beam."""
        grown = self._continuations(ranked)
        at_limit = len(grown[0].tokens) >= self._limit
        ending = [at_limit or beam.tokens[-1] in self._ends for beam in grown]
        self._ended += [beam for beam, ends in zip(grown[:BEAMS], ending, strict=False) if ends]
        self._ended = sorted(self._ended, key=lambda beam: -beam.mean_score)[:BEAMS]
        open_beams = [beam for beam, ends in zip(grown, ending, strict=True) if not ends]
        self.running = sorted(open_beams, key=lambda beam: -beam.score)[:BEAMS]
        self.done = not self.running or (
            len(self._ended) == BEAMS and self.running[0].mean_score <= self._ended[-1].mean_score
        )

    def add_states(self, states: Sequence[Tensor]) -> None:
        """The hidden state of the last token of each running beam."""
        self.running = [
            Beam(beam.tokens, (*beam.states, state), beam.score)
            for beam, state in zip(self.running, states, strict=True)
        ]

    def _continuations(self, ranked: RankedTokens) -> list[Beam]:
        scores = ranked[0] + np.array([[beam.score] for beam in self.running])
        rows, places = np.nonzero(np.isfinite(scores))
        scores, tokens = scores[rows, places], ranked[1][rows, places]
        return [
            Beam(
                (*self.running[rows[n]].tokens, int(tokens[n])),
                self.running[rows[n]].states,
                float(scores[n]),
            )
            for n in self._chosen(scores)
        ]

    def _chosen(self, scores: npt.NDArray[np.float64]) -> list[int]:
        chosen = [] if self._greedy else self._drawn(scores)
        rest = [int(n) for n in np.argsort(-scores, kind="stable") if n not in chosen]
        return [*chosen, *rest[: CANDIDATES - len(chosen)]]

    def _drawn(self, scores: npt.NDArray[np.float64]) -> list[int]:
        weights, drawn = np.exp(scores - scores.max()), list[int]()
        weights /= weights.sum()
        while len(drawn) < CANDIDATES and weights.sum() > NEGLIGIBLE:
            sums = weights.cumsum()
            goal = self._rng.random() * sums[-1]
            index = min(
                int(np.searchsorted(sums, goal, side="right")), int(weights.nonzero()[0][-1])
            )
            drawn.append(index)
            weights[index] = 0.0
        return drawn


class BeamCursor:
    """Feeds the beams of a search to one context, from position `start` on.

    The cache contains one beam at a time. The next one is fed from the token on where it differs.
    """

    def __init__(self, context: TextContext, start: int) -> None:
        self._context = context
        self._start = start
        self._fed: tuple[int, ...] = ()

    def feed(self, beams: Sequence[tuple[int, ...]]) -> Steps[list[FeedResult]]:
        """The results of the last token of each beam. The nearest beam is fed first."""
        results = dict[int, FeedResult]()
        while len(results) < len(beams):
            left = [n for n in range(len(beams)) if n not in results]
            nearest = max(left, key=lambda n: self._shared(beams[n]))
            results[nearest] = yield from self._feed(beams[nearest])
        return [results[n] for n in range(len(beams))]

    def _feed(self, tokens: tuple[int, ...]) -> Steps[FeedResult]:
        shared = min(self._shared(tokens), len(tokens) - 1)
        self._context.length, self._fed = self._start + shared, tokens
        return (yield from self._context.feed([tokens[shared:]]))

    def _shared(self, tokens: tuple[int, ...]) -> int:
        """How many tokens `tokens` and the cache have in common."""
        pairs = zip(self._fed, tokens, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
