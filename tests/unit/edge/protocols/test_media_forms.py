"""The forms in which clients send media: every protocol accepts the same ones, and refuses others alike."""

import base64
import os
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import orjson
import pytest

from antiphon.edge.json_text import Utf8Text
from antiphon.edge.media.base64_text import decode_base64
from antiphon.edge.protocols.chat import decode_request
from antiphon.edge.protocols.duplex import DuplexDecoder
from antiphon.edge.protocols.half_duplex import HalfDuplexDecoder
from antiphon.edge.protocols.realtime import RealtimeDecoder
from antiphon.edge.protocols.realtime_chat import decode_chat_event
from antiphon.edge.protocols.realtime_v2 import Negotiation
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.entries import ChatIn, ChunkIn, HalfDuplexPrepareIn, PrepareIn
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.long_bytes import PIECE_BYTES, LongText
from support.edge_harness import no_uploaded_voices, picture
from support.sound_files import SOUND_FILES, WHOLE, tone, wav

SETTINGS = EdgeSettings()
SPEECH = tone()[:, 0]
PCM = SPEECH.astype("<f4").tobytes()
SMALL = PCM[: 4 * 999]
"""Shorter messages are parsed in another way."""
JPEG = picture()


def _frame(type_: str, **fields: Any) -> Utf8Text:
    return Utf8Text(orjson.dumps({"type": type_, **fields}))


def _request(kind: str, data: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": kind, "data": data}]}]}


async def _duplex(sound: str, image: str | None = None) -> Any:
    frames = {"frame_base64_list": [image]} if image else {}
    decoder = DuplexDecoder(SETTINGS, no_uploaded_voices)
    return await decoder.decode(_frame("audio_chunk", audio=sound, **frames))


async def _half_duplex(sound: str, image: str | None = None) -> Any:
    assert image is None
    return await HalfDuplexDecoder(SETTINGS).decode(_frame("audio_chunk", audio_base64=sound))


async def _realtime(sound: str, image: str | None = None) -> Any:
    frames = {"video_frames": [image]} if image else {}
    decoder = RealtimeDecoder(SETTINGS, video=True)
    return await decoder.decode(_frame("input_audio_buffer.append", audio=sound, **frames))


async def _realtime_v2(sound: str, image: str | None = None) -> Any:
    frames = {"video_frames": [image]} if image else {}
    negotiation = Negotiation()
    negotiation.version = 2
    decoder = RealtimeDecoder(SETTINGS, video=True, negotiation=negotiation)
    return await decoder.decode(_frame("input.append", input={"audio": sound, **frames}))


async def _chat(sound: str, image: str | None = None) -> Any:
    body = _request("image", image) if image else _request("audio", sound)
    return await decode_request(Utf8Text(orjson.dumps(body)), SETTINGS, no_uploaded_voices)


async def _realtime_chat(sound: str, image: str | None = None) -> Any:
    body = _request("image", image) if image else _request("audio", sound)
    frame = _frame("input.append", input=body)
    return await decode_chat_event(frame, SETTINGS, no_uploaded_voices)


Send = Callable[..., Awaitable[Any]]
PROTOCOLS: list[Send] = [_duplex, _half_duplex, _realtime, _realtime_v2, _chat, _realtime_chat]
with_images = pytest.mark.parametrize("send", [p for p in PROTOCOLS if p is not _half_duplex])
everywhere = pytest.mark.parametrize("send", PROTOCOLS)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


FORMS: dict[str, Callable[[bytes], str]] = {
    "strict": _b64,
    "a data URL": lambda data: "data:audio/wav;base64," + _b64(data),
    "a data URL without a type": lambda data: "data:;base64," + _b64(data),
    "a data URL with a codec": lambda data: "DATA:audio/x; codecs=1;BASE64," + _b64(data),
    "lines of 76 characters": lambda data: base64.encodebytes(data).decode(),
    "lines of Windows": lambda data: base64.encodebytes(data).decode().replace("\n", "\r\n"),
    "spaces around": lambda data: f" {_b64(data)} ",
    "for URLs": lambda data: base64.urlsafe_b64encode(data).decode(),
    "for URLs, without padding": lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
    "without padding": lambda data: _b64(data).rstrip("="),
    "a data URL in lines": lambda data: (
        "data:image/png;base64,\n" + base64.encodebytes(data).decode()
    ),
}


def received(entry: Any) -> bytes:
    if isinstance(entry, ChatIn):
        return entry.blobs[0]
    assert isinstance(entry, ChunkIn)
    return entry.audio


@everywhere
async def test_each_form_of_base64_is_accepted(send: Send) -> None:
    for name, form in FORMS.items():
        for sound in (PCM,) if send is _realtime else (PCM, SMALL):  # it has a least length
            assert received(await send(form(sound))) == sound, name


@with_images
async def test_each_form_of_base64_is_accepted_for_pictures(send: Send) -> None:
    for name, form in FORMS.items():
        entry = await send(_b64(PCM), form(JPEG))
        image = entry.blobs[0] if isinstance(entry, ChatIn) else entry.frames[0]
        assert image == JPEG, name


def _unsigned(samples: np.ndarray[Any, Any]) -> bytes:
    return (samples * 127 + 128).astype(np.uint8).tobytes()


REFUSED: dict[str, tuple[str, str]] = {
    "a URL": ("https://example.org/speech.wav", "this is a URL; send the content"),
    "a data URL without base64": ("data:text/plain,hello", "a data URL needs `;base64`"),
    "Python's bytes": (str(base64.b64encode(SMALL)), "as Python prints bytes; use .decode()"),
    "another character": (_b64(SMALL)[:40] + "%" + _b64(SMALL)[40:], "it contains '%'"),
    "quotes": (f'"{_b64(SMALL)}"', "it contains '\"'"),
    "not ASCII": ("éééé", "it contains 'é'"),
    "a backslash": ("AAAA\\AAAA", r"it contains '\\\\'"),
    "cut off": (_b64(SMALL)[:-3], "it is cut off: one character is left over"),
    "two at once": ("AA==" + _b64(SMALL), "text follows the padding"),
    "a WAV file": (_b64(WHOLE), "this is a WAV file: send its samples as float32 PCM at 16 kHz"),
    "a WAV file of floats": (_b64(wav("<f4", 3)), "this is a WAV file: send its samples"),
    "an MP3 file": (_b64(SOUND_FILES["MP3"].make()), "this is an MP3 file: send its samples"),
    "an HTML page": (_b64(b"<html>" + b"a" * 99), "this is an HTML page"),
    "16-bit samples": (_b64((SPEECH * 32767).astype("<i2").tobytes()), "these are 16-bit samples"),
    "8-bit samples": (_b64(_unsigned(SPEECH)), "these are 8-bit samples"),
    "32-bit integers": (
        _b64((SPEECH.astype(np.float64) * 2**31).astype("<i4").tobytes()),
        "these are 32-bit integers",
    ),
    "float64": (_b64(SPEECH.astype("<f8").tobytes()), "these are samples of float64"),
    "big-endian": (_b64(SPEECH.astype(">f4").tobytes()), "these are big-endian samples"),
    "floats in the scale of 16 bits": (
        _b64((SPEECH * 32767).astype("<f4").tobytes()),
        "a sample of 163.* use values between -1 and 1",
    ),
    "base64 twice": (_b64(_b64(SMALL).encode()), "this is base64 of base64"),
    "nothing": ("", "holds no samples"),
    "half a sample": (_b64(PCM[:-1]), "63999 bytes is not a whole number of float32 samples"),
}


@everywhere
async def test_what_is_no_sound_is_refused_with_the_remedy(send: Send) -> None:
    for name, (sound, words) in REFUSED.items():
        with pytest.raises(InvalidInput, match=words) as refused:
            await send(sound)
        field = refused.value.field
        assert field, name
        assert refused.value.message.startswith(f"{field}: "), name


@with_images
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (picture("GIF"), "a GIF picture"),
        (picture("BMP"), "a BMP picture"),
        (picture("TIFF"), "a TIFF picture"),
        (b"\0\0\0\x18ftypheic" + bytes(99), "a HEIC or AVIF picture"),
        (b"%PDF-1.7" + bytes(99), "a PDF document"),
        (WHOLE, "a WAV file"),
    ],
)
async def test_what_is_no_picture_is_refused_by_its_kind(
    send: Send, data: bytes, kind: str
) -> None:
    words = f"only JPEG, PNG and WebP images are accepted, this is {kind}"
    with pytest.raises(InvalidInput, match=words):
        await send(_b64(PCM), _b64(data))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (WHOLE, "only MP4, MOV and WebM videos are accepted, this is a WAV file"),
        (SOUND_FILES["AAC in Matroska"].make(), "this is a Matroska file"),
        (b"\0\0\0\x18ftypheic" + bytes(99), "this is a HEIC or AVIF picture"),
    ],
)
async def test_what_is_no_video_is_refused_by_its_kind(data: bytes, words: str) -> None:
    body = Utf8Text(orjson.dumps(_request("video", _b64(data))))
    with pytest.raises(InvalidInput, match=words):
        await decode_request(body, SETTINGS, no_uploaded_voices)


