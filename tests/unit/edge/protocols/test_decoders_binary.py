"""Binary frames at every decoder: the same limits and the same errors as for base64."""

from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.errors import NotJson
from antiphon.edge.protocols.chat import decode_request
from antiphon.edge.protocols.duplex import DuplexDecoder
from antiphon.edge.protocols.half_duplex import HalfDuplexDecoder
from antiphon.edge.protocols.realtime import RealtimeDecoder
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    PcmFormat,
    float_bytes,
    samples_from_bytes,
    to_pcm16,
)
from antiphon.shared_schemas.content import AudioPart, ImagePart, TextPart
from antiphon.shared_schemas.entries import ChunkIn, HalfDuplexPrepareIn, PrepareIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.wire import MediaBytes, to_frame
from support.edge_harness import no_uploaded_voices, picture

SETTINGS = EdgeSettings()
SECOND = np.linspace(-1, 1, INPUT_RATE, dtype=np.float32)
F32 = MediaBytes(float_bytes(SECOND))
S16 = MediaBytes(to_pcm16(SECOND).tobytes(), PcmFormat.S16)
JPEG = picture()


def frame(**message: Any) -> bytes:
    packed = to_frame(message)
    assert isinstance(packed, bytes)
    return packed


def chat(*content: dict[str, Any], **more: Any) -> bytes:
    return frame(messages=[{"role": "user", "content": list(content)}], **more)


async def test_duplex_keeps_audio_unchanged_and_accepts_pictures() -> None:
    decoder = DuplexDecoder(SETTINGS, no_uploaded_voices)
    for sound in (F32, S16):
        entry = await decoder.decode(
            frame(type="audio_chunk", audio=sound, frame_base64_list=[JPEG, JPEG])
        )
        assert isinstance(entry, ChunkIn)
        assert (entry.audio, entry.pcm) == (sound.data, sound.pcm)
        assert entry.frames == (JPEG, JPEG)
        assert np.allclose(samples_from_bytes(entry.audio, entry.pcm), SECOND, atol=1e-4)


async def test_references_become_float32() -> None:
    prepare = await DuplexDecoder(SETTINGS, no_uploaded_voices).decode(
        frame(type="prepare", ref_audio_base64=S16)
    )
    assert isinstance(prepare, PrepareIn)
    assert np.allclose(np.frombuffer(prepare.ref_audio, "<f4"), SECOND, atol=1e-4)
    half = await HalfDuplexDecoder(SETTINGS).decode(
        frame(type="prepare", system_content=[{"type": "audio", "data": S16}])
    )
    assert isinstance(half, HalfDuplexPrepareIn)
    assert half.ref_audio == prepare.ref_audio
    update = await RealtimeDecoder(SETTINGS, video=True).decode(
        frame(type="session.update", session={"instructions": "Be brief.", "ref_audio": S16})
    )
    assert isinstance(update, PrepareIn)
    assert update.ref_audio == prepare.ref_audio


async def test_half_duplex_and_realtime_accept_binary_frames() -> None:
    half = await HalfDuplexDecoder(SETTINGS).decode(frame(type="audio_chunk", audio_base64=S16))
    event = frame(type="input_audio_buffer.append", audio=S16, video_frames=[JPEG])
    live = await RealtimeDecoder(SETTINGS, video=True).decode(event)
    assert isinstance(half, ChunkIn)
    assert isinstance(live, ChunkIn)
    assert half.pcm is live.pcm is PcmFormat.S16
    assert live.frames == (JPEG,)


async def test_chat_accepts_them_in_parts() -> None:
    request = await decode_request(
        chat(
            {"type": "text", "text": "What is this?"},
            {"type": "audio", "data": S16},
            {"type": "image", "data": JPEG},
            tts={"enabled": True, "ref_audio_data": F32},
        ),
        SETTINGS,
        no_uploaded_voices,
    )
    [message] = request.messages()
    assert message.parts == (
        TextPart("What is this?"),
        AudioPart(S16.data, PcmFormat.S16),
        ImagePart(JPEG),
    )
    assert request.ref_audio == F32.data


