"""Scores of the tokens that may follow the beams of a search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    NEVER,
    candidate_count,
    not_finite_error,
    top_scores,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CANDIDATES,
    RankedTokens,
    SamplingSettings,
)
from antiphon.inference_worker.engines.types import EngineError

MIN_CANDIDATES = 3
"""Tokens that top-k and top-p retain in any case: one that does not end the answer."""


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
