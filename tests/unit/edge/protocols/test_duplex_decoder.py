"""Full duplex: a frame becomes a command."""

import json
from pathlib import Path

import numpy as np
import orjson
import pybase64
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.errors import NotJson
from antiphon.edge.json_text import count_json_tokens
from antiphon.edge.media.decode import decode_frame
from antiphon.edge.media.voices import load_bundled_voice
from antiphon.edge.protocols.duplex import DuplexDecoder
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    PauseIn,
    PlaybackIn,
    PrepareIn,
    ResumeIn,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from support.edge_harness import no_uploaded_voices, picture


def _decoder(**settings: object) -> DuplexDecoder:
    return DuplexDecoder(EdgeSettings(**settings), no_uploaded_voices)  # type: ignore[arg-type]


async def _read(message: object, **settings: object) -> object:
    return await _decoder(**settings).decode(orjson.dumps(message).decode())


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"type": "prepare"}, PrepareIn),
        ({"type": "audio_chunk", "audio": "AAAAAA=="}, ChunkIn),
        ({"type": "pause"}, PauseIn),
        ({"type": "resume", "unknown": 1}, ResumeIn),
        ({"type": "playback_ack", "played_ms": 1234}, PlaybackIn),
        ({"type": "stop"}, StopIn),
        ({"type": "client_diagnostic", "fps": 30}, DiagnosticIn),
    ],
)
async def test_each_type_has_its_command(message: object, kind: type) -> None:
    assert type(await _read(message)) is kind


async def test_pause_has_a_default_and_a_limit() -> None:
    assert await _read({"type": "pause"}, pause_timeout_s=9) == PauseIn(timeout_s=9)
    assert await _read({"type": "pause", "timeout": 600}) == PauseIn(timeout_s=600)
    with pytest.raises(InvalidInput, match="timeout: at most 600 s"):
        await _read({"type": "pause", "timeout": 601})


async def test_the_playback_position_is_a_time() -> None:
    assert await _read({"type": "playback_ack", "played_ms": 0.5}) == PlaybackIn(played_ms=0.5)
    for bad in ({}, {"played_ms": -1}, {"played_ms": "1"}, {"played_ms": 1e9}):
        with pytest.raises(InvalidInput) as refused:
            await _read({"type": "playback_ack", **bad})
        assert refused.value.field == "played_ms"


async def test_slices_of_prepare_go_into_the_config() -> None:
    command = await _read({"type": "prepare", "max_slice_nums": 4, "config": {"top_k": 5}})
    assert isinstance(command, PrepareIn)
    assert (command.config.max_slice_nums, command.config.top_k) == (4, 5)


async def test_a_chunk_may_have_its_own_slices() -> None:
    chunk = {"type": "audio_chunk", "audio": "AAAAAA=="}
    command = await _read({**chunk, "max_slice_nums": 9})
    assert isinstance(command, ChunkIn)
    assert command.max_slice_nums == 9
    for bad in (0, 10, "4"):
        with pytest.raises(InvalidInput) as refused:
            await _read({**chunk, "max_slice_nums": bad})
        assert refused.value.field == "max_slice_nums"


@pytest.mark.parametrize(("depth", "taken"), [(31, True), (32, False), (250, False), (500, False)])
async def test_a_deep_diagnostic_is_refused(depth: int, taken: bool) -> None:
    """Deeper ones could not be stored with the recording."""
    metrics = '{"m":' + "[" * (depth - 1) + "]" * (depth - 1) + "}"
    message = f'{{"type": "client_diagnostic", "metrics": {metrics}}}'
    if taken:
        assert await _decoder().decode(message)
        return
    with pytest.raises(InvalidInput, match="nested more than 32 deep"):
        await _decoder().decode(message)


async def test_stop_is_never_rate_limited() -> None:
    decoder = _decoder(input_messages_per_s=0.25)
    await decoder.decode('{"type":"resume"}')
    with pytest.raises(InvalidInput):
        await decoder.decode('{"type":"resume"}')
    assert await decoder.decode('{"type":"stop"}') == StopIn()


async def test_short_chunks_do_not_count_as_messages_and_frames_do() -> None:
    decoder = _decoder(input_messages_per_s=0.25)
    sound = pybase64.b64encode_as_string(bytes(4 * 320))
    chunk = {"type": "audio_chunk", "audio": sound}
    for _ in range(500):
        assert await decoder.decode(orjson.dumps(chunk).decode())
    frame = pybase64.b64encode_as_string(picture("JPEG"))
    seen = orjson.dumps({**chunk, "frame_base64_list": [frame]}).decode()
    assert await decoder.decode(seen)
    with pytest.raises(InvalidInput, match="send fewer camera frames") as refused:
        await decoder.decode(seen)
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE


