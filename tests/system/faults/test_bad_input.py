"""Bad audio, pictures, sound files, paths and keys, sent to a real edge. The session continues."""

import asyncio
import base64
import http.client
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from support.edge_harness import picture
from support.fault_stack import SIMULATED
from support.hostile_sounds import hostile_sounds, much_work
from support.ports import free_port
from support.protocol_samples import PROTOCOLS
from support.raw_client import Wire, open_wire
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
    await stack.no_session_left()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def _refused(wire: Wire, code: str, field: str) -> None:
    error = await wire.expect("error")
    assert (error["code"], error.get("field")) == (code, field), error


async def _continues(wire: Wire) -> None:
    await wire.send_second()
    assert (await wire.expect("result"))["current_time"] == 1000
    await wire.send(type="stop")
    await wire.expect("stopped")


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


async def test_f18_a_neighbour_does_not_notice_hostile_sound_files(stack: Stack) -> None:
    """The edge has them decoded elsewhere, and its conversation goes on."""
    edge = stack.services[0].process
    async with (
        open_wire(stack.ws_url, "adx_neighbour") as wire,
        httpx.AsyncClient(base_url=stack.http_url, timeout=60) as client,
    ):
        await wire.begin(record=False)
        attacks = [
            asyncio.create_task(_transcribe(client, data))
            for data, _ in [*hostile_sounds().values(), (much_work(), "")]
        ]
        for _ in range(8):
            await wire.send_second()
            await wire.until("result")
        for attack, (_, said) in zip(attacks, hostile_sounds().values(), strict=False):
            answer = await attack
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] == "file"
            assert said in answer.json()["error"]["message"]
        attacks[-1].cancel()  # its decoder works on
        await wire.send_second()
        await wire.until("result")
    assert edge.poll() is None


async def _transcribe(client: httpx.AsyncClient, data: bytes) -> httpx.Response:
    return await client.post(
        "/v1/audio/transcriptions", data={"model": "m"}, files={"file": ("a.mp3", data)}
    )


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
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
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
