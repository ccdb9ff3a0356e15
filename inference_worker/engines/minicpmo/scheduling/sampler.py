"""Samples the next text token or audio code of several sessions at once. Each row has its settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import Fidelity
from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import SpecialIds
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CodeRow,
    SampledToken,
    TokenRow,
    bucket,
)
from antiphon.inference_worker.engines.types import EngineError

NEVER = float("-inf")
PENALTY_WINDOW = 16
"""Recent codes that the repetition penalty of speech applies to."""

TIE_MARGIN = 64
"""Candidates beyond top_k, for ids that tie with the last one. More ties are ignored."""


class Sampler:
    """The reference's order of operations. Each row is independent of the others.

    `fidelity="fixed"` differs in two places. The repetition penalty lowers a negative logit instead
    of raising it, and listen_prob_scale scales the probability of `<|listen|>` (upstream scales the
    logit of `<|im_end|>`).

    A written answer has no units, and no choice to listen: only repetition penalty, temperature,
    top-k and top-p apply, and the length penalty to the tokens that end the answer.
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
        self._ends = (ids.eos, ids.tts_eos) if written else (ids.turn_eos,)
        self._forbidden = sorted({*forbidden, ids.chunk_eos})
        self._fixed = fidelity == "fixed"

    def sample(self, logits: Tensor, rows: Sequence[TokenRow]) -> list[SampledToken | EngineError]:
        """One token per row of `logits` (rows, vocabulary); an exception for a row that is not finite."""
        sound = logits.isfinite().all(dim=-1)
        logits = logits.nan_to_num()
        adjusted = self.adjust(logits, rows)
        if self._written:
            early = cut = torch.zeros_like(sound)
        else:
            early, cut = self._early_end(logits, rows), self._listen_cut(adjusted, rows)
        tokens = self._draw(adjusted, rows)
        # The only point where the host waits for the device.
        table = torch.stack([sound.long(), early.long(), cut.long(), tokens]).tolist()
        return [
            self._sampled(*row) if ok else not_finite_error()
            for ok, *row in zip(*table, strict=True)
        ]

    def adjust(self, logits: Tensor, rows: Sequence[TokenRow]) -> Tensor:
        """Apply forbidden ids, repetition penalty, length penalty and listen scale, (rows, vocabulary)."""
        out = logits.clone()
        self._forbid(out)
        self._penalise_repetition(out, rows)
        settings = [row.settings for row in rows]
        penalty = _column(logits, [s.length_penalty for s in settings])
        for end in self._ends:
            out[:, end] = torch.where(out[:, end] > 0, out[:, end] / penalty, out[:, end] * penalty)
        if self._written:
            return out
        scale = _column(logits, [s.listen_prob_scale for s in settings])
        if self._fixed:
            out[:, self.ids.listen] += scale.log()
        else:
            out[:, self.ids.eos] *= scale
        return out

    def probabilities(self, adjusted: Tensor, rows: Sequence[TokenRow]) -> tuple[Tensor, Tensor]:
        """The distribution of the final draw: probabilities in falling order, and their ids."""
        settings, vocabulary = [row.settings for row in rows], adjusted.shape[1]
        heat = _column(adjusted, [s.temperature or 1.0 for s in settings])[:, None]
        wanted = max(candidate_count(s.top_k, vocabulary) for s in settings)
        ranked, order = top_scores(adjusted / heat, wanted)
        last = [min(s.top_k or vocabulary, vocabulary) - 1 for s in settings]
        threshold = ranked.gather(1, device_tensor(last, ranked.device)[:, None])
        ranked = ranked.masked_fill(ranked < threshold, NEVER)
        mass = ranked.softmax(dim=-1)
        limit = _column(mass, [s.top_p or 2.0 for s in settings])[:, None]
        above = torch.zeros_like(mass)
        above[:, 1:] = mass.cumsum(dim=-1)[:, :-1]
        return ranked.masked_fill(above > limit, NEVER).softmax(dim=-1), order

    def _early_end(self, logits: Tensor, rows: Sequence[TokenRow]) -> Tensor:
        """Whether the raw logits choose `<|chunk_eos|>`; the rest is then skipped."""
        chance = logits.softmax(dim=-1)[:, self.ids.chunk_eos]
        drawn = _column(logits, [row.draws[0] for row in rows]) < chance
        greedy = device_tensor([row.settings.greedy for row in rows], logits.device, torch.bool)
        return torch.where(greedy, logits.argmax(dim=-1) == self.ids.chunk_eos, drawn)

    def _forbid(self, out: Tensor) -> None:
        out.index_fill_(1, device_tensor(self._forbidden, out.device), NEVER)

    def _penalise_repetition(self, out: Tensor, rows: Sequence[TokenRow]) -> None:
        recent = [row.recent for row in rows]
        width = max(map(len, recent))
        if not width:
            return
        # Padding repeats a forbidden id: minus infinity stays the same under any penalty.
        filler = self._forbidden[0]
        table = device_tensor([ids + [filler] * (width - len(ids)) for ids in recent], out.device)
        penalty = _column(out, [row.settings.repetition_penalty for row in rows])[:, None]
        seen = out.gather(1, table)
        lowered = seen / penalty
        if self._fixed:
            lowered = torch.where(seen > 0, lowered, seen * penalty)
        out.scatter_(1, table, lowered)

    def _listen_cut(self, adjusted: Tensor, rows: Sequence[TokenRow]) -> Tensor:
        ranks = (adjusted > adjusted[:, self.ids.eos, None]).sum(dim=-1)
        limits = [row.settings.listen_top_k or 0 for row in rows]
        return ranks < device_tensor(limits, ranks.device)

    def _draw(self, adjusted: Tensor, rows: Sequence[TokenRow]) -> Tensor:
        """Rows with equal candidate counts draw together, so the result of a row does not depend on
        the others.
        """
        tokens, groups = adjusted.argmax(dim=-1), defaultdict[int, list[int]](list)
        for index, row in enumerate(rows):
            if not row.settings.greedy:
                groups[candidate_count(row.settings.top_k, adjusted.shape[1])].append(index)
        for members in groups.values():
            drawing = [rows[index] for index in members]
            places = device_tensor(members, adjusted.device)
            chances, order = self.probabilities(adjusted[places], drawing)
            drawn = draw_index(chances, [row.draws[1] for row in drawing])
            tokens[places] = order.gather(1, drawn[:, None])[:, 0]
        return tokens

    def _sampled(self, early: int, cut: int, token: int) -> SampledToken:
        if early:
            return SampledToken(self.ids.chunk_eos, recorded=False)
        if cut:
            return SampledToken(self.ids.eos, recorded=False)
        return SampledToken(token, recorded=True)


