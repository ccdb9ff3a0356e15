"""Samples the next text token of several sessions at once, each with its settings and its history."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import Fidelity
from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import SpecialIds
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CANDIDATES,
    RankedTokens,
    SampledToken,
    SamplingSettings,
    TokenRow,
    bucket,
)
from antiphon.inference_worker.engines.types import EngineError

NEVER = float("-inf")
MIN_CANDIDATES = 3
"""Tokens and codes that top-k and top-p retain in any case: one of them does not end the answer."""

ANY_RANK = 2**24
USUAL_TOP_K = 128
TIE_MARGIN = 64
"""Candidates beyond top_k, for ids that tie with the last one. More ties are ignored."""


class Sampler:
    """The reference's order of operations. Each row is independent of the others.

    `fidelity="fixed"` differs in two places. The repetition penalty lowers a negative logit instead
    of raising it, and listen_prob_scale scales the probability of `<|listen|>` (upstream scales the
    logit of `<|im_end|>`).

    A written answer has no units, and no choice to listen: only repetition penalty, temperature,
    top-k and top-p apply, and the length penalty to the tokens that end the answer. If it is spoken,
    it has no characters that cannot be spoken.
    """

    def __init__(
        self,
        ids: SpecialIds,
        forbidden: Sequence[int],
        fidelity: Fidelity,
        *,
        written: bool = False,
    ) -> None:
        self.ids = ids
        self._written = written
        self._ends = ids.answer_ends if written else (ids.turn_eos,)
        self._forbidden = sorted({*forbidden, *(() if written else (ids.chunk_eos,))})
        self._fixed = fidelity == "fixed"
        self._forbidden_ids: Tensor | None = None

    def for_answers(self) -> Sampler:
        """The sampler of written answers, which uses the reference's rules in each fidelity."""
        return Sampler(self.ids, self.ids.unspeakable, "fixed", written=True)

    def choose(self, logits: Tensor, settings: Tensor, said: Tensor, candidates: int) -> Tensor:
        """Choose a token for each row of `logits` (rows, vocabulary), without the host: a table (4, rows).

        Its columns: is the row finite, did `<|chunk_eos|>` or the choice to listen come first, and the
        token. `settings` are those of `settings_table`, `said` (rows, vocabulary) the tokens that the
        penalty applies to, and `candidates` the number of top scores that a draw may need.
        """
        row, sound = RowSettings(*settings), logits.isfinite().all(dim=-1)
        logits = logits.nan_to_num()
        adjusted = self.adjust(logits, row, said)
        if self._written:
            early = cut = torch.zeros_like(sound)
        else:
            early, cut = self._early_end(logits, row), self._listen_cut(adjusted, row)
        chances, order = self.probabilities(adjusted, row, candidates)
        drawn = order.gather(1, draw_index(chances, row.last_draw)[:, None])[:, 0]
        tokens = torch.where(row.greedy > 0, adjusted.argmax(dim=-1), drawn)
        return torch.stack([sound.long(), early.long(), cut.long(), tokens])

    def read(
        self, table: Sequence[Sequence[int]], rows: Sequence[TokenRow]
    ) -> list[SampledToken | EngineError]:
        """The tokens of `rows`; the table may be longer. An exception for a row that is not finite."""
        columns = zip(rows, *table, strict=False)
        return [self._sampled(*rest) if ok else not_finite_error() for _, ok, *rest in columns]

    def adjust(self, logits: Tensor, settings: RowSettings, said: Tensor) -> Tensor:
        """Apply forbidden ids, repetition penalty, length penalty and listen scale, (rows, vocabulary)."""
        out = self._penalise_repetition(self._forbid(logits, settings), settings, said)
        penalty = settings.length_penalty
        for end in self._ends:
            out[:, end] = torch.where(out[:, end] > 0, out[:, end] / penalty, out[:, end] * penalty)
        if self._written:
            return out
        if self._fixed:
            out[:, self.ids.listen] += settings.listen_prob_scale.log()
        else:
            out[:, self.ids.eos] *= settings.listen_prob_scale
        return out

    def probabilities(
        self, adjusted: Tensor, settings: RowSettings, candidates: int
    ) -> tuple[Tensor, Tensor]:
        """The distribution of the final draw: probabilities in falling order, and their ids."""
        ranked, order = top_scores(adjusted / settings.temperature[:, None], candidates)
        last = settings.last_candidate.clamp(max=candidates - 1).long()
        threshold = ranked.gather(1, last[:, None])
        ranked = ranked.masked_fill(ranked < threshold, NEVER)
        mass = ranked.softmax(dim=-1)
        limit = settings.top_p[:, None]
        above = torch.zeros_like(mass)
        above[:, 1:] = mass.cumsum(dim=-1)[:, :-1]
        return ranked.masked_fill(above > limit, NEVER).softmax(dim=-1), order

    def _early_end(self, logits: Tensor, settings: RowSettings) -> Tensor:
        """Whether the raw logits choose `<|chunk_eos|>`; the rest is then skipped."""
        chance = logits.softmax(dim=-1)[:, self.ids.chunk_eos]
        best = logits.argmax(dim=-1) == self.ids.chunk_eos
        return torch.where(settings.greedy > 0, best, settings.first_draw < chance)

    def _forbid(self, logits: Tensor, settings: RowSettings) -> Tensor:
        if self._forbidden_ids is None:
            self._forbidden_ids = device_tensor(self._forbidden, logits.device)
        allowed = logits.index_fill(1, self._forbidden_ids, NEVER)
        if not self._written:
            return allowed
        return torch.where(settings.speakable[:, None] > 0, allowed, logits)

    def _penalise_repetition(self, out: Tensor, settings: RowSettings, said: Tensor) -> Tensor:
        penalty = settings.repetition_penalty[:, None]
        lowered = out / penalty
        if self._fixed:
            lowered = torch.where(out > 0, lowered, out * penalty)
        return torch.where(said, lowered, out)

    def _listen_cut(self, adjusted: Tensor, settings: RowSettings) -> Tensor:
        ranks = (adjusted > adjusted[:, self.ids.eos, None]).sum(dim=-1)
        return ranks < settings.listen_top_k

    def _sampled(self, early: int, cut: int, token: int) -> SampledToken:
        if early:
            return SampledToken(self.ids.chunk_eos, recorded=False)
        if cut:
            return SampledToken(self.ids.eos, recorded=False)
        return SampledToken(token, recorded=True)


