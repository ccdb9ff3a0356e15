"""Realtime: a frame becomes a command; reference voices in every format."""

import io
from typing import Any

import numpy as np
import orjson
import pybase64
import pytest
import soundfile

from antiphon.edge.media.voices import decode_voice
from antiphon.edge.protocols.realtime import RealtimeDecoder
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import ChunkIn, PlaybackIn, PrepareIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from support.edge_harness import picture


def _base64(data: bytes) -> str:
    return pybase64.b64encode_as_string(data)


def _audio(samples: int) -> str:
    return _base64(np.full(samples, 0.5, "<f4").tobytes())


def _wav(
    rate: int = 16_000, channels: int = 1, subtype: str = "PCM_16", s: float = 1.0, **options: Any
) -> bytes:
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(int(rate * s)) / rate)
    buffer = io.BytesIO()
    frames = np.repeat(tone[:, None], channels, axis=1)
    soundfile.write(buffer, frames, rate, format="WAV", subtype=subtype, **options)
    return buffer.getvalue()


async def _read(event: object, *, video: bool = True, **settings: Any) -> Any:
    decoder = RealtimeDecoder(EdgeSettings(**settings), video=video)
    return await decoder.decode(orjson.dumps(event).decode())


def _append(**fields: Any) -> dict[str, Any]:
    return {"type": "input_audio_buffer.append", "audio": _audio(16_000), **fields}


def _update(**session: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": {"instructions": "Be brief.", **session}}


async def test_an_update_with_the_documented_defaults() -> None:
    entry = await _read(_update())
    assert entry == PrepareIn(system_prompt="Be brief.", config=DuplexConfig())
    assert (entry.config.chunk_ms, entry.config.force_listen_count) == (1000, 3)


async def test_an_update_with_everything() -> None:
    wav = _base64(_wav(44_100, 2, "PCM_24"))
    entry = await _read(_update(max_slice_nums=4, ref_audio=wav, tts_ref_audio=_audio(800)))
    assert entry.config.max_slice_nums == 4
    voice = np.frombuffer(entry.ref_audio, "<f4")
    assert abs(len(voice) - 16_000) <= 1
    assert 0.45 < np.abs(voice[1000:-1000]).max() < 0.55
    assert len(entry.tts_ref_audio) == 3200


async def test_an_append() -> None:
    jpeg = picture()
    event = _append(video_frames=[_base64(jpeg)] * 4, force_listen=True, max_slice_nums=9)
    entry = await _read(event)
    assert isinstance(entry, ChunkIn)
    assert (len(entry.audio), entry.frames) == (64_000, (jpeg,) * 4)
    assert (entry.force_listen, entry.max_slice_nums) == (True, 9)


async def test_frames_of_an_audio_session_are_ignored() -> None:
    entry = await _read(_append(video_frames=["not a picture"]), video=False)
    assert entry.frames == ()


async def test_playback_is_an_unknown_type_without_its_option() -> None:
    event = {"type": "output_audio_buffer.playback_ack", "played_ms": 1200}
    with pytest.raises(InvalidInput) as refused:
        await _read(event)
    assert refused.value.code is ErrorCode.UNKNOWN_TYPE
    assert "playback_ack'; one of session.update" in refused.value.message
    decoder = RealtimeDecoder(EdgeSettings(), video=True, playback_ack=True)
    assert await decoder.decode(orjson.dumps(event).decode()) == PlaybackIn(played_ms=1200)


_MISSING, _INVALID = ErrorCode.MISSING_FIELD, ErrorCode.INVALID_FIELD
BAD = {
    "no type": ({}, _MISSING, "type"),
    "unknown": ({"type": "response.create"}, ErrorCode.UNKNOWN_TYPE, "type"),
    "no audio": ({"type": "input_audio_buffer.append"}, _MISSING, "audio"),
    "3999 samples": (_append(audio=_audio(3999)), _INVALID, "audio"),
    "bad base64": (_append(audio="!!!"), _INVALID, "audio"),
    "odd bytes": (_append(audio=_base64(bytes(16_001))), _INVALID, "audio"),
    "too long": (_append(audio=_audio(80_001)), _INVALID, "audio"),
    "no slices": (_append(max_slice_nums=0), _INVALID, "max_slice_nums"),
    "ten slices": (_append(max_slice_nums=10), _INVALID, "max_slice_nums"),
    "five frames": (_append(video_frames=[""] * 5), _INVALID, "video_frames"),
    "a frame of text": (_append(video_frames=["aGVsbG8="]), _INVALID, "video_frames.0"),
    "force is a number": (_append(force_listen=1), _INVALID, "force_listen"),
    "no session": ({"type": "session.update"}, _MISSING, "session"),
    "no instructions": (
        {"type": "session.update", "session": {}},
        _MISSING,
        "session.instructions",
    ),
    "empty instructions": (_update(instructions=""), _INVALID, "session.instructions"),
    "reference is a number": (_update(ref_audio=5), _INVALID, "session.ref_audio"),
    "reference is no base64": (_update(ref_audio="?"), _INVALID, "session.ref_audio"),
    "reference of three bytes": (_update(tts_ref_audio="AAAA"), _INVALID, "session.tts_ref_audio"),
}


@pytest.mark.parametrize(("event", "code", "field"), BAD.values(), ids=BAD.keys())
async def test_bad_input_names_its_field(event: object, code: ErrorCode, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await _read(event)
    assert (refused.value.code, refused.value.field) == (code, field)
    assert field in refused.value.message


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 48_000])
@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
async def test_wavs_of_any_rate_and_width(rate: int, subtype: str) -> None:
    data = await decode_voice(_base64(_wav(rate, subtype=subtype)), "ref_audio", 60)
    voice = np.frombuffer(data, "<f4")
    assert abs(len(voice) - 16_000) <= 2
    spectrum = np.abs(np.fft.rfft(voice))
    assert abs(int(spectrum.argmax()) - 440) <= 2


