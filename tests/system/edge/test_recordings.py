"""Recordings over HTTP: what is served, and what must not be served."""

import asyncio
import io
import os
import shutil
import time
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.audio import WaveformPeaks
from antiphon.shared_schemas.entries import StopIn
from antiphon.shared_schemas.ids import new_recording_id, new_share_token
from antiphon.shared_schemas.recording import (
    META_FILE,
    PEAKS_FILE,
    RECORDING_FILE,
    REPLAY_WAV,
    TIMELINE_FILE,
    USED_FILE,
    Meta,
    RecordingState,
    ReplayState,
    encode_meta,
)
from support.edge_harness import RunningEdge, running_edge
from support.recordings import read_json, recorded
from support.redis_server import RedisServer

KEY, TOKEN = "client-key-0123456789", "admin-token-0123456789"
AUDIO = "user_audio/000.wav"
READS = (
    "",
    "/recording",
    "/peaks",
    f"/assets/{AUDIO}",
    "/download",
    "/comment",
    "/upload-recording",
)


@pytest.fixture
def recording(root: Path) -> str:
    return recorded(root)


@pytest.fixture
async def edge(settings: BrokerSettings, root: Path) -> AsyncIterator[RunningEdge]:
    async with running_edge(settings, data_dir=root.parent) as running:
        yield running


def api(recording: str, rest: str = "") -> str:
    return f"/api/sessions/{recording}{rest}"


async def raw_get(edge: RunningEdge, path: str) -> tuple[int, bytes]:
    """Sends a path that no client library has normalised."""
    host, port = edge.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        head = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode("latin-1"))
        async with asyncio.timeout(60):
            answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    return int(answer.split()[1]), answer.partition(b"\r\n\r\n")[2]


async def test_a_recording_can_be_read_by_its_id(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    meta = await http.get(api(recording))
    assert meta.json() == read_json(root / recording / META_FILE)
    timeline = await http.get(api(recording, "/recording"))
    assert timeline.json() == read_json(root / recording / RECORDING_FILE)
    for chunk in timeline.json()["chunks"]:
        for name in (chunk["user_audio"], *chunk.get("user_frames", ())):
            answer = await http.get(api(recording, f"/assets/{name}"))
            assert answer.content == (root / recording / name).read_bytes()


async def test_headers_of_an_asset(http: httpx.AsyncClient, root: Path, recording: str) -> None:
    (root / recording / "odd.bin").write_bytes(b"<script>")
    types = {AUDIO: "audio/wav", "user_frames/001.jpg": "image/jpeg"}
    for name, expected in (types | {"odd.bin": "application/octet-stream"}).items():
        answer = await http.get(api(recording, f"/assets/{name}"))
        assert answer.headers["content-type"] == expected
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["referrer-policy"] == "no-referrer"
        way = "inline" if name in types else "attachment"
        assert answer.headers["content-disposition"].startswith(way)


async def test_a_range_of_an_asset(http: httpx.AsyncClient, root: Path, recording: str) -> None:
    whole = (root / recording / AUDIO).read_bytes()
    end = len(whole) - 1
    for wanted, first, last in (
        ("bytes=0-0", 0, 0),
        ("bytes=10-19", 10, 19),
        ("bytes=-5", end - 4, end),
        ("bytes=44-", 44, end),
        (f"bytes=40-{10**9}", 40, end),
    ):
        answer = await http.get(api(recording, f"/assets/{AUDIO}"), headers={"Range": wanted})
        assert answer.status_code == 206, wanted
        assert answer.content == whole[first : last + 1]
        assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(whole)}"
        assert answer.headers["content-length"] == str(last - first + 1)


