"""Speech probability of incoming audio, frame by frame (Silero VAD)."""

from __future__ import annotations

import numpy as np

from antiphon.inference_worker.session.silero import STEP_SAMPLES, SileroStream
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples

FRAME_SAMPLES = STEP_SAMPLES
FRAME_MS = 1000 * FRAME_SAMPLES / INPUT_RATE


class SpeechDetector:
    """One stream's detector: keeps the network's state and the samples of a partial frame."""

    def __init__(self) -> None:
        self._network = SileroStream()
        self._rest = SILENCE

    def feed(self, audio: Samples) -> list[float]:
        """Speech probability in [0, 1] of each frame that `audio` (16 kHz) completes."""
        pending = np.concatenate([self._rest, audio])
        count = len(pending) // FRAME_SAMPLES
        self._rest = pending[count * FRAME_SAMPLES :]
        frames = pending[: count * FRAME_SAMPLES].reshape(count, FRAME_SAMPLES)
        return [self._network.step(frame) for frame in frames]