async def test_big_endian_wavs() -> None:
    assert len(await decode_voice(_base64(_wav(endian="BIG")), "ref_audio", 60)) == 64_000


def _claiming_four_gigabytes() -> bytes:
    wav = bytearray(_wav(s=0.01))
    wav[4:8] = wav[40:44] = b"\xff\xff\xff\xfe"
    return bytes(wav)


def _with_rate(rate: int) -> bytes:
    wav = bytearray(_wav())
    wav[24:28] = rate.to_bytes(4, "little")
    return bytes(wav)


async def test_a_header_that_claims_four_gigabytes_costs_nothing() -> None:
    """Refused, or read to the end of the data: libsndfile uses the file's true length."""
    try:
        data = await decode_voice(_base64(_claiming_four_gigabytes()), "ref_audio", 60)
    except InvalidInput:
        return
    assert len(data) <= 4 * 200


async def test_the_decoded_size_of_a_wav_is_limited() -> None:
    """8 bits per sample in the file become 32."""
    wide: dict[str, Any] = {"rate": 384_000, "subtype": "PCM_U8", "channels": 8}
    with pytest.raises(InvalidInput) as refused:
        await decode_voice(_base64(_wav(s=5.5, **wide)), "ref_audio", 60)
    assert refused.value.message == (
        "ref_audio: 5.5 s of 8 channels at 384000 Hz decode to 67584000 bytes, "
        "the limit is 67108864: use one channel at 16000 Hz"
    )
    assert refused.value.field == "ref_audio"
    assert len(await decode_voice(_base64(_wav(s=1, **wide)), "ref_audio", 60)) == 64_000


ODD_WAVS = {
    "too long": _wav(8_000, s=61),
    "no rate": _with_rate(0),
    "absurd rate": _with_rate(4_000_000_000),
    "nine channels": _wav(channels=9, s=0.1),
}


@pytest.mark.parametrize("wav", ODD_WAVS.values(), ids=ODD_WAVS.keys())
async def test_wavs_that_are_refused(wav: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        await decode_voice(_base64(wav), "ref_audio", 60)
    assert refused.value.field == "ref_audio"
