"""Log-mel features of a whole clip, and of a stream that emits one second at a time."""

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

CHUNK_FRAMES = INPUT_RATE // HOP
"""Frames of a chunk of a stream, without the redundant ones."""

REDUNDANT_FRAMES = 2
"""Frames that a chunk has of the one before it, and of the next one."""

FIRST_SAMPLES = 16_560
"""Shortest input before the first chunk, and of an utterance. The chunk takes its whole frames."""


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


def clip_mels(samples: Samples) -> list[Tensor]:
    """Log-mels of a clip, one piece (80, frames) per 30 s; frames = ceil(samples / 160)."""
    pieces = [samples[at : at + CLIP_SAMPLES] for at in range(0, len(samples), CLIP_SAMPLES)]
    return [_padded_mel(piece) for piece in pieces]


def _padded_mel(piece: Samples) -> Tensor:
    padded = np.zeros(CLIP_SAMPLES, dtype=np.float32)
    padded[: len(piece)] = piece
    return log_mel(padded, dynamic=True)[:, : -(-len(piece) // HOP)]


@dataclass(slots=True)
class MelStream:
    """The audio input of one session: takes samples, returns a chunk of log-mel when one is complete.

    Features are computed over the whole buffer, so a chunk depends on the audio before it.
    """

    chunks: int = 0
    _waiting: Samples = field(default_factory=lambda: SILENCE)
    _history: Samples = field(default_factory=lambda: SILENCE)
    _dropped_frames: int = 0

    FIXED_FLOOR_BELOW = 5 * INPUT_RATE
    DROP = 10 * INPUT_RATE

    def push(self, samples: Samples) -> None:
        """Append input. A short first chunk is padded with silence on the left."""
        self._waiting = np.concatenate([self._waiting, samples])
        if self.chunks == 0:
            missing = max(0, FIRST_SAMPLES - len(self._waiting))
            self._waiting = np.pad(self._waiting, (missing, 0))

    @property
    def ready(self) -> bool:
        """Whether `take` has a complete chunk."""
        return len(self._waiting) >= self._needed

    def take(self) -> Tensor:
        """The next chunk, shape (80, 100 + redundant frames). Call it only if `ready`."""
        needed = self._needed
        self._history = np.concatenate([self._history, self._waiting[:needed]])
        self._waiting = self._waiting[needed:]
        if len(self._history) >= CLIP_SAMPLES:
            self._history = self._history[self.DROP :]
            self._dropped_frames += self.DROP // HOP
        mel = log_mel(self._history, dynamic=len(self._history) >= self.FIXED_FLOOR_BELOW)
        start = self.chunks * CHUNK_FRAMES - self._dropped_frames
        self.chunks += 1
        return mel[:, max(0, start - REDUNDANT_FRAMES) : start + CHUNK_FRAMES + REDUNDANT_FRAMES]

    @property
    def _needed(self) -> int:
        return INPUT_RATE if self.chunks else FIRST_SAMPLES - FIRST_SAMPLES % HOP