class RowSettings(NamedTuple):
    """The settings and draws of all rows, (rows,) each.

    `greedy` and `speakable` are 1 or 0. `last_candidate` is the rank of the last token that top-k
    retains; it may exceed the candidates. `top_p` is above 1 if it is off.
    """

    greedy: Tensor
    temperature: Tensor
    last_candidate: Tensor
    top_p: Tensor
    listen_prob_scale: Tensor
    listen_top_k: Tensor
    repetition_penalty: Tensor
    length_penalty: Tensor
    speakable: Tensor
    first_draw: Tensor
    last_draw: Tensor


def settings_table(rows: Sequence[TokenRow], device: torch.device) -> Tensor:
    """The RowSettings of `rows`, (settings, rows), in one copy."""
    columns = [(*_numbers(row.settings), *row.draws) for row in rows]
    return device_tensor(columns, device, torch.float32).T


@lru_cache(maxsize=1024)
def _numbers(settings: SamplingSettings) -> tuple[float, ...]:
    return (
        float(settings.greedy),
        settings.temperature or 1.0,
        settings.top_k - 1 if settings.top_k else ANY_RANK,
        settings.top_p or 2.0,
        settings.listen_prob_scale,
        settings.listen_top_k or 0,
        settings.repetition_penalty,
        settings.length_penalty,
        float(settings.speakable),
    )


def draw_index(chances: Tensor, draws: Tensor) -> Tensor:
    """The index in each row of `chances` (rows, n) at which the cumulative sum passes the draw."""
    sums = chances.cumsum(dim=-1)
    goal = draws[:, None] * sums[:, -1:]
    index = torch.searchsorted(sums, goal, right=True)[:, 0]
    last = (chances > 0).long().cumsum(dim=-1).argmax(dim=-1)
    return torch.minimum(index, last)


def not_finite_error() -> EngineError:
    """The exception of a session whose logits are not finite."""
    return EngineError("the model produced values that are not finite for this session")


def candidate_count(top_k: int, vocabulary: int) -> int:
    """How many of the top ids a draw with `top_k` (0 is off) may need. The usual values of `top_k` have
    the same count, so that they share a batch.
    """
    return min(vocabulary, max(USUAL_TOP_K, bucket(top_k)) + TIE_MARGIN) if top_k else vocabulary


def top_scores(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest scores of each row in falling order, and their ids: (rows, count).

    Ties are ordered by id. This avoids a sort of the whole vocabulary for each token.
    """
    if count == scores.shape[1]:
        ranked, order = scores.sort(dim=-1, descending=True, stable=True)
        return ranked, order
    _, found = scores.topk(count, dim=-1, sorted=False)
    ids = found.sort(dim=-1).values
    ranked, places = scores.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return ranked, ids.gather(1, places)


def rank_tokens(
    logits: Tensor, written: Sequence[Sequence[int]], settings: SamplingSettings
) -> RankedTokens | EngineError:
    """Log-probabilities of the best tokens of each row of `logits` (beams, vocabulary), after the
    repetition penalty of the tokens in `written`; if not greedy, also temperature, top-k and top-p.
    """
    scores = _penalised(logits.log_softmax(dim=-1), written, settings.repetition_penalty)
    if settings.greedy:
        ranked, order = top_scores(scores, CANDIDATES)
    else:
        ranked, order = _restricted(scores / settings.temperature, settings)
    # The only point where the host waits for the device. Ids are exact in float64.
    table = torch.stack([ranked.double(), order.double()]).cpu().numpy()
    if np.isnan(table[0]).any():
        return not_finite_error()
    return table[0], table[1].astype(np.int64)


def _penalised(scores: Tensor, written: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """A log-probability is never positive, so the penalty multiplies."""
    vocabulary = scores.shape[1]
    places = [row * vocabulary + token for row, said in enumerate(written) for token in set(said)]
    if not places:
        return scores
    said = torch.zeros_like(scores, dtype=torch.bool)
    said.view(-1)[device_tensor(places, scores.device)] = True
    return torch.where(said, scores * penalty, scores)


def _restricted(scores: Tensor, settings: SamplingSettings) -> tuple[Tensor, Tensor]:
    vocabulary = scores.shape[1]
    top_k = max(settings.top_k, MIN_CANDIDATES) if settings.top_k else vocabulary
    ranked, order = top_scores(scores, candidate_count(settings.top_k and top_k, vocabulary))
    if top_k < vocabulary:
        ranked = ranked.masked_fill(ranked < ranked[:, top_k - 1, None], NEVER)
    if 0 < settings.top_p < 1:
        # The share of a token and of all less likely ones.
        rest = ranked.softmax(dim=-1).flip(-1).cumsum(dim=-1).flip(-1)
        rare = rest <= 1 - settings.top_p
        rare[:, :MIN_CANDIDATES] = False
        ranked = ranked.masked_fill(rare, NEVER)
    return ranked, order