async def test_invalid_ranges(http: httpx.AsyncClient, root: Path, recording: str) -> None:
    url, whole = api(recording, f"/assets/{AUDIO}"), (root / recording / AUDIO).read_bytes()
    beyond = await http.get(url, headers={"Range": f"bytes={len(whole)}-"})
    assert beyond.status_code == 416
    assert beyond.headers["content-range"] == f"bytes */{len(whole)}"
    several = await http.get(url, headers={"Range": "bytes=0-3,8-11"})
    assert several.status_code == 206
    assert several.headers["content-type"].startswith("multipart/byteranges")
    assert b"RIFF" in several.content
    assert b"WAVE" in several.content
    head = await http.head(url)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole))
    assert head.headers["accept-ranges"] == "bytes"


async def test_conditions(http: httpx.AsyncClient, root: Path, recording: str) -> None:
    for rest in (f"/assets/{AUDIO}", "/recording"):
        url = api(recording, rest)
        first = await http.get(url)
        tag, changed = first.headers["etag"], first.headers["last-modified"]
        for headers in (
            {"If-None-Match": tag},
            {"If-None-Match": f'"other", W/{tag.removeprefix("W/")}'},
            {"If-None-Match": "*"},
            {"If-Modified-Since": changed},
            {"If-None-Match": tag, "Range": "bytes=0-3"},
        ):
            same = await http.get(url, headers=headers)
            assert (same.status_code, same.content) == (304, b""), headers
            assert same.headers["etag"] == tag
        for headers in (
            {"If-None-Match": '"other"'},
            {"If-None-Match": '"other"', "If-Modified-Since": changed},  # the tag decides
            {"If-Modified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"},
            {"If-Modified-Since": "yesterday"},
            {"If-Modified-Since": "30 Feb 99999999999999999999 2026.5"},
        ):
            assert (await http.get(url, headers=headers)).status_code == 200, headers
    url = api(recording, f"/assets/{AUDIO}")
    tag = (await http.get(url)).headers["etag"]
    part = await http.get(url, headers={"Range": "bytes=0-3", "If-Range": tag})
    assert (part.status_code, part.content) == (206, b"RIFF")
    stale = await http.get(url, headers={"Range": "bytes=0-3", "If-Range": '"other"'})
    assert stale.status_code == 200
    path = root / recording / AUDIO
    path.write_bytes(path.read_bytes() + b"\0\0")
    assert (await http.get(url, headers={"If-None-Match": tag})).status_code == 200


async def test_a_file_replaced_during_a_download_is_sent_completely(
    edge: RunningEdge, root: Path, recording: str
) -> None:
    old, new = os.urandom(8_000_000), os.urandom(8_000_000)
    path = root / recording / "merged_replay.wav"
    path.write_bytes(old)
    async with (
        edge.http() as http,
        http.stream("GET", api(recording, "/assets/merged_replay.wav")) as answer,
    ):
        pieces = answer.aiter_raw()
        got = await anext(pieces)
        path.with_name("next").write_bytes(new)
        path.with_name("next").replace(path)
        got += b"".join([piece async for piece in pieces])
    assert got == old


async def test_the_replay_as_opus(http: httpx.AsyncClient, root: Path, recording: str) -> None:
    url = api(recording, f"/assets/{(await http.get(api(recording))).json()['merged_replay_opus']}")
    whole = (root / recording / "merged_replay.opus").read_bytes()
    assert whole.startswith(b"OggS")
    answer = await http.get(url)
    assert (answer.headers["content-type"], answer.content) == ("audio/ogg", whole)
    part = await http.get(url, headers={"Range": "bytes=100-"})
    assert (part.status_code, part.content) == (206, whole[100:])


async def test_the_peaks_of_a_replay(http: httpx.AsyncClient, root: Path, recording: str) -> None:
    answer = await http.get(api(recording, "/peaks"))
    assert answer.content == (root / recording / PEAKS_FILE).read_bytes()
    with (root / recording / REPLAY_WAV).open("rb") as wav:
        assert answer.json() == WaveformPeaks.of_wav(wav).model_dump()
    same = {"If-None-Match": answer.headers["etag"]}
    assert (await http.get(api(recording, "/peaks"), headers=same)).status_code == 304
    head = await http.head(api(recording, "/peaks"))
    assert (head.status_code, head.headers["etag"]) == (200, answer.headers["etag"])


