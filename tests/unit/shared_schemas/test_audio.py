import io
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from antiphon.shared_schemas.audio import (
    PEAKS_PER_S,
    PcmFormat,
    Samples,
    WaveformPeaks,
    float_bytes,
    samples_from_bytes,
    to_pcm16,
)

FLOATS = st.floats(-2.0, 2.0, width=32)
SAMPLES = hnp.arrays(np.float32, st.integers(0, 50), elements=FLOATS)


@given(samples=SAMPLES)
def test_float_samples_survive_exactly(samples: Samples) -> None:
    data = float_bytes(samples)
    assert len(data) == 4 * len(samples)
    assert np.array_equal(samples_from_bytes(data, PcmFormat.F32), samples)


@given(values=st.lists(st.integers(-32768, 32767), max_size=50))
def test_pcm16_is_recorded_unchanged(values: list[int]) -> None:
    samples = samples_from_bytes(np.array(values, "<i2").tobytes(), PcmFormat.S16)
    assert samples.dtype == np.float32
    assert (np.abs(samples) < 1.0001).all()
    assert to_pcm16(samples).tolist() == values


@given(samples=SAMPLES)
def test_recording_scale_clips_and_is_off_by_half_a_step_at_most(samples: Samples) -> None:
    pcm = to_pcm16(samples)
    assert pcm.dtype == np.int16
    inside = np.abs(samples) <= 1.0
    error = np.abs(pcm.astype(np.float64) - samples.astype(np.float64) * 32767.0)
    assert (error[inside] <= 0.5 + 1e-2).all()
    assert (np.abs(pcm[~inside].astype(np.int32)) >= 32767).all()


@pytest.mark.parametrize(
    ("size", "pcm"), [(1, PcmFormat.S16), (3, PcmFormat.F32), (6, PcmFormat.F32)]
)
def test_a_partial_sample_is_refused(size: int, pcm: PcmFormat) -> None:
    with pytest.raises(ValueError, match="whole number"):
        samples_from_bytes(bytes(size), pcm)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_numbers_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="NaN"):
        samples_from_bytes(float_bytes(np.array([0.0, bad], np.float32)), PcmFormat.F32)


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