async def test_a_quicktime_film_without_ftyp_is_a_video() -> None:
    film = b"\0\0\0\x08wide\0\0\0\x10mdat" + bytes(8)
    body = Utf8Text(orjson.dumps(_request("video", _b64(film))))
    entry = await decode_request(body, SETTINGS, no_uploaded_voices)
    assert entry.blobs == (film,)


@pytest.mark.parametrize("field", ["ref_audio_base64", "tts_ref_audio_base64"])
async def test_a_voice_of_a_session_may_be_a_wav_file(field: str) -> None:
    file = "data:audio/wav;base64," + _b64(wav("<i3", 1, 2, 44_100))
    duplex = DuplexDecoder(SETTINGS, no_uploaded_voices)
    entry = await duplex.decode(_frame("prepare", **{field: file}))
    assert isinstance(entry, PrepareIn)
    voice = np.frombuffer(getattr(entry, field.removesuffix("_base64")), "<f4")
    assert len(voice) == INPUT_RATE
    np.testing.assert_allclose(voice[4000:12_000], SPEECH[4000:12_000], atol=0.01)


async def test_a_voice_of_a_half_duplex_session_may_be_a_wav_file() -> None:
    prepare = _frame("prepare", system_content=[{"type": "audio", "data": _b64(WHOLE)}])
    entry = await HalfDuplexDecoder(SETTINGS).decode(prepare)
    assert isinstance(entry, HalfDuplexPrepareIn)
    np.testing.assert_allclose(np.frombuffer(entry.ref_audio, "<f4"), SPEECH, atol=0.001)


@pytest.mark.parametrize("form", FORMS)
def test_long_base64_is_accepted_in_each_form(form: str) -> None:
    data = os.urandom(3 * PIECE_BYTES // 2 + 1)
    text = orjson.dumps(FORMS[form](data))[1:-1]
    assert decode_base64(LongText(memoryview(text)), "video") == data
