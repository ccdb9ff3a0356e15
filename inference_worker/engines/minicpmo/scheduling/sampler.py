"""Samples the next text token of several sessions at once, each with its settings and its history."""

from __future__ import annotations

from collections import defaultdict
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
"""Tokens that top-k and top-p retain in any case: one that does not end the answer."""

ANY_RANK = 2**24
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
        self._history: TokenHistory | None = None
        self._forbidden_ids: Tensor | None = None

    def for_answers(self) -> Sampler:
        """The sampler of written answers, which uses the reference's rules in each fidelity."""
        return Sampler(self.ids, self.ids.unspeakable, "fixed", written=True)

    def sample(self, logits: Tensor, rows: Sequence[TokenRow]) -> list[SampledToken | EngineError]:
        """One token per row of `logits` (rows, vocabulary); an exception for a row that is not finite."""
        sound = logits.isfinite().all(dim=-1)
        logits = logits.nan_to_num()
        settings = RowSettings.of(rows, logits)
        adjusted = self.adjust(logits, rows, settings)
        if self._written:
            early = cut = torch.zeros_like(sound)
        else:
            early, cut = self._early_end(logits, settings), self._listen_cut(adjusted, settings)
        tokens = self._draw(adjusted, rows, settings)
        # The only point where the host waits for the device.
        table = torch.stack([sound.long(), early.long(), cut.long(), tokens]).tolist()
        return [
            self._sampled(*row) if ok else not_finite_error()
            for ok, *row in zip(*table, strict=True)
        ]

    def adjust(
        self, logits: Tensor, rows: Sequence[TokenRow], settings: RowSettings | None = None
    ) -> Tensor:
        """Apply forbidden ids, repetition penalty, length penalty and listen scale, (rows, vocabulary)."""
        settings = settings or RowSettings.of(rows, logits)
        out = self._penalise_repetition(self._forbid(logits, settings), rows, settings)
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
        self,
        adjusted: Tensor,
        rows: Sequence[TokenRow],
        settings: RowSettings | None = None,
        wanted: int = 0,
    ) -> tuple[Tensor, Tensor]:
        """The distribution of the final draw: probabilities in falling order, and their ids."""
        settings = settings or RowSettings.of(rows, adjusted)
        vocabulary = adjusted.shape[1]
        wanted = wanted or max(candidate_count(row.settings.top_k, vocabulary) for row in rows)
        ranked, order = top_scores(adjusted / settings.temperature[:, None], wanted)
        last = settings.last_candidate.clamp(max=vocabulary - 1).long()
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

    def _penalise_repetition(
        self, out: Tensor, rows: Sequence[TokenRow], settings: RowSettings
    ) -> Tensor:
        if self._history is None:
            self._history = TokenHistory(out.shape[1], out.device)
        penalty = settings.repetition_penalty[:, None]
        lowered = out / penalty
        if self._fixed:
            lowered = torch.where(out > 0, lowered, out * penalty)
        return torch.where(self._history.said(rows), lowered, out)

    def _listen_cut(self, adjusted: Tensor, settings: RowSettings) -> Tensor:
        ranks = (adjusted > adjusted[:, self.ids.eos, None]).sum(dim=-1)
        return ranks < settings.listen_top_k

    def _draw(self, adjusted: Tensor, rows: Sequence[TokenRow], settings: RowSettings) -> Tensor:
        """Rows with equal candidate counts draw together, so the result of a row does not depend on
        the others.
        """
        tokens, groups = adjusted.argmax(dim=-1), defaultdict[int, list[int]](list)
        for index, row in enumerate(rows):
            if not row.settings.greedy:
                groups[candidate_count(row.settings.top_k, adjusted.shape[1])].append(index)
        for count, members in groups.items():
            places = device_tensor(members, adjusted.device)
            own = RowSettings(*torch.stack(settings)[:, places])
            chances, order = self.probabilities(adjusted[places], rows, own, count)
            drawn = draw_index(chances, own.last_draw)
            tokens[places] = order.gather(1, drawn[:, None])[:, 0]
        return tokens

    def _sampled(self, early: int, cut: int, token: int) -> SampledToken:
        if early:
            return SampledToken(self.ids.chunk_eos, recorded=False)
        if cut:
            return SampledToken(self.ids.eos, recorded=False)
        return SampledToken(token, recorded=True)


class RowSettings(NamedTuple):
    """The settings and draws of all rows, (rows,) each; all are sent in one copy.

    `greedy` and `speakable` are 1 or 0. `last_candidate` is the rank of the last token that top-k
    retains; it may exceed the vocabulary. `top_p` is above 1 if it is off.
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

    @classmethod
    def of(cls, rows: Sequence[TokenRow], like: Tensor) -> RowSettings:
        columns = [(*_numbers(row.settings), *row.draws) for row in rows]
        return cls(*device_tensor(columns, like.device, like.dtype).T)


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


class TokenHistory:
    """Counts of the recent tokens of every slot, (slots, vocabulary).

    A draw adds one token, and drops one that leaves the window. Only these changes are sent to the
    device. A history that is not the continuation of the last one of its slot is sent whole.
    """

    def __init__(self, vocabulary: int, device: torch.device) -> None:
        self._vocabulary = vocabulary
        self._device = device
        self._counts = torch.zeros(0, vocabulary, dtype=torch.int32, device=device)
        self._known: dict[int, tuple[int, ...]] = {}

    @torch.inference_mode()
    def said(self, rows: Sequence[TokenRow]) -> Tensor:
        """True for each token that the repetition penalty applies to, (rows, vocabulary).

        Either all rows have a slot, each its own, or none has.
        """
        slots = [n if row.slot is None else row.slot for n, row in enumerate(rows)]
        self._grow(bucket(max(slots) + 1))
        added, dropped, renewed = list[int](), list[int](), list[int]()
        for slot, row in zip(slots, rows, strict=True):
            first, recent = slot * self._vocabulary, row.history
            before = self._known.get(slot, ())
            self._known[slot] = recent
            if recent == before:
                continue
            if recent[:-1] == before:
                added.append(first + recent[-1])
            elif len(recent) == len(before) and recent[:-1] == before[1:]:
                added.append(first + recent[-1])
                dropped.append(first + before[0])
            else:
                renewed.append(slot)
                added += [first + token for token in recent]
        self._change(added, dropped, renewed)
        return self._counts[device_tensor(slots, self._device)] > 0

    def _change(self, added: list[int], dropped: list[int], renewed: list[int]) -> None:
        if renewed:
            self._counts.index_fill_(0, device_tensor(renewed, self._device), 0)
        if not added:
            return
        changes = [*added, *dropped], [1] * len(added) + [-1] * len(dropped)
        places, amounts = device_tensor(changes, self._device)
        self._counts.view(-1).index_add_(0, places, amounts.to(self._counts.dtype))

    def _grow(self, slots: int) -> None:
        missing = slots - len(self._counts)
        if missing > 0:
            more = self._counts.new_zeros(missing, self._vocabulary)
            self._counts = torch.cat([self._counts, more])
