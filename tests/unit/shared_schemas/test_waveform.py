from __future__ import annotations

import io
import wave

import numpy as np
import pytest

from antiphon.shared_schemas.waveform import PEAKS_PER_S, WaveformPeaks

RATE = 24_000
BUCKET = RATE // PEAKS_PER_S


def wav(samples: np.ndarray, channels: int = 2) -> io.BytesIO:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, 2, RATE, 0, "NONE", ""))
        out.writeframes(samples.astype("<i2").tobytes())
    file.seek(0)
    return file


def test_each_bucket_has_the_loudest_sample_of_each_side() -> None:
    samples = np.zeros((2 * RATE + 10, 2), np.int16)
    samples[3] = 16384, -32768
    samples[BUCKET] = 1, 0
    samples[RATE - 1] = -1, 32767
    samples[-1] = 32767, 0
    peaks = WaveformPeaks.of_wav(wav(samples))
    assert len(peaks.user) == len(peaks.model) == 2 * PEAKS_PER_S + 1
    assert {at: level for at, level in enumerate(peaks.user) if level} == {
        0: 128,
        1: 1,
        PEAKS_PER_S - 1: 1,
        2 * PEAKS_PER_S: 255,
    }
    assert {at: level for at, level in enumerate(peaks.model) if level} == {
        0: 255,
        PEAKS_PER_S - 1: 255,
    }
    assert WaveformPeaks.model_validate_json(peaks.encode()) == peaks


def test_an_empty_replay_has_no_peaks() -> None:
    assert WaveformPeaks.of_wav(wav(np.zeros((0, 2)))) == WaveformPeaks()


def test_other_files_are_refused() -> None:
    for file in (wav(np.zeros(10), channels=1), io.BytesIO(b"RIFF"), io.BytesIO(b"x" * 100)):
        with pytest.raises(ValueError, match="WAV"):
            WaveformPeaks.of_wav(file)
