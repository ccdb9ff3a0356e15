"""Uploads of recordings that clients made: type and size checks, and atomic writes."""

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest
import soundfile

from antiphon.broker.service import disk
from antiphon.broker.settings import BrokerSettings
from antiphon.edge.access import bodies
from antiphon.edge.recordings.store import UPLOADS_FOLDER
from support.edge_harness import WITHIN_S, RunningEdge, running_edge
from support.edge_protocols import exchange
from support.recordings import recorded
from support.stack import until

LIMIT = 3 * 1024 * 1024


@pytest.fixture
def recording(root: Path) -> str:
    return recorded(root, units=1)


@pytest.fixture
async def edge(settings: BrokerSettings, root: Path) -> AsyncIterator[RunningEdge]:
    async with running_edge(settings, data_dir=root.parent, max_upload_bytes=LIMIT) as running:
        yield running


def wav() -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros(1600), 16_000, format="WAV")
    return buffer.getvalue()


def sound(container: str, codec: str) -> bytes:
    """A tenth of a second, encoded by FFmpeg."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=48_000)
        frame = av.AudioFrame.from_ndarray(
            np.zeros((1, 960), np.float32), format="fltp", layout="mono"
        )
        frame.rate = 48_000
        for _ in range(5):
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def samples() -> Iterator[tuple[str, str, bytes]]:
    webm, mp4 = sound("webm", "libopus"), sound("mp4", "aac")
    yield "audio/wav", "wav", wav()
    yield "audio/webm;codecs=opus", "webm", webm
    yield "video/webm; codecs=vp9,opus", "webm", webm
    yield "video/mp4", "mp4", mp4
    yield "audio/mp4", "mp4", mp4


def url(recording: str) -> str:
    return f"/api/sessions/{recording}/upload-recording"


def form(data: bytes, media_type: str, name: str = "file") -> dict[str, Any]:
    return {"files": {name: ("recording.webm", data, media_type)}, "data": {"note": "x" * 100}}


def body(data: bytes, media_type: str) -> dict[str, Any]:
    return {"content": data, "headers": {"Content-Type": media_type}}


def uploaded(root: Path, recording: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / recording).glob("frontend_replay.*")}


def leftovers(root: Path) -> list[str]:
    return [path.name for path in (root / UPLOADS_FOLDER).glob("*")]


async def test_accepted_uploads_become_assets(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    assert (await http.get(url(recording))).json() == {"path": None, "size_bytes": None}
    for media_type, suffix, data in samples():
        for sent in (form(data, media_type), body(data, media_type)):
            answer = await http.post(url(recording), **sent)
            name = f"frontend_replay.{suffix}"
            expected = {"status": "ok", "path": name, "size_bytes": len(data)}
            assert answer.json() == expected, (media_type, answer.text)
            assert uploaded(root, recording) == {name: data}  # replaces the earlier upload
            listed = (await http.get(url(recording))).json()
            assert listed == {"path": name, "size_bytes": len(data)}
            asset = await http.get(f"/api/sessions/{recording}/assets/{name}")
            assert asset.content == data
    assert leftovers(root) == []


async def test_rejected_uploads_change_nothing(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    assert (await http.post(url(recording), **form(wav(), "audio/wav"))).status_code == 200
    before = uploaded(root, recording)
    webm, html = sound("webm", "libopus"), b"<html><script>alert(1)</script>"
    matroska = webm.replace(b"webm", b"mkvx", 1)
    cases: list[tuple[dict[str, Any], str]] = [
        (form(html, "text/html"), "not accepted"),
        (form(html, "video/webm"), "neither WAV, WebM nor MP4"),
        (form(matroska, "video/webm"), "neither WAV, WebM nor MP4"),
        (form(webm, "video/mp4"), "stated as video/mp4, but the content is webm"),
        (form(wav(), "video/webm"), "stated as video/webm, but the content is wav"),
        (form(b"RIFF....AVI ", "audio/wav"), "neither WAV, WebM nor MP4"),
        (form(b"....ftypqt  ", "video/mp4"), "neither WAV, WebM nor MP4"),
        (form(wav(), "audio/wav", name="other"), "no file under the name 'file'"),
        (form(b"", "audio/wav"), "is empty"),
        (body(b"", "audio/wav"), "is empty"),
        (body(wav(), "application/octet-stream"), "not accepted"),
        ({"content": wav()}, "not accepted"),
        (body(b"x", "multipart/form-data"), "with a boundary"),
        (body(b"x", "multipart/form-data; boundary=b"), "cannot be read"),
        (body(b"--b\r\nContent-Disposition: form-data; name=file\r\n", _BOUNDED), "is incomplete"),
        (body(_part(b"audio/wav", wav()), _BOUNDED), "is incomplete"),
        (body(_part(b"audio/wav", wav()) * 2 + b"--b--\r\n", _BOUNDED), "more than one"),
        (body(b"x", "multipart/form-data; boundary=" + "b" * 5000), "cannot be read"),
    ]
    for sent, words in cases:
        answer = await http.post(url(recording), **sent)
        assert answer.status_code == 400, words
        assert words in answer.json()["message"]
        assert answer.json()["code"] == "invalid_field"
        assert uploaded(root, recording) == before
    assert leftovers(root) == []


_BOUNDED = "multipart/form-data; boundary=b"


def _part(media_type: bytes, data: bytes) -> bytes:
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="../../x"\r\n'
    return head + b"Content-Type: " + media_type + b"\r\n\r\n" + data + b"\r\n"


async def test_the_file_name_is_ignored(
    http: httpx.AsyncClient, root: Path, recording: str, tmp_path: Path
) -> None:
    sent = body(_part(b"audio/wav", wav()) + b"--b--\r\n", _BOUNDED)
    assert (await http.post(url(recording), **sent)).status_code == 200
    assert set(uploaded(root, recording)) == {"frontend_replay.wav"}
    assert {path.name for path in tmp_path.iterdir()} == {"sessions"}


async def test_the_size_limit_applies_during_the_upload(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    exact = wav() + bytes(LIMIT - len(wav()))
    for sent in (body(exact, "audio/wav"), form(exact, "audio/wav")):
        assert (await http.post(url(recording), **sent)).json()["size_bytes"] == LIMIT
    before = uploaded(root, recording)
    for sent in (body(exact + b"x", "audio/wav"), form(exact + b"x", "audio/wav")):
        answer = await http.post(url(recording), **sent)
        assert (answer.status_code, answer.json()["code"]) == (413, "message_too_large")
    address = http.base_url.host, http.base_url.port or 80
    head = f"POST {url(recording)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: audio/wav\r\n"
    chunks = (b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (wav(), *[bytes(65_536)] * 1600))
    unmeasured = await exchange(
        address, f"{head}Transfer-Encoding: chunked\r\n\r\n".encode(), *chunks
    )
    assert unmeasured.startswith(b"HTTP/1.1 413 "), "100 MB in chunks"
    assert uploaded(root, recording) == before
    assert leftovers(root) == []


async def test_an_incomplete_upload_is_never_visible(
    edge: RunningEdge, root: Path, recording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that stops sending, and one that disconnects: its data is deleted."""
    monkeypatch.setattr(bodies, "_BODY_TIMEOUT_S", 0.5)
    host, port = edge.url.removeprefix("http://").split(":")
    head = (
        f"POST {url(recording)} HTTP/1.1\r\nHost: {host}:{port}\r\n"
        "Content-Type: audio/wav\r\nContent-Length: 2000000\r\n\r\n"
    )
    for leaves in (False, True):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode() + wav() + bytes(1_500_000))
        async with asyncio.timeout(WITHIN_S):
            await until(lambda: leftovers(root))
            assert uploaded(root, recording) == {}
            if leaves:
                writer.transport.abort()
            else:
                assert b" 408 " in await reader.readline()
            await until(lambda: not leftovers(root))
        writer.close()
        assert uploaded(root, recording) == {}


