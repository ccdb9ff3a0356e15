"""Binary frames, valid and invalid."""

from typing import Any

import numpy as np
import orjson
import pybase64
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from antiphon.shared_schemas.audio import PcmFormat, float_bytes, samples_from_bytes
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.messages.half_duplex import TurnChunk
from antiphon.shared_schemas.wire import (
    Media,
    MediaBytes,
    Payload,
    encode_binary,
    encode_text,
    split_frame,
    to_frame,
    to_text,
)

MEDIA: TypeAdapter[str | MediaBytes] = TypeAdapter(Media)


def frame(header: bytes, payload: bytes = b"", length: int | None = None) -> bytes:
    size = len(header) if length is None else length
    return size.to_bytes(4, "little") + header + payload


def read(value: Any, payload: bytes) -> str | MediaBytes:
    return MEDIA.validate_python(value, context=Payload(memoryview(payload)))


@given(
    sound=st.binary(min_size=1, max_size=64),
    pictures=st.lists(st.binary(min_size=1, max_size=64), max_size=4),
    pcm=st.sampled_from(PcmFormat),
    text=st.text(max_size=20),
)
def test_a_frame_is_read_back_unchanged(
    sound: bytes, pictures: list[bytes], pcm: PcmFormat, text: str
) -> None:
    packed = to_frame(
        {"type": "x", "text": text, "audio": MediaBytes(sound, pcm), "frames": pictures}
    )
    assert isinstance(packed, bytes)
    header, payload = split_frame(packed)
    message = orjson.loads(header)
    assert (message["type"], message["text"]) == ("x", text)
    assert payload.part(message["audio"]) == MediaBytes(sound, pcm)
    assert [payload.part(reference).data for reference in message["frames"]] == pictures
    assert (4 + len(header)) % 4 == 0  # so that floats may be viewed in place


def test_text_contains_the_same_as_base64() -> None:
    message = {"audio": MediaBytes(b"\0\1\2\3"), "frames": [b"jpeg"]}
    expected = [pybase64.b64encode_as_string(b"\0\1\2\3"), pybase64.b64encode_as_string(b"jpeg")]
    text = orjson.loads(to_text(message))
    assert [text["audio"], *text["frames"]] == expected
    with pytest.raises(TypeError):
        to_text({"audio": object()})


def test_a_message_without_media_stays_text() -> None:
    assert (
        to_frame({"type": "chunk", "audio_data": MediaBytes(b"")})
        == '{"type":"chunk","audio_data":""}'
    )


def test_audio_is_sent_in_the_requested_format() -> None:
    sound = np.array([0.0, 0.5, -1.0, 1.0], dtype=np.float32)
    message = TurnChunk(text_delta="Hi", audio_data=float_bytes(sound))
    for pcm, exact in ((PcmFormat.F32, 0.0), (PcmFormat.S16, 1 / 32767)):
        packed = encode_binary(message, pcm)
        assert isinstance(packed, bytes)
        header, payload = split_frame(packed)
        part = payload.part(orjson.loads(header)["audio_data"])
        assert part.pcm is pcm
        assert len(part.data) == len(sound) * pcm.width
        np.testing.assert_allclose(samples_from_bytes(*(part.data, pcm)), sound, atol=exact)
    assert orjson.loads(encode_text(message).text())["audio_data"] == pybase64.b64encode_as_string(
        float_bytes(sound)
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "begins with 4 bytes of length, this one has 0"),
        (b"\2\0\0", "this one has 3"),
        (frame(b"{}", length=3), "3 bytes announced, but 2 bytes follow"),
        (b"\xff\xff\xff\xff", "4294967295 bytes announced"),
    ],
)
def test_a_truncated_frame_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason) as refused:
        split_frame(data)
    assert refused.value.field == "header"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ({}, "at must be a number of bytes"),
        ({"at": 0}, "bytes must be a number of bytes"),
        ({"at": -1, "bytes": 1}, "at must be"),
        ({"at": True, "bytes": 1}, "at must be"),
        ({"at": 0, "bytes": 1.0}, "bytes must be"),
        ({"at": 0, "bytes": 9}, "9 bytes from 0 on, but 8 bytes follow the header"),
        ({"at": 2**70, "bytes": 2**70}, "but 8 bytes follow"),
        ({"at": 0, "bytes": 4, "format": "mp3"}, "format must be one of f32, s16"),
        ({"at": 0, "bytes": 4, "format": ["f32"]}, "format must be one of"),
        (7, "valid string"),
        (None, "valid string"),
        ([], "valid string"),
    ],
)
def test_an_invalid_reference_is_refused(reference: Any, reason: str) -> None:
    with pytest.raises(ValidationError) as refused:
        read(reference, bytes(8))
    assert reason in refused.value.errors()[0]["msg"]


def test_base64_is_accepted_in_a_binary_frame() -> None:
    assert read("AAAA", b"") == "AAAA"


def test_a_reference_without_a_payload_is_no_string() -> None:
    with pytest.raises(ValidationError, match="valid string"):
        MEDIA.validate_python({"at": 0, "bytes": 0})


def test_a_payload_may_be_referenced_once_only() -> None:
    """Otherwise a small frame would expand a thousand times in memory and in Redis."""
    payload = Payload(memoryview(bytes(100)))
    payload.part({"at": 0, "bytes": 60})
    with pytest.raises(ValueError, match="shares bytes"):
        payload.part({"at": 0, "bytes": 60})
