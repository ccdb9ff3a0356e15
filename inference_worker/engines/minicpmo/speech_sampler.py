"""Choosing the next audio code for several sessions at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.placing import placed
from antiphon.inference_worker.engines.minicpmo.sampler import NEVER, draw_index, not_finite
from antiphon.inference_worker.engines.types import EngineError

MAX_DRAWS = 26
"""Draws per unit; the last is never spoken, so a unit has at most 25 codes: one second."""

PENALTY_WINDOW = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechSettings:
    """How codes are drawn."""

    greedy: bool = False
    temperature: float = 0.8
    repetition_penalty: float = 1.05


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One session's wish: its settings, this unit's codes, whether the end is allowed, a draw."""

    settings: SpeechSettings
    codes: Sequence[int]
    may_end: bool
    draw: float = 0.0


def code_probabilities(logits: Tensor, rows: Sequence[CodeRow]) -> Tensor:
    """What the draw sees, for raw `logits` (rows, codes); the end code is the last."""
    heat = placed([row.settings.temperature for row in rows], logits.device, logits.dtype)
    scores = logits / heat[:, None]
    factors = _repetition_factors(rows, scores)
    scores = torch.where(scores < 0, scores * factors, scores / factors)
    held = placed([not row.may_end for row in rows], logits.device, torch.bool)
    scores[:, -1] = scores[:, -1].masked_fill(held, NEVER)
    return scores.softmax(dim=-1)


def choose_codes(logits: Tensor, rows: Sequence[CodeRow]) -> list[int | EngineError]:
    """One code per row, an error for one that is not finite."""
    sound = logits.isfinite().all(dim=-1)
    chances = code_probabilities(logits.nan_to_num(), rows)
    drawn = draw_index(chances, [row.draw for row in rows])
    greedy = placed([row.settings.greedy for row in rows], logits.device, torch.bool)
    codes = torch.where(greedy, chances.argmax(dim=-1), drawn)
    table = torch.stack([sound.long(), codes]).tolist()
    return [code if ok else not_finite() for ok, code in zip(*table, strict=True)]


def _repetition_factors(rows: Sequence[CodeRow], scores: Tensor) -> Tensor:
    """The penalty to the power of how often each code came of late, (rows, codes).

    Powers are looked up: computed on the device, their last bit could depend on the other rows.
    """
    recent = [list(row.codes[-PENALTY_WINDOW:]) for row in rows]
    longest, width = max(map(len, recent)), scores.shape[1]
    table = placed([codes + [width] * (longest - len(codes)) for codes in recent], scores.device)
    counts = torch.zeros(len(rows), width + 1, dtype=torch.long, device=scores.device)
    counts.scatter_add_(1, table.view(len(rows), longest), torch.ones_like(table))
    penalties = [row.settings.repetition_penalty for row in rows]
    powers = [[penalty**n for n in range(PENALTY_WINDOW + 1)] for penalty in penalties]
    return placed(powers, scores.device, scores.dtype).gather(1, counts[:, :width])
