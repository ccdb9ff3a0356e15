"""The likeliest ids in order, without sorting the whole vocabulary for each token."""

from __future__ import annotations

from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.steps import bucket

TIES = 64
"""Ids beyond top_k that are looked at too, since those as likely as its last count; more are not."""


def candidates(top_k: int, vocabulary: int) -> int:
    """How many of the likeliest ids a draw with `top_k` (0 is off) may have to look at."""
    return min(vocabulary, bucket(top_k) + TIES) if top_k else vocabulary


def likeliest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest scores of each row in falling order and their ids, (rows, count).

    Of equal ones the lower id is first.
    """
    if count == scores.shape[1]:
        ranked, order = scores.sort(dim=-1, descending=True, stable=True)
        return ranked, order
    _, found = scores.topk(count, dim=-1, sorted=False)
    ids = found.sort(dim=-1).values
    ranked, places = scores.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return ranked, ids.gather(1, places)
