"""Reference voices: selected by name, or sent as a WAV file."""

import io
from typing import Any

import numpy as np
import pytest
import soundfile

from antiphon.edge.media.voices import (
    bundled_voices,
    find_bundled_voice,
    load_named_voice,
    read_voice,
    voice_samples,
)
from antiphon.edge.settings import SHIPPED_ASSETS, EdgeSettings
from antiphon.inference_worker.engines.local.voices.catalogue import (
    CHINESE_VOICES,
    ESPEAK,
    NATURAL_VOICES,
)
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.wire import MediaBytes

HALF = (np.full(16_000, 0.5) * 32767).astype("<i2").tobytes()


async def _store(voice_id: str) -> bytes | None:
    assert voice_id.isalnum()
    return HALF if voice_id == "abc123" else None


async def test_an_uploaded_voice() -> None:
    pcm = await load_named_voice(EdgeSettings(), _store, "uploaded:abc123")
    assert np.frombuffer(pcm, "<f4") == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("name", ["uploaded:", "uploaded:unknown", "uploaded:a:b", "uploaded:é{*}"])
async def test_unknown_uploaded_voices(name: str) -> None:
    with pytest.raises(InvalidInput, match="field: no such uploaded voice") as refused:
        await load_named_voice(EdgeSettings(), _store, name, "field")
    assert refused.value.field == "field"


async def test_an_uploaded_voice_has_the_same_length_limit() -> None:
    with pytest.raises(InvalidInput, match="limit is 8000"):
        await load_named_voice(EdgeSettings(max_reference_s=0.5), _store, "uploaded:abc123")


@pytest.mark.parametrize(
    ("loudest", "reason"), [(20_000.0, "a sample of 20000 is not"), (float("nan"), "NaN")]
)
def test_f15_a_float_file_with_other_numbers_is_no_voice(loudest: float, reason: str) -> None:
    file = io.BytesIO()
    samples = np.full(16_000, loudest, np.float32)
    soundfile.write(file, samples, 16_000, subtype="FLOAT", format="WAV")
    with pytest.raises(InvalidInput, match=f"field: .*{reason}") as refused:
        read_voice(MediaBytes(file.getvalue()), "field", 5.0)
    assert refused.value.field == "field"


def test_the_documented_name_selects_the_default_voice() -> None:
    name = "assets/ref_audio/ref_minicpm_signature.wav"
    found = find_bundled_voice(SHIPPED_ASSETS, name, "english.wav", "field")
    assert found == (SHIPPED_ASSETS / "ref_audio" / "english.wav").resolve()
    with pytest.raises(InvalidInput):
        find_bundled_voice(SHIPPED_ASSETS, name, "missing.wav", "field")


def test_bundled_voices_are_small_and_short() -> None:
    voices = bundled_voices(SHIPPED_ASSETS)
    assert set(voices) == {"chinese", "english", "english_female"}
    for voice in voices.values():
        assert (SHIPPED_ASSETS / "ref_audio" / voice.filename).stat().st_size < 200_000
        assert 3_000 < voice.duration_ms < 8_000


def test_every_named_voice_has_a_small_sample() -> None:
    samples = voice_samples()
    assert set(samples) == {*NATURAL_VOICES, *CHINESE_VOICES, ESPEAK}
    for file in samples.values():
        sound = soundfile.info(file)
        assert (sound.format, sound.channels) == ("MP3", 1)
        assert 1.5 < sound.duration < 5.0
        assert file.stat().st_size < 25_000


def _wav(
    rate: int = 16_000, channels: int = 1, subtype: str = "PCM_16", s: float = 1.0, **options: Any
) -> bytes:
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(int(rate * s)) / rate)
    buffer = io.BytesIO()
    frames = np.repeat(tone[:, None], channels, axis=1)
    soundfile.write(buffer, frames, rate, format="WAV", subtype=subtype, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("rate", "subtype"),
    [
        *((rate, "PCM_16") for rate in (8_000, 16_000, 22_050, 48_000)),
        *((44_100, width) for width in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")),
    ],
)
def test_wavs_of_any_rate_and_width(rate: int, subtype: str) -> None:
    data = read_voice(MediaBytes(_wav(rate, subtype=subtype)), "ref_audio", 60)
    voice = np.frombuffer(data, "<f4")
    assert abs(len(voice) - 16_000) <= 2
    spectrum = np.abs(np.fft.rfft(voice))
    assert abs(int(spectrum.argmax()) - 440) <= 2


def test_big_endian_wavs() -> None:
    assert len(read_voice(MediaBytes(_wav(endian="BIG")), "ref_audio", 60)) == 64_000


def _claiming_four_gigabytes() -> bytes:
    wav = bytearray(_wav(s=0.01))
    wav[4:8] = wav[40:44] = b"\xff\xff\xff\xfe"
    return bytes(wav)


def _with_rate(rate: int) -> bytes:
    wav = bytearray(_wav())
    wav[24:28] = rate.to_bytes(4, "little")
    return bytes(wav)


def test_a_header_that_claims_four_gigabytes_costs_nothing() -> None:
    """Refused, or read to the end of the data: libsndfile uses the file's true length."""
    try:
        data = read_voice(MediaBytes(_claiming_four_gigabytes()), "ref_audio", 60)
    except InvalidInput:
        return
    assert len(data) <= 4 * 200


def test_the_decoded_size_of_a_wav_is_limited() -> None:
    """8 bits per sample in the file become 32."""
    wide: dict[str, Any] = {"rate": 384_000, "subtype": "PCM_U8", "channels": 8}
    with pytest.raises(InvalidInput) as refused:
        read_voice(MediaBytes(_wav(s=5.5, **wide)), "ref_audio", 60)
    assert refused.value.message == (
        "ref_audio: 5.5 s of 8 channels at 384000 Hz decode to 67584000 bytes, "
        "the limit is 67108864: use one channel at 16000 Hz"
    )
    assert refused.value.field == "ref_audio"
    assert len(read_voice(MediaBytes(_wav(s=1, **wide)), "ref_audio", 60)) == 64_000


ODD_WAVS = {
    "too long": _wav(8_000, s=61),
    "no rate": _with_rate(0),
    "absurd rate": _with_rate(4_000_000_000),
    "nine channels": _wav(channels=9, s=0.1),
}


@pytest.mark.parametrize("wav", ODD_WAVS.values(), ids=ODD_WAVS.keys())
def test_wavs_that_are_refused(wav: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_voice(MediaBytes(wav), "ref_audio", 60)
    assert refused.value.field == "ref_audio"
