"""Samples the next text token or audio code of several sessions at once. Each row has its settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import Fidelity
from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import SpecialIds
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CodeRow,
    SampledToken,
    SamplingSettings,
    TokenRow,
    bucket,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_history import TokenHistory
from antiphon.inference_worker.engines.types import EngineError

NEVER = float("-inf")
PENALTY_WINDOW = 16
"""Recent codes that the repetition penalty of speech applies to."""

MIN_CANDIDATES = 3
"""Codes that top-p retains in any case."""

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
            own = RowSettings(settings.table[:, places])
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


@dataclass(frozen=True, slots=True)
class RowSettings:
    """The settings and draws of all rows, in one `table` (11, rows) that is sent in one copy."""

    table: Tensor

    @classmethod
    def of(cls, rows: Sequence[TokenRow], like: Tensor) -> RowSettings:
        columns = [(*_numbers(row.settings), *row.draws) for row in rows]
        return cls(device_tensor(columns, like.device, like.dtype).T)

    @property
    def greedy(self) -> Tensor:
        """1 or 0."""
        return self.table[0]

    @property
    def temperature(self) -> Tensor:
        return self.table[1]

    @property
    def last_candidate(self) -> Tensor:
        """The rank of the last token that top-k retains; may exceed the vocabulary."""
        return self.table[2]

    @property
    def top_p(self) -> Tensor:
        """Above 1 if it is off."""
        return self.table[3]

    @property
    def listen_prob_scale(self) -> Tensor:
        return self.table[4]

    @property
    def listen_top_k(self) -> Tensor:
        return self.table[5]

    @property
    def repetition_penalty(self) -> Tensor:
        return self.table[6]

    @property
    def length_penalty(self) -> Tensor:
        return self.table[7]

    @property
    def speakable(self) -> Tensor:
        """1 or 0."""
        return self.table[8]

    @property
    def first_draw(self) -> Tensor:
        return self.table[9]

    @property
    def last_draw(self) -> Tensor:
        return self.table[10]


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


def code_probabilities(
    logits: Tensor, rows: Sequence[CodeRow], table: Tensor | None = None
) -> Tensor:
    """The distribution of the draw for raw `logits` (rows, codes). The end code is the last."""
    table = _code_table(rows, logits) if table is None else table
    recent = _recent_codes(rows, logits)
    return _chances(logits, table, recent, restricted=any(map(_is_restricted, rows)))


def _chances(
    logits: Tensor, table: Tensor, recent: Tensor, drawn: int = 0, *, restricted: bool
) -> Tensor:
    """`table` is the one of `_code_table`; `recent` are the codes that the penalty counts, padded with
    the number of codes; `drawn` codes were drawn with this table before.
    """
    scores = logits / table[:, :1]
    width = scores.shape[1]
    counts = torch.zeros(len(scores), width + 1, dtype=torch.long, device=scores.device)
    counts.scatter_add_(1, recent, torch.ones_like(recent))
    factors = table[:, 6:].gather(1, counts[:, :width])
    scores = torch.where(scores < 0, scores * factors, scores / factors)
    if restricted:
        scores = _restrict(scores, table[:, 4], table[:, 5])
    scores[:, -1] = scores[:, -1].masked_fill(table[:, 1] > drawn, NEVER)
    return scores.softmax(dim=-1)


def _code_table(rows: Sequence[CodeRow], like: Tensor) -> Tensor:
    columns = [code_columns(row, not row.may_end, row.draw, like.shape[1]) for row in rows]
    return device_tensor(columns, like.device, like.dtype)


def code_columns(row: CodeRow, held: int, draw: float, codes: int) -> tuple[float, ...]:
    """Temperature, draws in which the end is held, greedy, draw, top-k, top-p, and the powers of the
    penalty.
    """
    settings = row.settings
    limits, powers = _limits(row, codes), _powers(settings.repetition_penalty)
    return (settings.temperature, held, settings.greedy, draw, *limits, *powers)


def _is_restricted(row: CodeRow) -> bool:
    return len(row.codes) > 0 and bool(row.settings.top_k or row.settings.top_p)


def _limits(row: CodeRow, count: int) -> tuple[int, float]:
    """The number of candidates, and the share of the least likely codes that are dropped (-1: none)."""
    if not _is_restricted(row):
        return count, -1.0
    top_k, top_p = row.settings.top_k or count, row.settings.top_p
    return min(count, max(top_k, MIN_CANDIDATES)), 1 - top_p if top_p else -1.0


def _restrict(scores: Tensor, top_k: Tensor, dropped: Tensor) -> Tensor:
    """Top-p, then top-k, as transformers applies them: codes of equal score are retained together."""
    ranked, order = scores.sort(dim=-1, stable=True)
    count = scores.shape[1]
    rare = ranked.softmax(dim=-1).cumsum(dim=-1) <= dropped[:, None]
    rare[:, count - MIN_CANDIDATES :] = False
    least = ranked.gather(1, (count - top_k).long()[:, None])
    return scores.masked_fill((rare | (ranked < least)).gather(1, order.argsort(dim=-1)), NEVER)


@lru_cache(maxsize=1024)
def _powers(penalty: float) -> tuple[float, ...]:
    """Computed on the host: on the device, their last bit could depend on the other rows."""
    return tuple(penalty**n for n in range(PENALTY_WINDOW + 1))


def sample_codes(logits: Tensor, rows: Sequence[CodeRow]) -> Tensor:
    """One code per row; -1 for a row that is not finite."""
    sound = logits.isfinite().all(dim=-1)
    settings = _code_table(rows, logits)
    chances = code_probabilities(logits.nan_to_num(), rows, settings)
    drawn = draw_index(chances, settings[:, 3])
    codes = torch.where(settings[:, 2] > 0, chances.argmax(dim=-1), drawn)
    return torch.where(sound, codes, -1)


def draw_codes(
    logits: Tensor, table: Tensor, recent: Tensor, draws: Tensor, drawn: int, *, restricted: bool
) -> Tensor:
    """One code per row without the host; -1 for a row that is not finite. See `_chances`."""
    sound = logits.isfinite().all(dim=-1)
    chances = _chances(logits.nan_to_num(), table, recent, drawn, restricted=restricted)
    codes = torch.where(table[:, 2] > 0, chances.argmax(dim=-1), draw_index(chances, draws))
    return torch.where(sound, codes, -1)


def _recent_codes(rows: Sequence[CodeRow], scores: Tensor) -> Tensor:
    """The recent codes of each row, (rows, n), padded with the number of codes."""
    recent = [list(row.codes[-PENALTY_WINDOW:]) for row in rows]
    longest, width = max(map(len, recent)), scores.shape[1]
    padded = [codes + [width] * (longest - len(codes)) for codes in recent]
    return device_tensor(padded, scores.device).view(len(rows), longest)
