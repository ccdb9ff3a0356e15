"""The voice of the catalogue that is nearest to a reference recording, by pitch and timbre.

The recording is not imitated. `tools/voice_measures.py` makes the measures of the voices.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.common.silero import STEP_SAMPLES, SpeechDetector
from antiphon.inference_worker.engines.local.voices.catalogue import VOICES, NaturalVoice
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

MEASURES = Path(__file__).parent / "styles" / "measures.json"

LONGEST_S = 15
"""The rest of a longer recording is not read."""

LEAST_VOICED_S = 1.0
"""A recording with less voiced speech selects nothing."""

LOWEST_FEMALE_HZ, HIGHEST_MALE_HZ = 150.0, 190.0
"""Between them, timbre decides. Timbre alone takes some high voices of men for those of women."""

_SPEECH = 0.5
_HOP = 320
_WINDOW = 1280
"""Of the pitch, in samples: almost five periods of the lowest voice."""
_SHORTEST_LAG, _LONGEST_LAG = INPUT_RATE // 400, INPUT_RATE // 60
_PERIODIC = 0.5

_SPECTRUM = 512
_SPECTRUM_HOP = 160
_LOWEST_HZ, _HIGHEST_HZ = 100, 4000
"""Of the timbre. Telephones and microphones differ most above it, and noise is loudest against speech."""
_BANDS = 40
_COEFFICIENTS = 19
_LOUDEST_SHARE = 0.7
_FLOOR = 0.01
"""Quieter bands count as this share of the mean, so that faint noise does not change the timbre."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measures:
    """`vectors`: those of the voices by id. `spread`: how much the sentences of one voice differ."""

    vectors: dict[str, Vector]
    spread: Vector


def nearest_voice(reference: Samples | None, language: str, loaded: Collection[str]) -> str:
    """The id of a loaded natural voice; empty without a reference (16 kHz) that has enough speech."""
    natural = tuple(voice for voice in VOICES[language].values() if voice.id in loaded)
    if reference is None or not natural:
        return ""
    return _nearest(reference[: LONGEST_S * INPUT_RATE].tobytes(), natural)


@functools.lru_cache(maxsize=8)  # Each answer of the Realtime API gives the same recording again.
def _nearest(recording: bytes, voices: tuple[NaturalVoice, ...]) -> str:
    vector = measured(np.frombuffer(recording, dtype=np.float32))
    if vector is None:
        return ""
    known = _measures()
    hertz = 2.0 ** vector[0]
    possible = {"female"} if hertz > HIGHEST_MALE_HZ else {"female", "male"}
    if hertz < LOWEST_FEMALE_HZ:
        possible = {"male"}

    def distance(voice: NaturalVoice) -> float:
        return float(np.linalg.norm((vector - known.vectors[voice.id]) / known.spread))

    return min(
        (one for one in voices if one.gender in possible), key=distance, default=voices[0]
    ).id


def measured(recording: Samples) -> Vector | None:
    """Median (octaves above 1 Hz) and spread of the pitch, then the timbre.

    None if the recording has too little speech.
    """
    spoken = np.array(SpeechDetector().feed(recording)) > _SPEECH
    pitch = _pitch(recording, spoken)
    if len(pitch) * _HOP < LEAST_VOICED_S * INPUT_RATE:
        return None
    return np.concatenate([[np.median(pitch), pitch.std()], _timbre(recording, spoken)])


def _frames(
    recording: Samples, spoken: NDArray[np.bool_], length: int, hop: int
) -> NDArray[np.float64]:
    """The frames whose middle is in a speaking step of the speech detector."""
    if len(recording) < length:
        return np.empty((0, length))
    frames = np.lib.stride_tricks.sliding_window_view(recording, length)[::hop]
    middle = (np.arange(len(frames)) * hop + length // 2) // STEP_SAMPLES
    inside = middle < len(spoken)
    return frames[inside][spoken[middle[inside]]].astype(np.float64)


def _pitch(recording: Samples, spoken: NDArray[np.bool_]) -> Vector:
    """Of the voiced frames, in octaves above 1 Hz."""
    frames = _frames(recording, spoken, _WINDOW, _HOP)
    frames -= frames.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(frames, 2048, axis=1)) ** 2
    similar = np.fft.irfft(power, axis=1)[:, : _LONGEST_LAG + 2]
    similar /= similar[:, :1] + 1e-9
    inner = similar[:, 1:-1]
    # A peak, so that the slope of a rumble is none.
    peaks = np.where((inner >= similar[:, :-2]) & (inner > similar[:, 2:]), inner, 0.0)
    peaks[:, : _SHORTEST_LAG - 1] = 0.0
    best = peaks.argmax(axis=1)
    voiced = np.take_along_axis(peaks, best[:, np.newaxis], axis=1)[:, 0] > _PERIODIC
    octaves: Vector = np.log2(INPUT_RATE / (best[voiced] + 1.0))
    return octaves


def _timbre(recording: Samples, spoken: NDArray[np.bool_]) -> Vector:
    """Mean and spread of the mel cepstrum, without its loudness."""
    bright = np.append(recording[:1], recording[1:] - 0.95 * recording[:-1])
    frames = _frames(bright, spoken, _SPECTRUM, _SPECTRUM_HOP) * np.hanning(_SPECTRUM)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    energy = power.sum(axis=1)
    triangles, cosines = _filters()
    bands = power[energy > np.quantile(energy, 1 - _LOUDEST_SHARE)] @ triangles
    cepstrum = np.log(np.maximum(bands, bands.mean() * _FLOOR)) @ cosines
    return np.concatenate([cepstrum.mean(axis=0), cepstrum.std(axis=0)])


@functools.cache
def _filters() -> tuple[Vector, Vector]:
    """Triangles at equal distances on the mel scale, and the cosine transform of their logarithms."""
    first, last = (2595 * math.log10(1 + hertz / 700) for hertz in (_LOWEST_HZ, _HIGHEST_HZ))
    edges = 700 * (10 ** (np.linspace(first, last, _BANDS + 2) / 2595) - 1)
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    at = np.fft.rfftfreq(_SPECTRUM, 1 / INPUT_RATE)[:, np.newaxis]
    inside = np.minimum((at - low) / (middle - low), (high - at) / (high - middle))
    places = (np.arange(_BANDS) + 0.5) / _BANDS
    cosines = np.cos(np.pi * np.outer(places, np.arange(1, _COEFFICIENTS + 1)))
    return np.maximum(0, inside) * 2 / (high - low), cosines


@functools.cache
def _measures() -> Measures:
    stored = json.loads(MEASURES.read_text(encoding="utf-8"))
    vectors = {voice: np.array(vector) for voice, vector in stored["voices"].items()}
    return Measures(vectors, np.array(stored["spread"]))
