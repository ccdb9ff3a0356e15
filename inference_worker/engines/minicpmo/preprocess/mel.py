"""Log-mel features of a whole clip, and of a stream that emits one second at a time."""

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
"""The window of the encoder; longer clips are cut into pieces of this length."""


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

    `dynamic` raises all values to at least the maximum minus 8; otherwise the floor is fixed.
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
    """Log-mels of a clip, one piece (80, frames) per 30 s; frames = ceil(samples / 160)."""
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
        if not self.align_first:
            return self.first_samples
        return self.first_samples - self.first_samples % HOP

    @property
    def core_frames(self) -> int:
        """Frames of a chunk without the redundant ones."""
        return self.chunk_samples // HOP


@dataclass(slots=True)
class MelStream:
    """The audio input of one session: takes samples, returns a chunk of log-mel when one is complete.

    Features are computed over the whole buffer, so a chunk depends on the audio before it.
    """

    shape: StreamShape = field(default_factory=StreamShape)
    _waiting: Samples = field(default_factory=lambda: SILENCE)
    _history: Samples = field(default_factory=lambda: SILENCE)
    _dropped_frames: int = 0
    chunks: int = 0

    FIXED_FLOOR_BELOW = 5 * INPUT_RATE
    DROP = 10 * INPUT_RATE

    def push(self, samples: Samples) -> None:
        """Append input. A short first chunk is padded with silence on the left."""
        self._waiting = np.concatenate([self._waiting, samples])
        if self.chunks == 0 and len(self._waiting) < self.shape.first_samples:
            missing = self.shape.first_samples - len(self._waiting)
            self._waiting = np.pad(self._waiting, (missing, 0))

    @property
    def ready(self) -> bool:
        """Whether `take` has a complete chunk."""
        return len(self._waiting) >= self._needed

    @property
    def waiting_samples(self) -> int:
        return len(self._waiting)

    def take(self) -> Tensor:
        """The next chunk, shape (80, 100 + redundant frames). Call it only if `ready`."""
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
