"""Bad audio, pictures, sound files, paths and keys, sent to a real edge. The session continues."""

from __future__ import annotations

import base64
import http.client
import io
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest
import soundfile
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from antiphon.broker.client import open_broker
from support.edge_harness import base64_audio, picture
from support.fault_stack import SIMULATED
from support.protocol_samples import PROTOCOLS
from support.raw_client import Wire, open_path, open_wire
from support.redis_server import free_port
from support.sound_files import WHOLE
from support.stack import Stack, new_stack, until

KEY = "a-key-of-a-client-0123"
PAGE = "https://elsewhere.example"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An edge, a worker and a recorder. At the end no log may hold a traceback."""
    with new_stack(tmp_path_factory.mktemp("bad-input")) as running:
        running.edge()
        running.worker(slots=8, engine_options=SIMULATED)
        running.recorder(recorder_settle_s=0.1)
        yield running


@pytest.fixture(autouse=True)
async def no_slot_is_leaked(stack: Stack) -> AsyncIterator[None]:
    yield
    async with open_broker(stack.settings) as broker:

        async def is_free() -> bool:
            snapshot = await broker.queue.snapshot()
            return not snapshot.running and not snapshot.waiting

        await until(is_free)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _floats(*values: float) -> str:
    return _base64(np.array(values, "<f4").tobytes())


async def _refused(wire: Wire, code: str, field: str) -> None:
    error = await wire.expect("error")
    assert (error["code"], error.get("field")) == (code, field), error


async def _continues(wire: Wire) -> None:
    await wire.send_second()
    assert (await wire.expect("result"))["current_time"] == 1000
    await wire.send(type="stop")
    await wire.expect("stopped")


BAD_AUDIO = {
    "odd bytes": _base64(b"\0" * 4001),
    "NaN": _floats(0.0, float("nan")),
    "infinite": _floats(float("inf"), 0.0),
    "empty": "",
    "six seconds": base64_audio(6 * 16_000),
    "no base64": "*" * 400,
    "two in one": base64_audio(10) + base64_audio(10),
    "a WAV file": _base64(WHOLE),
}


async def test_f15_bad_audio_is_refused_and_the_session_continues(stack: Stack) -> None:
    async with open_wire(stack.ws_url, "adx_audio") as wire:
        await wire.begin()
        for audio in BAD_AUDIO.values():
            await wire.send(type="audio_chunk", audio=audio)
            error = await wire.expect("error")
            assert error["code"] in ("invalid_field", "missing_field"), error
            assert error["field"] == "audio"
        await wire.send(type="audio_chunk", audio=base64_audio(600 * 4_000))
        assert (await wire.expect("error"))["code"] == "message_too_large"
        await _continues(wire)


def _png_header(side: int) -> bytes:
    body = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    header = struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    return b"\x89PNG\r\n\x1a\n" + header + struct.pack(">I", 0) + b"IDAT"


def _jpeg_header(side: int) -> bytes:
    size = struct.pack(">BHHB", 8, side, side, 3) + b"\x01\x11\x00\x02\x11\x01\x03\x11\x01"
    return b"\xff\xd8\xff\xc0" + struct.pack(">H", len(size) + 2) + size + b"\xff\xda\x00\x02"


BAD_PICTURES = {
    "JPEG of 50,000 pixels": _jpeg_header(50_000),
    "PNG of 50,000 pixels": _png_header(50_000),
    "TIFF": picture("TIFF"),
    "GIF": picture("GIF"),
    "FITS": b"SIMPLE  =                    T" + b" " * 2850,
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n",
    "PSD": b"8BPS\0\1" + b"\0" * 64,
    "JPEG that is cut off": picture()[:40],
}


async def test_f17_bad_pictures_are_refused_and_the_session_continues(stack: Stack) -> None:
    async with open_wire(stack.ws_url, "omni_pictures") as wire:
        await wire.begin()
        for data in BAD_PICTURES.values():
            await wire.send(type="video_frame", frame=_base64(data))
            await _refused(wire, "invalid_field", "frame")
        await wire.send(type="video_frame", frame=_base64(picture()))
        await _continues(wire)


def _wav(**how: Any) -> bytes:
    file = io.BytesIO()
    channels = how.pop("channels", 1)
    soundfile.write(file, np.zeros((1600, channels)), 16_000, **{"format": "WAV", **how})
    return file.getvalue()


def _with_rate(rate: int) -> bytes:
    wav = bytearray(_wav(subtype="PCM_16"))
    wav[24:28] = rate.to_bytes(4, "little")
    return bytes(wav)


def _claiming_four_gigabytes() -> bytes:
    wav = bytearray(_wav(subtype="PCM_16"))
    wav[4:8] = wav[40:44] = b"\xff\xff\xff\xfe"
    return bytes(wav)


async def _update(wire: Wire, voice: bytes) -> None:
    session = {"instructions": "Be brief.", "ref_audio": _base64(voice)}
    await wire.send(type="session.update", session=session)


BAD_SOUNDS = {
    "no rate": _with_rate(0),
    "absurd rate": _with_rate(4_000_000_000),
    "64 channels": _wav(channels=64, subtype="PCM_16"),
    "compressed": _wav(subtype="IMA_ADPCM"),
    "Ogg": _wav(format="OGG"),
    "MP3": _wav(format="MP3"),
    "WebM of 500,000 tracks": b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm" + b"\xae\x80" * 500_000,
    "cut off": _wav(subtype="PCM_16")[:20],
}


async def test_f18_bad_sound_files_are_refused_and_the_session_continues(stack: Stack) -> None:
    async with open_path(stack.ws_url, "/v1/realtime?mode=audio") as wire:
        await wire.until("session.queue_done")
        for data in BAD_SOUNDS.values():
            await _update(wire, data)
            error = (await wire.expect("error"))["error"]
            assert "ref_audio" in error["message"], error
        await _update(wire, _wav())
        await wire.expect("session.created")


async def test_f18_a_header_that_claims_four_gigabytes_is_read_to_the_end_of_the_data(
    stack: Stack,
) -> None:
    async with open_path(stack.ws_url, "/v1/realtime?mode=audio") as wire:
        await wire.until("session.queue_done")
        await _update(wire, _claiming_four_gigabytes())
        await wire.expect("session.created")


BAD_PATHS = (
    *("..", "../x", "user_audio/../../x", "./meta.json", "/etc/passwd", "//etc/passwd"),
    *("..%2f..%2fx", "%2e%2e/x", "%2e%2e%2fx", "%252e%252e%252fx", "..%5cx", "%00"),
    *("%ef%bc%8e%ef%bc%8e/x", "CON:", "NUL", "link.wav", "user_audio/000.wav%00.jpg"),
)


async def test_f19_no_path_leaves_a_recording(stack: Stack) -> None:
    async with open_wire(stack.ws_url, "adx_paths") as wire:
        recording = (await wire.begin())["recording_session_id"]
        await _continues(wire)
    root = stack.data_dir / "sessions"
    await until(lambda: (root / recording / "recording.json").exists())
    (root / "x").write_text("secret")
    (root / recording / "link.wav").symlink_to(root / "x")
    assert _get(stack.edge_port, f"/api/sessions/{recording}/assets/user_audio/000.wav")[0] == 200
    for path in BAD_PATHS:
        status, body = _get(stack.edge_port, f"/api/sessions/{recording}/assets/{path}")
        assert status in (400, 404), path
        assert b"secret" not in body
    for sid in ("..", "%2e%2e", "..%2f", "%00", recording[:8], recording[:-1], recording + "0"):
        status, body = _get(stack.edge_port, f"/api/sessions/{sid}")
        assert status in (307, 400, 404), sid
        assert b"secret" not in body


def _get(port: int, path: str) -> tuple[int, bytes]:
    """Sends the path as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.putrequest("GET", path, skip_host=False)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


async def test_f20_every_socket_refuses_a_wrong_key_and_a_foreign_page(stack: Stack) -> None:
    port = free_port()
    edge = stack.edge(port=port, api_keys=KEY)
    good = {"Authorization": f"Bearer {KEY}"}
    attempts: dict[str, tuple[str, dict[str, Any], int]] = {
        "no key": ("", {}, 401),
        "wrong key": ("", {"additional_headers": {"Authorization": f"Bearer {KEY}x"}}, 401),
        "key in the query": (f"api_key={KEY}", {}, 401),
        "foreign page": ("", {"additional_headers": good, "origin": PAGE}, 403),
    }
    for path in {protocol.path for protocol in PROTOCOLS.values()}:
        url = f"ws://127.0.0.1:{port}{path.format(session_id='adx_key')}"
        for query, options, status in attempts.values():
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"{url}{'&' if '?' in url else '?'}{query}", proxy=None, **options)
            assert refused.value.response.status_code == status
        async with connect(url, proxy=None, additional_headers=good):
            pass
    assert KEY not in edge.log