async def test_texts_are_compressed_and_sound_is_not(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    timeline = root / recording / RECORDING_FILE
    timeline.write_bytes(timeline.read_bytes() + b" " * 300_000)  # sent in several blocks
    shared = (await http.post(api(recording, "/shares"), json={})).json()["token"]
    for name in (recording, shared):
        for rest in ("/recording", f"/assets/{RECORDING_FILE}"):
            plain = await http.get(api(name, rest), headers={"Accept-Encoding": "identity"})
            packed = await http.get(api(name, rest))
            assert packed.headers["content-encoding"] == "gzip"
            assert "content-encoding" not in plain.headers
            assert packed.content == plain.content
            assert packed.num_bytes_downloaded < len(plain.content) / 10
            assert packed.headers["vary"] == "Accept-Encoding"
    tag = (await http.get(api(recording, "/recording"))).headers["etag"]
    assert tag.startswith("W/")
    part = await http.get(api(recording, "/recording"), headers={"Range": "bytes=0-9"})
    assert (part.status_code, part.content) == (206, timeline.read_bytes()[:10])
    stale = {"Range": "bytes=0-9", "If-Range": tag}  # it may be the tag of the compressed text
    assert (await http.get(api(recording, "/recording"), headers=stale)).status_code == 200
    for asset in ("merged_replay.wav", "merged_replay.opus", "user_frames/001.jpg"):
        answer = await http.get(api(recording, f"/assets/{asset}"))
        assert "content-encoding" not in answer.headers
    assert "content-encoding" not in (await http.get(api(recording, "/download"))).headers


async def test_peaks_of_an_older_recording_are_made_and_kept(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    kept = root / recording / PEAKS_FILE
    made = kept.read_bytes()
    kept.unlink()
    answer = await http.get(api(recording, "/peaks"))
    assert (answer.content, kept.read_bytes()) == (made, made)
    assert (await http.get(api(recording, "/peaks"))).headers["etag"] == answer.headers["etag"]
    kept.unlink()
    shutil.rmtree(root / ".uploads")
    (root / ".uploads").write_bytes(b"")  # where the edge writes first: like a read-only disk
    assert (await http.get(api(recording, "/peaks"))).content == made
    assert not kept.exists()
    (root / recording / REPLAY_WAV).write_bytes(b"RIFF")
    assert (await http.get(api(recording, "/peaks"))).status_code == 404
    (root / recording / REPLAY_WAV).unlink()
    assert (await http.get(api(recording, "/peaks"))).status_code == 404


async def test_a_running_session_has_no_timeline(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    (root / recording / RECORDING_FILE).unlink()
    answer = await http.get(api(recording, "/recording"))
    assert (answer.status_code, answer.headers["retry-after"]) == (404, "5")
    assert "still being recorded" in answer.json()["message"]
    assert (await http.get(api(recording))).status_code == 200


BAD_IDS = (
    *("x", "..", "%2e%2e", "..%2f", "%00", "A" * 32, "0" * 31, "0" * 33, "0" * 32 + "%0a"),
    *("0" * 500, "share_", "share_" + "0" * 31, "share_" + "Z" * 32, ".trash", ".uploads"),
    *("%ff", "💀".encode()),
)


async def test_invalid_ids(edge: RunningEdge) -> None:
    """One dependency reads the id of all routes."""
    for bad, rest in [*((bad, "") for bad in BAD_IDS), *(("..%2f", rest) for rest in READS)]:
        text = bad if isinstance(bad, str) else bad.decode("latin-1")
        status, _ = await raw_get(edge, api(text, rest))
        assert status in (307, 400, 404, 422), (bad, rest)  # 307: without the slash at the end


async def test_an_unknown_id(http: httpx.AsyncClient) -> None:
    for name in (new_recording_id(), new_share_token()):
        for rest in READS:
            answer = await http.get(api(name, rest))
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        for name in archive.namelist():
            yield name, archive.read(name)


def visible(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.name != TIMELINE_FILE
    }


async def test_the_zip_contains_every_file(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    (root / recording / TIMELINE_FILE).write_text("{}")
    answer = await http.get(api(recording, "/download"))
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == "attachment"
    assert "content-length" not in answer.headers  # its length is unknown before the end
    expected = visible(root / recording)
    assert {f"{recording}/{name}": data for name, data in expected.items()} == dict(
        unpacked(answer.content)
    )


async def test_the_zip_lists_files_deleted_during_the_download(
    edge: RunningEdge, root: Path, recording: str
) -> None:
    """So it is not built in memory: its first bytes arrive before all files are read."""
    (root / recording / "ai_audio" / "zz.wav").write_bytes(os.urandom(30_000_000))
    async with edge.http() as http, http.stream("GET", api(recording, "/download")) as answer:
        pieces = answer.aiter_raw()
        data = await anext(pieces)
        (root / recording / AUDIO).unlink()
        data += b"".join([piece async for piece in pieces])
    names = dict(unpacked(data))
    assert AUDIO.encode() in names[f"{recording}/MISSING.txt"]
    assert f"{recording}/{AUDIO}" not in names


async def test_reading_counts_as_use_and_listing_does_not(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    used = root / recording / USED_FILE
    assert (await http.get("/api/sessions")).json()["total"] == 1
    assert not used.exists()
    await http.get(api(recording, f"/assets/{AUDIO}"))
    assert time.time() - used.stat().st_mtime < 60
    long_ago = time.time() - 3600
    os.utime(used, (long_ago, long_ago))
    await http.get(api(recording))
    assert time.time() - used.stat().st_mtime < 60


async def test_an_edge_without_the_recordings(
    settings: BrokerSettings, tmp_path: Path, root: Path
) -> None:
    async with (
        running_edge(settings, data_dir=tmp_path / "nowhere") as edge,
        edge.http() as http,
    ):
        for path in (
            "/api/sessions",
            api(new_recording_id()),
            api(new_recording_id(), "/download"),
        ):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()["code"]) == (503, "no_recordings")
            assert "data_dir" in answer.json()["message"]
    recording = recorded(root)
    async with (
        running_edge(settings, data_dir=tmp_path) as edge,
        edge.http() as http,
    ):
        assert (await http.get(api(recording))).status_code == 200


async def test_a_broken_meta_file(http: httpx.AsyncClient, root: Path, recording: str) -> None:
    broken = recorded(root)
    (root / broken / META_FILE).write_text("{")
    listed = (await http.get("/api/sessions")).json()
    assert [one["id"] for one in listed["sessions"]] == [recording]


async def shared(http: httpx.AsyncClient, recording: str, **options: Any) -> str:
    answer = await http.post(api(recording, "/shares"), json=options)
    assert answer.status_code == 200, answer.text
    assert answer.json()["url"] == f"/s/{answer.json()['token']}"
    token: str = answer.json()["token"]
    return token


async def test_a_share_link_reads_one_recording_only(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    token = await shared(http, recording)
    other = recorded(root)
    for rest in READS:
        assert (await http.get(api(token, rest))).status_code == 200, rest
    wav = {"content": b"RIFF....WAVE", "headers": {"Content-Type": "audio/wav"}}
    for method, rest, body in (
        ("POST", "/comment", {"json": {"comment": "x"}}),
        ("POST", "/upload-recording", wav),
        ("POST", "/shares", {"json": {}}),
        ("GET", "/shares", {}),
        ("DELETE", f"/shares/{token}", {}),
    ):
        answer = await http.request(method, api(token, rest), **body)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), rest
    assert (await http.get(api(other))).status_code == 200
    assert not (root / recording / "comment.txt").exists()


async def test_a_share_link_does_not_reveal_the_id(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    token, before = await shared(http, recording), visible(root / recording)
    for rest in ("", "/recording", f"/assets/{META_FILE}", f"/assets/{RECORDING_FILE}"):
        answer = await http.get(api(token, rest))
        assert answer.json()["recording_id"] == token
        assert recording not in answer.text
        assert recording not in str(answer.headers)
    for rest in ("/assets/nothing", "/assets/user_audio/nothing", "/assets/x..", "/shares"):
        answer = await http.get(api(token, rest))
        assert answer.status_code >= 400
        assert recording not in answer.text
    archive = await http.get(api(token, "/download"))
    assert recording not in str(archive.headers)
    (root / recording / RECORDING_FILE).unlink()
    early = await http.get(api(token, "/recording"))
    assert (early.status_code, recording in early.text) == (404, False)
    shutil.rmtree(root / recording)
    gone = await http.get(api(token))
    assert (gone.status_code, recording in gone.text) == (404, False)
    names = dict(unpacked(archive.content))
    assert set(names) == {f"{token}/{name}" for name in before}
    assert not [name for name, data in names.items() if recording.encode() in data]


async def test_a_share_link_expires_and_can_be_revoked(
    http: httpx.AsyncClient, root: Path, recording: str
) -> None:
    for life in (0, -1, "x", 1e12):
        answer = await http.post(api(recording, "/shares"), json={"expires_in_s": life})
        assert answer.status_code == 422, life
    brief = await shared(http, recording, expires_in_s=0.05)
    lasting = await shared(http, recording, expires_in_s=None)
    other = recorded(root)
    assert (await http.delete(api(other, f"/shares/{lasting}"))).status_code == 404
    await asyncio.sleep(0.1)
    assert (await http.get(api(brief))).status_code == 404
    listed = (await http.get(api(recording, "/shares"))).json()["shares"]
    assert listed == [{"token": lasting, "url": f"/s/{lasting}", "expires_at": None}]
    assert (await http.get(api(lasting))).status_code == 200
    assert (await http.delete(api(recording, f"/shares/{lasting}"))).json() == {"success": True}
    gone = await http.get(api(lasting))
    assert gone.status_code == 404
    assert "revoked" in gone.json()["message"]
    assert (await http.delete(api(recording, f"/shares/{lasting}"))).status_code == 404


async def test_keys_and_share_links(settings: BrokerSettings, root: Path, recording: str) -> None:
    options = {"api_keys": [KEY], "admin_token": TOKEN, "data_dir": root.parent}
    async with running_edge(settings, **options) as edge, edge.http() as http:
        key, admin = ({"Authorization": f"Bearer {one}"} for one in (KEY, TOKEN))
        assert (await http.get(api(recording))).status_code == 401
        assert (await http.get(api(recording), headers=key)).status_code == 200
        assert (await http.post(api(recording, "/shares"), json={})).status_code == 401
        made = await http.post(api(recording, "/shares"), json={}, headers=key)
        token = made.json()["token"]
        for rest in READS:
            assert (await http.get(api(token, rest))).status_code == 200, rest
        assert (await http.post(api(token, "/comment"), json={})).status_code == 401
        assert (await http.get(api(new_share_token()))).status_code == 404
        foreign = {"Origin": "https://evil.example"}
        assert (await http.get(api(token), headers=foreign)).status_code == 403
        assert (await http.get("/api/sessions", headers=key)).status_code == 401
        assert (await http.get("/api/sessions", headers=admin)).status_code == 200
        revoked = await http.delete(api(recording, f"/shares/{token}"), headers=admin)
        assert revoked.json() == {"success": True}


async def test_an_administrator_deletes_a_recording(
    settings: BrokerSettings, broker: Broker, root: Path, recording: str
) -> None:
    options = {"api_keys": [KEY], "admin_token": TOKEN, "data_dir": root.parent}
    async with running_edge(settings, **options) as edge, edge.http() as http:
        key, admin = ({"Authorization": f"Bearer {one}"} for one in (KEY, TOKEN))
        meta = Meta.model_validate_json((await http.get(api(recording), headers=key)).content)
        token = (await http.post(api(recording, "/shares"), json={}, headers=key)).json()["token"]
        said = await broker.streams.input_writer(meta.session_id, meta.ticket)
        await said.append(StopIn())
        for name, headers, status in (
            (recording, key, 401),
            (recording, {}, 401),
            (token, admin, 403),
        ):
            assert (await http.delete(api(name), headers=headers)).status_code == status
        for busy in ({"state": RecordingState.RECORDING}, {"replay": ReplayState.MERGING}):
            write_meta(root / recording, meta.model_copy(update=busy))
            refused = await http.delete(api(recording), headers=admin)
            assert (refused.status_code, refused.json()["code"]) == (409, "not_ready")
        write_meta(root / recording, meta)
        assert (await http.get(api(token))).status_code == 200
        deleted = await http.delete(api(meta.session_id), headers=admin)
        assert (deleted.status_code, deleted.json()) == (200, {"success": True})
        assert not (root / recording).exists()
        assert [path.name for path in root.iterdir() if list(path.iterdir())] == []
        assert (await http.get(api(token))).status_code == 404
        assert (await http.delete(api(recording), headers=admin)).status_code == 404
        stream = broker.keys.inbound(meta.session_id)
        assert [item async for item in broker.streams.history(stream, meta.ticket)] == []


def write_meta(folder: Path, meta: Meta) -> None:
    (folder / META_FILE).write_bytes(encode_meta(meta))


async def test_share_links_work_on_every_edge_and_survive_restarts(
    redis_server: RedisServer, root: Path, recording: str
) -> None:
    settings = BrokerSettings(redis_url=redis_server.url)
    async with running_edge(settings, data_dir=root.parent) as edge, edge.http() as http:
        token = await shared(http, recording)
    redis_server.restart()
    async with running_edge(settings, data_dir=root.parent) as edge, edge.http() as http:
        assert (await http.get(api(token))).status_code == 200
        redis_server.stop()
        away = await http.get(api(token))
        assert (away.status_code, away.json()["code"]) == (503, "broker_unavailable")
        assert (await http.get(api(recording))).status_code == 200  # ids need no Redis
        redis_server.start()


async def test_comments(http: httpx.AsyncClient, root: Path, recording: str) -> None:
    url = api(recording, "/comment")
    assert (await http.get(url)).json() == {"comment": ""}
    kept = await http.post(url, json={"comment": "  Schön war’s 🎵 \n"})
    assert kept.json() == {"status": "ok", "len": 13}
    assert (await http.get(url)).json() == {"comment": "Schön war’s 🎵"}
    assert (root / recording / "comment.txt").read_text() == "Schön war’s 🎵"
    long = await http.post(url, json={"comment": "x" * 2001})
    assert (long.status_code, long.json()["code"]) == (413, "message_too_large")
    assert long.json()["field"] == "comment"
    assert (await http.post(url, json={"comment": 7})).status_code == 422
    half = await http.post(
        url, content=b'{"comment": "\\ud83d"}', headers={"Content-Type": "application/json"}
    )
    assert half.status_code in (400, 422)
    assert half.json()["field"] == "comment"
    assert (await http.get(url)).json() == {"comment": "Schön war’s 🎵"}
    assert (await http.post(url, json={"comment": " "})).json() == {"status": "ok", "len": 0}
    assert (await http.get(url)).json() == {"comment": ""}
    assert not (root / recording / "comment.txt").exists()
    assert (await http.post(url, json={})).json() == {"status": "ok", "len": 0}
