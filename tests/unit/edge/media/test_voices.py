"""Reference voices that a client selects by name."""

import io

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