def draw_index(chances: Tensor, draws: Sequence[float]) -> Tensor:
    """The index in each row of `chances` (rows, n) at which the cumulative sum passes the draw."""
    sums = chances.cumsum(dim=-1)
    goal = _column(chances, draws)[:, None] * sums[:, -1:]
    index = torch.searchsorted(sums, goal, right=True)[:, 0]
    last = (chances > 0).long().cumsum(dim=-1).argmax(dim=-1)
    return torch.minimum(index, last)


def _column(like: Tensor, values: Sequence[float]) -> Tensor:
    return device_tensor(values, like.device, like.dtype)


def not_finite_error() -> EngineError:
    """The exception of a session whose logits are not finite."""
    return EngineError("the model produced values that are not finite for this session")


def candidate_count(top_k: int, vocabulary: int) -> int:
    """How many of the top ids a draw with `top_k` (0 is off) may need."""
    return min(vocabulary, bucket(top_k) + TIE_MARGIN) if top_k else vocabulary


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


def code_probabilities(logits: Tensor, rows: Sequence[CodeRow]) -> Tensor:
    """The distribution of the draw for raw `logits` (rows, codes). The end code is the last."""
    heat = device_tensor([row.settings.temperature for row in rows], logits.device, logits.dtype)
    scores = logits / heat[:, None]
    factors = _repetition_factors(rows, scores)
    scores = torch.where(scores < 0, scores * factors, scores / factors)
    held = device_tensor([not row.may_end for row in rows], logits.device, torch.bool)
    scores[:, -1] = scores[:, -1].masked_fill(held, NEVER)
    return scores.softmax(dim=-1)


def sample_codes(logits: Tensor, rows: Sequence[CodeRow]) -> list[int | EngineError]:
    """One code per row; an exception for a row that is not finite."""
    sound = logits.isfinite().all(dim=-1)
    chances = code_probabilities(logits.nan_to_num(), rows)
    drawn = draw_index(chances, [row.draw for row in rows])
    greedy = device_tensor([row.settings.greedy for row in rows], logits.device, torch.bool)
    codes = torch.where(greedy, chances.argmax(dim=-1), drawn)
    table = torch.stack([sound.long(), codes]).tolist()
    return [code if ok else not_finite_error() for ok, code in zip(*table, strict=True)]


def _repetition_factors(rows: Sequence[CodeRow], scores: Tensor) -> Tensor:
    """The penalty to the power of the recent count of each code, (rows, codes).

    Powers are computed on the host: on the device, their last bit could depend on the other rows.
    """
    recent = [list(row.codes[-PENALTY_WINDOW:]) for row in rows]
    longest, width = max(map(len, recent)), scores.shape[1]
    table = device_tensor(
        [codes + [width] * (longest - len(codes)) for codes in recent], scores.device
    )
    counts = torch.zeros(len(rows), width + 1, dtype=torch.long, device=scores.device)
    counts.scatter_add_(1, table.view(len(rows), longest), torch.ones_like(table))
    penalties = [row.settings.repetition_penalty for row in rows]
    powers = [[penalty**n for n in range(PENALTY_WINDOW + 1)] for penalty in penalties]
    return device_tensor(powers, scores.device, scores.dtype).gather(1, counts[:, :width])