async def test_an_upload_leaves_the_reserve_of_free_space(
    settings: BrokerSettings, root: Path, recording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its start, and while it arrives: another upload may take the space."""
    free = 2.0
    calls = 0

    def measured(_folder: Path) -> int:
        nonlocal calls
        calls += 1
        return int(free * 2**30) if calls == 1 else 2**29

    monkeypatch.setattr(disk, "free_bytes", measured)
    async with running_edge(settings, data_dir=root.parent) as running, running.http() as http:
        for free in (2.0, 0.5):
            calls = 0
            answer = await http.post(url(recording), **body(wav(), "audio/wav"))
            assert answer.status_code == 507
            assert answer.json()["code"] == "disk_full"
            assert calls == (2 if free > 1 else 1)
        assert not uploaded(root, recording)
        assert not leftovers(root)


async def test_an_unknown_recording(http: httpx.AsyncClient, root: Path) -> None:
    answer = await http.post(url("0" * 32), **body(wav(), "audio/wav"))
    assert answer.status_code == 404
    assert list(root.iterdir()) == []


async def test_a_disk_that_cannot_be_written(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    (root / UPLOADS_FOLDER).write_bytes(b"")  # a file where the folder must be
    for path, sent in (
        (url(recording), body(wav(), "audio/wav")),
        (f"/api/sessions/{recording}/comment", {"json": {"comment": "x"}}),
    ):
        answer = await http.post(path, **sent)
        assert (answer.status_code, answer.json()["code"]) == (503, "no_recordings")
        assert "cannot be written" in answer.json()["message"]
