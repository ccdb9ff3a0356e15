"""Log-mel features: of a whole clip, and of a stream that emits a second at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from transformers.audio_utils import mel_filter_bank

from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples

N_FFT = 400
HOP = 160
N_MELS = 80
CLIP_SAMPLES = 30 * INPUT_RATE
"""The encoder's window; longer clips are cut into pieces of it."""


@lru_cache(maxsize=1)
def _filters() -> Tensor:
    bank = mel_filter_bank(
        num_frequency_bins=N_FFT // 2 + 1,
        num_mel_filters=N_MELS,
        min_frequency=0.0,
        max_frequency=8000.0,
        sampling_rate=INPUT_RATE,
        norm="slaney",
        mel_scale="slaney",
    )
    return torch.from_numpy(bank.astype(np.float32))


def log_mel(samples: Samples, *, dynamic: bool) -> Tensor:
    """Scaled log-mel of 16 kHz mono, shape (80, len // 160).

    `dynamic` clips everything to within 8 of the loudest value; otherwise the floor is fixed.
    """
    spectrum = torch.stft(
        torch.from_numpy(samples), N_FFT, HOP, window=torch.hann_window(N_FFT), return_complex=True
    )
    power = spectrum[:, :-1].abs().square()
    logs = (_filters().T @ power).clamp(min=1e-10).log10()
    if dynamic:
        logs = torch.maximum(logs, logs.max() - 8.0)
    return (logs + 4.0) / 4.0


def clip_mels(samples: Samples, *, dynamic: bool = True) -> list[Tensor]:
    """Log-mels of a clip, a piece of (80, frames) for each 30 s; frames = ceil(samples / 160)."""
    pieces = [samples[at : at + CLIP_SAMPLES] for at in range(0, len(samples), CLIP_SAMPLES)]
    return [_padded_mel(piece, dynamic=dynamic) for piece in pieces]


def _padded_mel(piece: Samples, *, dynamic: bool) -> Tensor:
    padded = np.zeros(CLIP_SAMPLES, dtype=np.float32)
    padded[: len(piece)] = piece
    return log_mel(padded, dynamic=dynamic)[:, : -(-len(piece) // HOP)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamShape:
    """How a stream is cut. Duplex aligns its first chunk down to the hop; half-duplex does not."""

    chunk_samples: int = INPUT_RATE
    first_samples: int = 16_560
    align_first: bool = True
    redundant_frames: int = 2

    @property
    def first_taken(self) -> int:
        """Samples consumed by the first chunk."""
        if not self.align_first:
            return self.first_samples
        return self.first_samples - self.first_samples % HOP

    @property
    def core_frames(self) -> int:
        """Frames a chunk stands for, without the redundant ones."""
        return self.chunk_samples // HOP


@dataclass(slots=True)
class MelStream:
    """One session's audio input: takes samples, hands out a chunk of log-mel when one is full.

    The features are those of the whole buffer so far, so a chunk depends on what came before it.
    """

    shape: StreamShape = field(default_factory=StreamShape)
    _waiting: Samples = field(default_factory=lambda: SILENCE)
    _history: Samples = field(default_factory=lambda: SILENCE)
    _dropped_frames: int = 0
    chunks: int = 0

    FIXED_FLOOR_BELOW = 5 * INPUT_RATE
    DROP = 10 * INPUT_RATE

    def push(self, samples: Samples) -> None:
        """Append input; a short first chunk is completed with silence on its left."""
        self._waiting = np.concatenate([self._waiting, samples])
        if self.chunks == 0 and len(self._waiting) < self.shape.first_samples:
            missing = self.shape.first_samples - len(self._waiting)
            self._waiting = np.pad(self._waiting, (missing, 0))

    @property
    def ready(self) -> bool:
        """Whether `take` has a whole chunk."""
        return len(self._waiting) >= self._needed

    @property
    def waiting_samples(self) -> int:
        """Samples not yet consumed."""
        return len(self._waiting)

    def take(self) -> Tensor:
        """The next chunk, shape (80, 100 + redundant frames). Call only when `ready`."""
        needed = self._needed
        self._history = np.concatenate([self._history, self._waiting[:needed]])
        self._waiting = self._waiting[needed:]
        if len(self._history) >= CLIP_SAMPLES:
            self._history = self._history[self.DROP :]
            self._dropped_frames += self.DROP // HOP
        mel = log_mel(self._history, dynamic=len(self._history) >= self.FIXED_FLOOR_BELOW)
        start = self.chunks * self.shape.core_frames - self._dropped_frames
        self.chunks += 1
        extra = self.shape.redundant_frames
        return mel[:, max(0, start - extra) : start + self.shape.core_frames + extra]

    def copy(self) -> MelStream:
        """An independent stream in the same state (arrays are never changed in place)."""
        return MelStream(
            self.shape, self._waiting, self._history, self._dropped_frames, self.chunks
        )

    @property
    def _needed(self) -> int:
        return self.shape.first_taken if self.chunks == 0 else self.shape.chunk_samples
