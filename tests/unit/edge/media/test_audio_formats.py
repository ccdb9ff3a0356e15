"""Formats of OpenAI's voice APIs and telephones: exact codes, rates, and chunks without seams."""

from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.edge.media.audio_formats import (
    AudioFormat,
    FormatDecoder,
    FormatEncoder,
    StreamResampler,
)
from antiphon.shared_schemas.audio import Samples

LAWS = {AudioFormat.PCMU: "pcm_mulaw", AudioFormat.PCMA: "pcm_alaw"}
RATES = ((8_000, 16_000), (24_000, 16_000), (24_000, 8_000), (16_000, 24_000))


def ffmpeg_decodes(audio_format: AudioFormat, data: bytes) -> np.ndarray:
    codec: Any = av.CodecContext.create(LAWS[audio_format], "r")
    codec.sample_rate, codec.layout, codec.format = 8_000, "mono", "s16"
    return np.concatenate([f.to_ndarray()[0] for f in codec.decode(av.Packet(data))])


def tone(hz: float, rate: int, seconds: float = 1.0) -> Samples:
    at = np.arange(int(rate * seconds)) / rate
    return (0.5 * np.sin(2 * np.pi * hz * at)).astype(np.float32)


def noise_db(samples: Samples, hz: float, rate: int) -> float:
    """The power of everything but the tone, relative to it."""
    at = 2 * np.pi * hz * np.arange(len(samples)) / rate
    basis = np.stack([np.sin(at), np.cos(at)], axis=1)
    fitted = basis @ np.linalg.lstsq(basis, samples, rcond=None)[0]
    return float(10 * np.log10(np.mean((samples - fitted) ** 2) / np.mean(fitted**2)))


@pytest.mark.parametrize("audio_format", LAWS)
def test_every_code_of_g711_is_expanded_as_ffmpeg_does(audio_format: AudioFormat) -> None:
    codes = bytes(range(256))
    samples = FormatDecoder(audio_format, rate=8_000).decode(codes)
    assert np.array_equal(np.rint(samples * 32767), ffmpeg_decodes(audio_format, codes))


@pytest.mark.parametrize("audio_format", LAWS)
def test_every_sample_is_compressed_to_the_nearest_code(audio_format: AudioFormat) -> None:
    pcm = np.arange(-32_768, 32_768)
    codes = FormatEncoder(audio_format, rate=8_000).encode((pcm / 32767).astype(np.float32))
    levels = np.sort(ffmpeg_decodes(audio_format, bytes(range(256)))).astype(int)
    after = np.clip(np.searchsorted(levels, pcm), 1, len(levels) - 1)
    nearest = np.minimum(np.abs(levels[after] - pcm), np.abs(levels[after - 1] - pcm))
    distance = np.abs(ffmpeg_decodes(audio_format, codes).astype(int) - pcm)
    assert np.all(distance - nearest <= np.abs(pcm) / 31)  # between two segments, the lower half


@pytest.mark.parametrize("audio_format", LAWS)
def test_codes_survive_a_round_trip(audio_format: AudioFormat) -> None:
    codes = bytes(code for code in range(256) if code != 0x7F)  # mu-law has two zeros
    samples = FormatDecoder(audio_format, rate=8_000).decode(codes)
    assert FormatEncoder(audio_format, rate=8_000).encode(samples) == codes


@pytest.mark.parametrize("audio_format", AudioFormat)
def test_speech_survives_both_ways(audio_format: AudioFormat) -> None:
    sound = tone(440, 24_000)
    data = FormatEncoder(audio_format).encode(sound)
    assert len(data) == audio_format.rate * audio_format.width
    heard = FormatDecoder(audio_format).decode(data)
    assert len(heard) == 16_000
    assert noise_db(heard[1000:-1000], 440, 16_000) < (-30 if audio_format in LAWS else -75)
    assert np.abs(heard[1000:-1000]).max() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(("rate", "to_rate"), RATES)
def test_what_the_lower_rate_cannot_carry_is_removed(rate: int, to_rate: int) -> None:
    lower = min(rate, to_rate)
    kept = StreamResampler(rate, to_rate).resample(tone(0.4 * lower, rate))
    assert np.abs(kept[500:-500]).max() == pytest.approx(0.5, rel=0.05)
    if to_rate < rate:
        removed = StreamResampler(rate, to_rate).resample(tone(0.56 * lower, rate))
        assert np.abs(removed[500:-500]).max() < 0.005


@pytest.mark.parametrize(("rate", "to_rate"), RATES)
@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 2400), max_size=12))
def test_chunks_of_any_length_give_the_same_sound(rate: int, to_rate: int, cuts: list[int]) -> None:
    sound = tone(1000, rate, 0.1)
    whole = StreamResampler(rate, to_rate).resample(sound)
    streamed = StreamResampler(rate, to_rate)
    parts = [streamed.resample(part) for part in np.split(sound, sorted(cuts))]
    assert np.allclose(np.concatenate(parts), whole, atol=1e-6)
    assert len(whole) == pytest.approx(len(sound) * to_rate / rate, abs=1)
