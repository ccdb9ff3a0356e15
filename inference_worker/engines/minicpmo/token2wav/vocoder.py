"""The vocoder interface of a session, and how codes are cut into chunks for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples

CHUNK_CODES = 25
SILENT_PREFIX = (4218, 4218, 4218)
MIN_NEW_CODES = 5


@dataclass(slots=True)
class VoiceState:
    """The voice of a session: the state at the start of a turn, and the state of the current turn.

    `whole_chunks`: only the last chunk of a turn may be short, and no audio is padded to a second.
    """

    base: Any
    stream: Any = None
    waiting: list[int] = field(default_factory=list)
    whole_chunks: bool = False


class Vocoder(Protocol):
    """Makes 24 kHz sound out of audio codes."""

    def clone(self, reference: Samples) -> VoiceState:
        """A voice from float32 mono 16 kHz reference audio."""

    def synthesize(self, voice: VoiceState, codes: list[int], *, last: bool) -> Samples:
        """Audio of the next codes of a turn. `last` flushes what is held back and ends the turn."""

    def reset(self, voice: VoiceState) -> None:
        """Begin a new turn."""

    def close(self) -> None:
        """Release the vocoder. No call may follow."""


def next_pieces(
    waiting: list[int], lookahead: int, *, last: bool, whole: bool = False
) -> list[tuple[list[int], bool]]:
    """Cut `waiting` (in place) into chunks for the vocoder: codes, and whether they end the turn.

    A chunk is 25 codes and the lookahead. A shorter one needs at least 5 new codes; with `whole`
    only the last one is shorter.
    """
    pieces: list[tuple[list[int], bool]] = []
    while len(waiting) >= lookahead + (CHUNK_CODES if whole else MIN_NEW_CODES):
        take = min(CHUNK_CODES + lookahead, len(waiting))
        pieces.append((waiting[:take], False))
        del waiting[: take - lookahead]
    if last and waiting:
        pieces.append((waiting.copy(), True))
        waiting.clear()
    return pieces


def whole_second(sound: list[Samples], *, last: bool) -> Samples:
    """The pieces concatenated, and padded on the left to a second, except at the end of a turn."""
    if not sound:
        return SILENCE
    whole = np.concatenate(sound)
    missing = 0 if last else max(0, OUTPUT_RATE - len(whole))
    return np.pad(whole, (missing, 0))


def find_token2wav(model: Path, options: EngineOptions) -> Path | None:
    """The folder of Token2wav; "auto" is the model's folder if that and a GPU exist."""
    if isinstance(options.vocoder, Path):
        return options.vocoder
    beside = model / "assets" / "token2wav"
    no_gpu = options.device == "cpu" or not torch.cuda.is_available()
    return None if options.vocoder == "none" or no_gpu or not beside.is_dir() else beside
