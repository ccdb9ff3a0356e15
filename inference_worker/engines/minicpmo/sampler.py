"""Choosing the next text token for several sessions at once; each row has its own settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import Fidelity
from antiphon.inference_worker.engines.minicpmo.placing import placed
from antiphon.inference_worker.engines.minicpmo.ranking import candidates, likeliest
from antiphon.inference_worker.engines.minicpmo.tokenizer import SpecialIds
from antiphon.inference_worker.engines.types import EngineError

NEVER = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """How one session chooses. `top_k` and `top_p` of 0 are off, `repetition_window` 0 is everything."""

    greedy: bool = False
    temperature: float = 0.7
    top_k: int = 20
    top_p: float = 0.8
    listen_prob_scale: float = 1.0
    listen_top_k: int | None = None
    repetition_penalty: float = 1.05
    repetition_window: int = 512
    length_penalty: float = 1.1


@dataclass(frozen=True, slots=True)
class Row:
    """One session's wish: its settings, what it chose so far, and two uniform draws in [0, 1)."""

    settings: SamplingSettings
    history: Sequence[int]
    draws: tuple[float, float] = (0.0, 0.0)

    @property
    def recent(self) -> list[int]:
        """The distinct ids that the repetition penalty looks at."""
        window = self.settings.repetition_window
        return sorted(set(self.history[-window:] if window else self.history))


@dataclass(frozen=True, slots=True)
class Chosen:
    """A token, and whether it belongs into the history."""

    token: int
    recorded: bool


