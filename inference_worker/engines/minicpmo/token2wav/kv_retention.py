"""Which keys and values of a turn are retained: those of the voice, and the last two seconds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

RECENT_FRAMES = 100


def slice_entries(parts: Sequence[Tensor], start: int, stop: int) -> list[Tensor]:
    """Views of `parts`, concatenated along the last dimension but one, from `start` to `stop`."""
    views, begins = [], 0
    for part in parts:
        length = part.shape[-2]
        first, end = max(0, start - begins), min(length, stop - begins)
        if first < end:
            views.append(part[..., first:end, :])
        begins += length
    return views


def without_middle(parts: Sequence[Tensor], head: int, tail: int) -> list[Tensor]:
    """Views of `parts` without the entries between the first `head` and the last `tail`."""
    length = sum(part.shape[-2] for part in parts)
    if length <= head + tail:
        return list(parts)
    return slice_entries(parts, 0, head) + slice_entries(parts, length - tail, length)


def frames_to_retain(parts: Sequence[Tensor], prompt: int) -> Tensor:
    """A copy of the retained entries at 50 per second, for a voice of `prompt` frames."""
    return torch.cat(without_middle(parts, prompt, RECENT_FRAMES), -2)


def codes_to_retain(entries: Tensor, prompt: int) -> Tensor:
    """A copy of the retained entries at 25 per second, since release 1.0.7."""
    return torch.cat(without_middle([entries], prompt // 2, RECENT_FRAMES // 2), -2)


def codes_to_retain_until_1_0_6(entries: Tensor, prompt: int) -> Tensor:
    """A copy of the retained entries at 25 per second, up to release 1.0.6.

    These releases cut two copies as if they were at 50 per second and keep the first half. A voice
    of two seconds or more therefore keeps the beginning of the turn, not its end.
    """
    pieces = without_middle([entries, entries], prompt, RECENT_FRAMES)
    half = sum(piece.shape[-2] for piece in pieces) // 2
    return torch.cat(slice_entries(pieces, 0, half), -2)
