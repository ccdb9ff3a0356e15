"""Writes down speech of any length: the recogniser takes it in pieces, cut where it is quietest."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from antiphon.inference_worker.engines.local.asr import Recogniser
from antiphon.inference_worker.engines.types import ProgressCallback, no_progress
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

_PIECE_MIN = 6 * INPUT_RATE
_PIECE_MAX = 14 * INPUT_RATE
_HOP = INPUT_RATE // 20


def transcribe(
    recogniser: Recogniser,
    speech: Samples,
    unwanted: Callable[[], bool] = lambda: False,
    on_progress: ProgressCallback = no_progress,
) -> str:
    """The text of `speech` (16 kHz), "" where no word was recognised.

    Leaves the rest out once `unwanted` says so, which is asked before each piece.
    """
    texts, heard = [], 0
    for piece in pieces_of(speech):
        if unwanted():
            break
        texts.append(recogniser.transcribe(piece))
        heard += len(piece)
        on_progress(heard / len(speech))
    return " ".join(text for text in texts if text)


def pieces_of(speech: Samples) -> Iterator[Samples]:
    """`speech` in pieces of 6 to 14 s, the last may be shorter."""
    while len(speech) > _PIECE_MAX:
        hops = speech[_PIECE_MIN:_PIECE_MAX].reshape(-1, _HOP)
        quietest = int(np.argmin(np.square(hops).sum(axis=1)))
        cut = _PIECE_MIN + quietest * _HOP + _HOP // 2
        yield speech[:cut]
        speech = speech[cut:]
    if len(speech):
        yield speech
