"""Realtime: a frame becomes a command."""

from typing import Any

import numpy as np
import orjson
import pybase64
import pytest

from antiphon.edge.protocols.realtime import RealtimeDecoder
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import ChunkIn, PlaybackIn, PrepareIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from support.edge_harness import picture
from support.sound_files import wav


def _base64(data: bytes) -> str:
    return pybase64.b64encode_as_string(data)


def _audio(samples: int) -> str:
    return _base64(np.full(samples, 0.5, "<f4").tobytes())


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
    voice_file = _base64(wav("<i3", channels=2, rate=44_100))
    entry = await _read(_update(max_slice_nums=4, ref_audio=voice_file, tts_ref_audio=_audio(800)))
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
