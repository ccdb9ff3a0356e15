"""Choosing the next audio code for several sessions at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference_worker.engines.minicpmo.sampler import NEVER, draw_index

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
    heat = torch.tensor([row.settings.temperature for row in rows], dtype=logits.dtype)
    scores = logits / heat.to(logits.device)[:, None]
    factors = _repetition_factors(rows, logits.shape[1]).to(logits.device, logits.dtype)
    scores = torch.where(scores < 0, scores * factors, scores / factors)
    held = torch.tensor([not row.may_end for row in rows]).to(logits.device)
    scores[:, -1] = scores[:, -1].masked_fill(held, NEVER)
    return scores.softmax(dim=-1)


def choose_codes(logits: Tensor, rows: Sequence[CodeRow]) -> list[int]:
    """One code per row."""
    chances = code_probabilities(logits, rows)
    drawn = draw_index(chances, [row.draw for row in rows])
    greedy = torch.tensor([row.settings.greedy for row in rows]).to(logits.device)
    codes: list[int] = torch.where(greedy, chances.argmax(dim=-1), drawn).tolist()
    return codes


def _repetition_factors(rows: Sequence[CodeRow], width: int) -> Tensor:
    factors = torch.ones(len(rows), width)
    for index, row in enumerate(rows):
        recent = torch.tensor(row.codes[-PENALTY_WINDOW:], dtype=torch.long)
        counts = torch.bincount(recent, minlength=width)
        factors[index] = row.settings.repetition_penalty**counts
    return factors
