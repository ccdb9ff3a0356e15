"""Why a WebSocket could not be opened, from real servers."""

import asyncio
import copy
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antiphon.client.errors import (
    CannotConnect,
    ClientError,
    Forbidden,
    InvalidAudio,
    MissingFile,
    NoAnswer,
    ServerError,
    ServiceUnavailable,
    SessionOver,
    Unauthorized,
    UnknownRecording,
    UnreadableMessage,
)
from antiphon.client.link import open_socket
from antiphon.client.recordings import Recordings
from antiphon.client.turns import Turn
from antiphon.shared_schemas.audio import SILENCE
from antiphon.shared_schemas.wire import Error
from support.tcp_server import tcp_server

WRONG = Error(error="wrong", message="wrong", code="invalid_field", field="x", retryable=False)
ERRORS: list[ClientError] = [
    *(CannotConnect("away"), Unauthorized("no key"), Forbidden("no"), ServiceUnavailable("full")),
    *(UnknownRecording("none"), InvalidAudio("empty"), MissingFile("no file"), ServerError(WRONG)),
    NoAnswer("late", (Turn(text="Yes", audio=SILENCE, start_s=0, end_s=1, interrupted=True),)),
    *(UnreadableMessage("{"), SessionOver("over", 1011)),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_pass_between_processes(error: ClientError) -> None:
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(same), str(same), same.message) == (type(error), str(error), error.message)
        shown = [{name: repr(value) for name, value in vars(one).items()} for one in (same, error)]
        assert shown[0] == shown[1]


@asynccontextmanager
async def _server(reply: bytes) -> AsyncIterator[int]:
    """A server that answers every connection with these bytes. Yields its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(reply)
        await writer.drain()

    async with tcp_server(answer) as port:
        yield port


def _refusal(status: int, reason: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, Unauthorized, r"\(401\): an API key is required; pass `api_key`, `--api-key`"),
        (403, Forbidden, r"\(403\): an API key is required$"),
        (503, ServiceUnavailable, r"\(503\): an API key is required$"),
        (500, CannotConnect, r"\(500\): an API key is required$"),
    ],
)
async def test_a_refusal_has_the_words_of_the_edge(
    status: int, kind: type[CannotConnect], words: str
) -> None:
    body = b'{"error":"an API key is required","code":"unauthorized"}'
    async with _server(_refusal(status, "No", body)) as port:
        with pytest.raises(CannotConnect, match=words) as refused:
            await open_socket(f"ws://127.0.0.1:{port}/ws/duplex/adx_1?key=secret", {})
    assert type(refused.value) is kind
    assert "secret" not in str(refused.value)


async def test_a_refusal_without_words_has_the_status() -> None:
    async with _server(_refusal(502, "Bad Gateway", b"<html>")) as port:
        with pytest.raises(CannotConnect, match=r"\(502\): Bad Gateway"):
            await open_socket(f"ws://127.0.0.1:{port}/", {})


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (_refusal(500, "No", b'{"error": null}'), r"\(500\): No$"),
        (_refusal(500, "No", b'{"error": {"message": "no memory"}}'), r"\(500\): no memory$"),
        (_refusal(500, "No", b'{"error": {"a": 1}}'), r"\(500\): No$"),
        (_refusal(404, "", b""), r"\(404\): Not Found; check that an edge is at this address$"),
        (_refusal(200, "OK", b"<html>"), r"\(200\): OK; check that an edge is at this address$"),
    ],
)
async def test_a_server_with_other_words(reply: bytes, words: str) -> None:
    async with _server(reply) as port:
        with pytest.raises(CannotConnect, match=words):
            await open_socket(f"ws://127.0.0.1:{port}/", {})


def _redirect(location: str) -> bytes:
    head = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    return head.encode()


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("https://h/ws/duplex/s?key=secret", "it redirects to https://h; use that address, if an"),
        (
            "http://[::1",
            r"it redirects to no valid address \(Invalid IPv6 URL\); check that an edge",
        ),
    ],
)
async def test_a_redirect_that_cannot_be_followed(location: str, words: str) -> None:
    async with _server(_redirect(location)) as port:
        with pytest.raises(CannotConnect, match=words) as refused:
            await open_socket(f"ws://127.0.0.1:{port}/", {})
    assert "secret" not in str(refused.value)


async def test_a_proxy_that_passes_no_websockets() -> None:
    body = b'{"error":"a proxy must pass the headers `Upgrade` and `Connection`"}'
    words = r"\(426\): a proxy must pass .*; the client sent both headers, so a proxy on the way"
    async with _server(_refusal(426, "Upgrade Required", body)) as port:
        with pytest.raises(CannotConnect, match=words):
            await open_socket(f"ws://127.0.0.1:{port}/ws/duplex/adx_1", {})


async def test_a_path_without_an_edge() -> None:
    async with _server(_refusal(403, "Forbidden", b"")) as port:
        with pytest.raises(Forbidden, match=r"\(403\): Forbidden; check that an edge is at this"):
            await open_socket(f"ws://127.0.0.1:{port}/x/ws/duplex/adx_1", {})


async def test_a_server_that_is_no_edge() -> None:
    async with _server(b"-ERR unknown command 'GET'\r\n") as port:
        with pytest.raises(CannotConnect, match="is not an edge"):
            await open_socket(f"ws://127.0.0.1:{port}/", {})


async def test_an_edge_without_tls() -> None:
    async with _server(_refusal(400, "Bad Request", b"")) as port:
        with pytest.raises(CannotConnect, match="use ws:// instead of wss://"):
            await open_socket(f"wss://127.0.0.1:{port}/", {})


async def test_an_unknown_host() -> None:
    with pytest.raises(CannotConnect, match=r"the host name no-such-host\.invalid is unknown"):
        await open_socket("ws://no-such-host.invalid:8006/", {})


async def test_a_port_without_a_server() -> None:
    with pytest.raises(CannotConnect, match="nothing listens there; is `antiphon up` running"):
        await open_socket("ws://localhost:1/", {})


FAR = "ws://192.0.2.1:8006"


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("http://user:secret@127.0.0.1:1", "http://127.0.0.1:1: nothing listens at the address of"),
        ("http://host.invalid:1", "the host name of the proxy is unknown"),
        ("socks5://127.0.0.1:1", r"run: pip install 'python-socks\[asyncio\]'"),
        ("ftp://127.0.0.1", r"its address is not valid \(scheme ftp isn't supported\)"),
    ],
)
async def test_an_unusable_proxy_is_named(
    proxy: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ws_proxy", proxy)
    with pytest.raises(CannotConnect, match=f"{words}.*; NO_PROXY=192.0.2.1 connects") as refused:
        await open_socket(f"{FAR}/", {})
    assert "secret" not in str(refused.value)


async def test_a_proxy_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _server(b"-ERR unknown command 'CONNECT'\r\n") as port:
        monkeypatch.setenv("ws_proxy", f"http://127.0.0.1:{port}")
        with pytest.raises(CannotConnect, match="what listens there is not a proxy; NO_PROXY="):
            await open_socket(f"{FAR}/", {})


async def test_a_proxy_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _server(_refusal(407, "Proxy Authentication Required", b"")) as port:
        monkeypatch.setenv("ws_proxy", f"http://127.0.0.1:{port}")
        with pytest.raises(CannotConnect, match="proxy rejected connection: HTTP 407; NO_PROXY="):
            await open_socket(f"{FAR}/", {})


def test_an_unusable_proxy_of_recordings_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with pytest.raises(CannotConnect, match=r"through the proxy http://127\.0\.0\.1:1: nothing"):
        Recordings(FAR).list()