async def test_a_named_voice_overrides_the_one_sent(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "voice.wav", np.zeros(160, np.float32), 16_000)
    command = await _read(
        {"type": "prepare", "ref_audio_path": "voice.wav", "ref_audio_base64": "AACAPw=="},
        assets_dir=tmp_path,
    )
    assert isinstance(command, PrepareIn)
    assert command.ref_audio == bytes(640)


def test_voices_are_converted_to_16_khz_mono(tmp_path: Path) -> None:
    folder = tmp_path / "ref_audio"
    folder.mkdir()
    stereo = np.stack([np.full(48_000, 0.5), np.zeros(48_000)], axis=1)
    soundfile.write(folder / "v.wav", stereo, 48_000, subtype="PCM_24")
    for name in ("ref_audio/v.wav", "assets/ref_audio/v.wav"):
        samples = np.frombuffer(load_bundled_voice(tmp_path, name, 60), "<f4")
        assert samples.shape == (16_000,)
        assert np.allclose(samples[4000:12_000], 0.25, atol=1e-3)


def test_voices_that_are_refused(tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    soundfile.write(assets / "long.wav", np.zeros(32_000), 16_000)
    soundfile.write(assets / "v.flac", np.zeros(160), 16_000)
    soundfile.write(tmp_path / "outside.wav", np.zeros(160), 16_000)
    (assets / "text.wav").write_text("no sound")
    (assets / "link.wav").symlink_to(tmp_path / "outside.wav")
    for name, reason in {
        "long.wav": "longer than 1 s",
        "v.flac": "it is not a WAV file",
        "text.wav": "cannot be read",
        "link.wav": "no such",
        "../outside.wav": "no such",
        str(tmp_path / "outside.wav"): "no such",
        "missing.wav": "no such",
        "x" * 5000: "no such",
        ".": "no such",
        "": "no such",
        "a\0b": "no such",
    }.items():
        with pytest.raises(InvalidInput, match=reason) as refused:
            load_bundled_voice(assets, name, 1.0)
        assert refused.value.field == "ref_audio_path"


def test_malformed_frames_are_not_json() -> None:
    for frame in (b"\2\0\0\0{]", b"\0\0\0\0", "", "{", "NaN", "[1,]", "[" * 500):
        with pytest.raises(NotJson):
            decode_frame(frame, 10_000)


def test_a_long_message_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(InvalidInput) as refused:
        decode_frame("{" * 11, 10)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("item", ["0", "[[0]]"])
def test_a_message_of_only_structure_is_refused_before_it_is_parsed(item: str) -> None:
    text = f'{{"type":"x","a":[{",".join([item] * 1_000_000)}]}}'
    for frame in (text, len(text).to_bytes(4, "little") + text.encode()):
        with pytest.raises(InvalidInput, match="brackets and commas; send less") as refused:
            decode_frame(frame, len(text) + 4)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@given(st.text(alphabet="[{,]}\u4f60a", max_size=200))
def test_marks_are_counted_in_text_and_bytes_alike(text: str) -> None:
    expected = sum(map(text.count, "[{,"))
    assert count_json_tokens(text) == count_json_tokens(text.encode()) == expected


async def test_prompts_may_be_full_of_brackets() -> None:
    prompt = "[{,}]" * 4000
    command = await _read({"type": "prepare", "system_prompt": prompt})
    assert isinstance(command, PrepareIn)
    assert command.system_prompt == prompt


async def test_structure_costs_more_than_text() -> None:
    """A message that is slow to parse is limited to a lower rate, and refused unread."""
    decoder = _decoder(input_bytes_per_s=1024)
    costly = json.dumps({"type": "client_diagnostic", "metrics": {"m": [0] * 30_000}})
    assert len(costly) < 100_000
    assert await decoder.decode(costly)
    with pytest.raises(InvalidInput, match="too much at once") as refused:
        await decoder.decode(costly.replace("client_diagnostic", "no such type"))
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE
    assert await decoder.decode('{"type":"stop"}') == StopIn()


async def test_frames_are_charged_by_the_byte() -> None:
    decoder = _decoder(input_bytes_per_s=1024)
    sent = pybase64.b64encode_as_string(picture() + bytes(2_000_000))
    frame = json.dumps({"type": "video_frame", "frame": sent})
    assert await decoder.decode(frame)
    with pytest.raises(InvalidInput, match="too much at once") as refused:
        await decoder.decode(frame)
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE
    assert await decoder.decode('{"type":"stop"}') == StopIn()


async def test_the_size_of_a_diagnostic_is_checked_before_its_depth() -> None:
    """Both are wrong, and the error is about the size."""
    deep = json.loads("[" * 100 + "]" * 100)
    with pytest.raises(InvalidInput) as refused:
        await _read({"type": "client_diagnostic", "metrics": {"a": deep, "log": "x" * 70_000}})
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
