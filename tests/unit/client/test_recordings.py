"""Reading recordings over HTTP, against real servers."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from antiphon.client.errors import CannotConnect, UnknownRecording, UnreadableMessage
from antiphon.client.recordings import Recordings
from support.tcp_server import tcp_server

KEY = "client-key-0123456789"
EMPTY = b'{"total": 0, "offset": 0, "limit": 20, "complete": true, "sessions": []}'


@contextmanager
def server(
    location: str = "", body: bytes = EMPTY, status: int = 200, missing: int = 0
) -> Iterator[tuple[int, list[str | None]]]:
    """The port of a server that redirects, or sends this body; and the API key of each request.

    `missing`: the bytes by which the body is shorter than the server says.
    """
    keys: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers["X-Api-Key"])
            self.send_response(302 if location else status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Type", "text/html" if b"<" in body else "application/json")
            self.send_header("Content-Length", str(0 if location else len(body) + missing))
            self.end_headers()
            if not location:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    try:
        yield listening.server_port, keys
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


@pytest.mark.parametrize(("host", "sent"), [("127.0.0.1", KEY), ("localhost", None)])
def test_a_redirect_to_another_host_does_not_get_the_key(host: str, sent: str | None) -> None:
    with (
        server() as (port, keys),
        server(f"http://{host}:{port}/api/sessions") as (first, first_keys),
    ):
        assert Recordings(f"ws://127.0.0.1:{first}", api_key=KEY).list().total == 0
    assert (first_keys, keys) == ([KEY], [sent])


@pytest.mark.parametrize("call", ["list", "meta", "timeline", "save", "download"])
def test_the_page_of_another_server_is_unreadable(call: str, tmp_path: Path) -> None:
    with server(body=b"<!doctype html><title>Log in</title>") as (port, _):
        recordings = Recordings(f"ws://127.0.0.1:{port}")
        calls: dict[str, Callable[[], object]] = {
            "list": recordings.list,
            "meta": lambda: recordings.meta("r"),
            "timeline": lambda: recordings.timeline("r"),
            "save": lambda: recordings.save("r", tmp_path / "saved"),
            "download": lambda: recordings.download("r", tmp_path / "saved"),
        }
        with pytest.raises(UnreadableMessage, match=r"check that an edge is at this address$"):
            calls[call]()
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("call", ["save", "download"])
@pytest.mark.parametrize("missing", [0, 9])
def test_a_file_is_replaced_by_a_whole_one(call: str, missing: int, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"before")
    link = tmp_path / "link"
    link.symlink_to(kept)
    with server(body=b"new", missing=missing) as (port, _):
        recordings = Recordings(f"ws://127.0.0.1:{port}")
        with pytest.raises(CannotConnect) if missing else nullcontext():
            getattr(recordings, call)("r", link)
    assert kept.read_bytes() == (b"before" if missing else b"new")
    assert set(tmp_path.iterdir()) == {kept, link}


def test_a_recording_without_a_name_is_none() -> None:
    with pytest.raises(UnknownRecording, match="the name of the recording is empty"):
        Recordings("ws://127.0.0.1:1").meta("")


def test_a_recording_goes_to_a_device() -> None:
    with server(body=b"new") as (port, _):
        Recordings(f"ws://127.0.0.1:{port}").save("r", os.devnull)
    assert Path(os.devnull).is_char_device()


def test_a_refusal_whose_text_breaks_off_has_its_status() -> None:
    with (
        server(body=b'{"error": "bus', status=500, missing=9) as (port, _),
        pytest.raises(CannotConnect, match=r"refuses the connection \(500\)"),
    ):
        Recordings(f"ws://127.0.0.1:{port}").meta("r")


@pytest.mark.parametrize("scheme", ["http", "ws"])
def test_an_error_shows_the_address_as_it_was_given(scheme: str) -> None:
    with pytest.raises(CannotConnect, match=f"cannot connect to {scheme}://127.0.0.1:1: nothing"):
        Recordings(f"{scheme}://127.0.0.1:1").list()
    with (
        server(status=500, body=b"") as (port, _),
        pytest.raises(CannotConnect, match=rf"^{scheme}://127\.0\.0\.1:{port} refuses"),
    ):
        Recordings(f"{scheme}://127.0.0.1:{port}").list()
    with (
        server() as (port, _),
        pytest.raises(CannotConnect, match=rf"use {scheme}:// instead of {scheme}s://"),
    ):
        Recordings(f"{scheme}s://127.0.0.1:{port}").list()


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("ftp://h/", r"\(302\): it redirects to an address of ftp; check that an edge is at this"),
        ("http://[::1", r"it redirects to no valid address \(Invalid IPv6 URL\)"),
        (
            "/api/sessions",
            r"\(302\): it redirects in a circle: Found; check that an edge is at this",
        ),
        ("http://127.0.0.1:1/", "cannot connect to http://127.0.0.1:1: nothing listens there"),
    ],
)
def test_a_redirect_that_cannot_be_followed(location: str, words: str) -> None:
    with server(location) as (port, _), pytest.raises(CannotConnect, match=words):
        Recordings(f"http://127.0.0.1:{port}").list()


@pytest.mark.parametrize("reply", [b"", b"\0\1\2", b"-ERR unknown command\r\n"])
async def test_a_server_that_does_not_speak_http(reply: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(reply)
        await writer.drain()

    async with tcp_server(answer) as port:
        with pytest.raises(CannotConnect, match="is not an edge, or it needs https://"):
            await asyncio.to_thread(Recordings(f"http://127.0.0.1:{port}").list)
