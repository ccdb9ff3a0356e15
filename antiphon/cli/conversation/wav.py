"""Reads and writes audio files with speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
import soxr

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, to_pcm16

_AUDIBLE = 0.01


class UnusableAudio(Exception):
    """A sound file cannot be read or written; the message names it and the cause."""


def load_speech(path: Path) -> Samples:
    """A sound file of any rate and channel count as float32 mono at 16 kHz. Raises UnusableAudio."""
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.SoundFileError) as error:
        raise UnusableAudio(f"cannot read {path}: {error}") from error
    mono: Samples = samples.mean(axis=1, dtype=np.float32)
    if not len(mono):
        raise UnusableAudio(f"{path} holds no sound")
    resampled: Samples = soxr.resample(mono, rate, INPUT_RATE)
    return resampled.astype(np.float32, copy=False)


def save_reply(path: Path, samples: Samples) -> None:
    """Write 24 kHz speech as a 16-bit WAV. Raises UnusableAudio."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, to_pcm16(samples), OUTPUT_RATE, subtype="PCM_16", format="WAV")
    except (OSError, soundfile.SoundFileError) as error:
        raise UnusableAudio(f"cannot write {path}: {error}") from error


def speech_end_s(samples: Samples) -> float:
    """Position of the last audible sample in 16 kHz speech, in seconds."""
    audible = np.flatnonzero(np.abs(samples) > _AUDIBLE)
    return float(audible[-1] + 1) / INPUT_RATE if len(audible) else 0.0