BAD: dict[str, tuple[bytes, str, str]] = {
    "half a sample": (
        frame(type="audio_chunk", audio=MediaBytes(b"abc", PcmFormat.S16)),
        "audio",
        "3 bytes is not a whole number of 16-bit samples",
    ),
    "a NaN": (
        frame(type="audio_chunk", audio=MediaBytes(b"\0\0\xc0\x7f")),
        "audio",
        "holds NaN or infinite samples",
    ),
    "six seconds": (
        frame(type="audio_chunk", audio=MediaBytes(bytes(12 * INPUT_RATE), PcmFormat.S16)),
        "audio",
        "96000 samples, the limit is 80000",
    ),
    "no picture": (
        frame(type="audio_chunk", audio=F32, frame_base64_list=[JPEG, b"GIF89a"]),
        "frame_base64_list.1",
        "only JPEG, PNG and WebP",
    ),
    "too many pictures": (
        frame(type="audio_chunk", audio=F32, frame_base64_list=[JPEG] * 5),
        "frame_base64_list",
        "at most 4 items",
    ),
    "beyond the frame": (
        b'\x31\0\0\0{"type":"audio_chunk","audio":{"at":0,"bytes":8}}',
        "audio",
        "8 bytes from 0 on, but 0 bytes follow",
    ),
    "no message": (b"\2\0\0\0[]", "type", "must be a JSON object"),
    "no header": (b"\2", "header", "begins with 4 bytes of length"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_refusal_names_the_field(name: str) -> None:
    data, field, reason = BAD[name]
    with pytest.raises(InvalidInput, match=reason) as refused:
        await DuplexDecoder(SETTINGS, no_uploaded_voices).decode(data)
    assert refused.value.field == field


async def test_a_short_append_is_refused_by_its_samples() -> None:
    event = frame(type="input_audio_buffer.append", audio=MediaBytes(bytes(7998), PcmFormat.S16))
    with pytest.raises(InvalidInput, match="3999 samples, at least 4000"):
        await RealtimeDecoder(SETTINGS, video=False).decode(event)


async def test_16_bit_audio_is_charged_by_its_duration() -> None:
    decoder = DuplexDecoder(EdgeSettings(input_ahead_s=2), no_uploaded_voices)
    for _ in range(2):
        await decoder.decode(frame(type="audio_chunk", audio=S16))
    with pytest.raises(InvalidInput) as refused:
        await decoder.decode(frame(type="audio_chunk", audio=S16))
    assert refused.value.code is ErrorCode.INPUT_BACKPRESSURE


async def test_a_long_frame_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidInput) as refused:
        await DuplexDecoder(EdgeSettings(max_message_bytes=1024), no_uploaded_voices).decode(
            bytes(1025)
        )
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


async def test_one_payload_cannot_be_a_thousand_parts() -> None:
    part = {"type": "audio", "data": {"at": 0, "bytes": 64}}
    header = orjson.dumps({"messages": [{"role": "user", "content": [part] * 2}]})
    with pytest.raises(InvalidInput, match="shares bytes") as refused:
        await decode_request(
            len(header).to_bytes(4, "little") + header + bytes(64), SETTINGS, no_uploaded_voices
        )
    assert refused.value.field == "messages.0.content.1.data"


@given(
    header=st.dictionaries(
        st.sampled_from(["type", "audio", "frame", "frame_base64_list", "ref_audio_base64"]),
        st.sampled_from(["audio_chunk", "prepare", "video_frame", 1, None])
        | st.fixed_dictionaries(
            {"at": st.integers(-1, 40) | st.none(), "bytes": st.integers(-1, 40)},
            optional={"format": st.sampled_from(["f32", "s16", "x", 3, None])},
        )
        | st.lists(st.fixed_dictionaries({"at": st.integers(0, 9), "bytes": st.integers(0, 9)})),
    ),
    payload=st.binary(max_size=40),
    cut=st.integers(0, 6),
)
async def test_any_frame_is_a_command_or_refused(
    header: dict[str, Any], payload: bytes, cut: int
) -> None:
    packed = orjson.dumps(header)
    data = len(packed).to_bytes(4, "little") + packed + payload
    for decoder in (
        DuplexDecoder(SETTINGS, no_uploaded_voices),
        HalfDuplexDecoder(SETTINGS),
        RealtimeDecoder(SETTINGS, video=True),
    ):
        try:
            await decoder.decode(data[: len(data) - cut])
        except (InvalidInput, NotJson) as error:
            assert str(error)  # noqa: PT017 - either outcome is right