class Sampler:
    """The reference's order of steps, row by row independent of the other rows.

    `fidelity="fixed"` differs in two places: a repeated token with a negative logit is made less
    likely instead of more, and listen_prob_scale scales the probability of `<|listen|>` (upstream
    scales the logit of `<|im_end|>`).
    """

    def __init__(self, ids: SpecialIds, forbidden: Sequence[int], fidelity: Fidelity) -> None:
        self.ids = ids
        self._forbidden = sorted({*forbidden, ids.chunk_eos})
        self._fixed = fidelity == "fixed"

    def choose(self, logits: Tensor, rows: Sequence[Row]) -> list[Chosen | EngineError]:
        """One token per row of `logits` (rows, vocabulary), an error for one that is not finite."""
        sound = logits.isfinite().all(dim=-1)
        logits = logits.nan_to_num()
        early = self._early_end(logits, rows)
        adjusted = self.adjust(logits, rows)
        cut = self._listen_cut(adjusted, rows)
        tokens = self._draw(adjusted, rows)
        # The only time that the host waits for the device.
        table = torch.stack([sound.long(), early.long(), cut.long(), tokens]).tolist()
        return [self._chosen(*row) if ok else not_finite() for ok, *row in zip(*table, strict=True)]

    def adjust(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        """Forbidden ids, repetition, length penalty and listen scale applied, (rows, vocabulary)."""
        out = logits.clone()
        self._forbid(out)
        self._penalise_repetition(out, rows)
        settings = [row.settings for row in rows]
        ending = out[:, self.ids.turn_eos]
        penalty = _column(logits, [s.length_penalty for s in settings])
        out[:, self.ids.turn_eos] = torch.where(ending > 0, ending / penalty, ending * penalty)
        scale = _column(logits, [s.listen_prob_scale for s in settings])
        if self._fixed:
            out[:, self.ids.listen] += scale.log()
        else:
            out[:, self.ids.eos] *= scale
        return out

    def probabilities(self, adjusted: Tensor, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """What the final draw sees: probabilities in falling order and the ids in that order."""
        settings, vocabulary = [row.settings for row in rows], adjusted.shape[1]
        heat = _column(adjusted, [s.temperature or 1.0 for s in settings])[:, None]
        wanted = max(candidates(s.top_k, vocabulary) for s in settings)
        ranked, order = likeliest(adjusted / heat, wanted)
        last = [min(s.top_k or vocabulary, vocabulary) - 1 for s in settings]
        threshold = ranked.gather(1, placed(last, ranked.device)[:, None])
        ranked = ranked.masked_fill(ranked < threshold, NEVER)
        mass = ranked.softmax(dim=-1)
        limit = _column(mass, [s.top_p or 2.0 for s in settings])[:, None]
        above = torch.zeros_like(mass)
        above[:, 1:] = mass.cumsum(dim=-1)[:, :-1]
        return ranked.masked_fill(above > limit, NEVER).softmax(dim=-1), order

    def _early_end(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        """Whether the untouched logits choose `<|chunk_eos|>`; then nothing else is looked at."""
        chance = logits.softmax(dim=-1)[:, self.ids.chunk_eos]
        drawn = _column(logits, [row.draws[0] for row in rows]) < chance
        greedy = placed([row.settings.greedy for row in rows], logits.device, torch.bool)
        return torch.where(greedy, logits.argmax(dim=-1) == self.ids.chunk_eos, drawn)

    def _forbid(self, out: Tensor) -> None:
        out.index_fill_(1, placed(self._forbidden, out.device), NEVER)

    def _penalise_repetition(self, out: Tensor, rows: Sequence[Row]) -> None:
        recent = [row.recent for row in rows]
        width = max(map(len, recent))
        if not width:
            return
        # Padding repeats a forbidden id: minus infinity stays what it is under any penalty.
        filler = self._forbidden[0]
        table = placed([ids + [filler] * (width - len(ids)) for ids in recent], out.device)
        penalty = _column(out, [row.settings.repetition_penalty for row in rows])[:, None]
        seen = out.gather(1, table)
        lowered = seen / penalty
        if self._fixed:
            lowered = torch.where(seen > 0, lowered, seen * penalty)
        out.scatter_(1, table, lowered)

    def _listen_cut(self, adjusted: Tensor, rows: Sequence[Row]) -> Tensor:
        ranks = (adjusted > adjusted[:, self.ids.eos, None]).sum(dim=-1)
        limits = [row.settings.listen_top_k or 0 for row in rows]
        return ranks < placed(limits, ranks.device)

    def _draw(self, adjusted: Tensor, rows: Sequence[Row]) -> Tensor:
        """Rows that look at as many ids draw together: what one sees is not up to the others."""
        tokens, groups = adjusted.argmax(dim=-1), defaultdict[int, list[int]](list)
        for index, row in enumerate(rows):
            if not row.settings.greedy:
                groups[candidates(row.settings.top_k, adjusted.shape[1])].append(index)
        for members in groups.values():
            drawing = [rows[index] for index in members]
            places = placed(members, adjusted.device)
            chances, order = self.probabilities(adjusted[places], drawing)
            drawn = draw_index(chances, [row.draws[1] for row in drawing])
            tokens[places] = order.gather(1, drawn[:, None])[:, 0]
        return tokens

    def _chosen(self, early: int, cut: int, token: int) -> Chosen:
        if early:
            return Chosen(self.ids.chunk_eos, recorded=False)
        if cut:
            return Chosen(self.ids.eos, recorded=False)
        return Chosen(token, recorded=True)


class PlainSampler(Sampler):
    """Ordinary sampling for written answers: repetition penalty, temperature, top-k, top-p."""

    def __init__(self, ids: SpecialIds) -> None:
        super().__init__(ids, (), "fixed")

    def adjust(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        """Repetition made less likely, and the end too by the length penalty."""
        out = logits.clone()
        self._forbid(out)
        self._penalise_repetition(out, rows)
        penalty = _column(logits, [row.settings.length_penalty for row in rows])
        for end in (self.ids.eos, self.ids.tts_eos):
            out[:, end] = torch.where(out[:, end] > 0, out[:, end] / penalty, out[:, end] * penalty)
        return out

    def _early_end(self, logits: Tensor, rows: Sequence[Row]) -> Tensor:
        return torch.zeros(len(rows), dtype=torch.bool, device=logits.device)

    def _listen_cut(self, adjusted: Tensor, rows: Sequence[Row]) -> Tensor:
        return torch.zeros(len(rows), dtype=torch.bool, device=adjusted.device)


def draw_index(chances: Tensor, draws: Sequence[float]) -> Tensor:
    """The index in each row of `chances` (rows, n) at which its cumulative sum passes the draw."""
    sums = chances.cumsum(dim=-1)
    goal = _column(chances, draws)[:, None] * sums[:, -1:]
    index = torch.searchsorted(sums, goal, right=True)[:, 0]
    last = (chances > 0).long().cumsum(dim=-1).argmax(dim=-1)
    return torch.minimum(index, last)


def _column(like: Tensor, values: Sequence[float]) -> Tensor:
    return placed(values, like.device, like.dtype)


def not_finite() -> EngineError:
    """What a session gets whose values are none."""
    return EngineError("the model produced values that are not finite for this session")
