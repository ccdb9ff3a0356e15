"""Connections to servers, with and without TLS: who reads and writes, how they end, what is refused."""

import socket
import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from antiphon.inference_worker.engines.backend import websocket
from antiphon.inference_worker.engines.backend.server import ServerAccess
from support.tls import TestAuthority


@contextmanager
def mute_server(authority: TestAuthority | None) -> Iterator[str]:
    """Completes the handshake of TLS, reads, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                line: socket.socket = accepted
                if authority is not None:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    files = authority.server_certificate, authority.server_key
                    context.load_cert_chain(*files)
                    line = context.wrap_socket(accepted, server_side=True)
                line.recv(65536)
                ended.wait()
                line.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        scheme = "http" if authority is None else "https"
        try:
            yield f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize("tls", [False, True])
def test_a_server_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, tls: bool
) -> None:
    authority = TestAuthority(tmp_path) if tls else None
    if authority is not None:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    monkeypatch.setattr(websocket, "CONNECT_TIMEOUT_S", 0.5)
    before = set(threading.enumerate())
    with mute_server(authority) as address, pytest.raises(websocket.CONNECT_FAILURES):
        websocket.ServerSocket(ServerAccess(address), "/backend")
    started = set(threading.enumerate()) - before
    for thread in started:
        thread.join(10)
    assert not any(thread.is_alive() for thread in started)


@contextmanager
def echo_server(
    authority: TestAuthority | None, stand_still: Callable[[], None] = lambda: None
) -> Iterator[str]:
    """Sends back what arrives; ends the connection after `bye`. After `stop`, the server stands still."""

    async def echo(connection: ServerConnection) -> None:
        async for text in connection:
            if text == "bye":
                await connection.close(1001, "as asked")
                return
            if text == "stop":
                stand_still()
            await connection.send(text)

    async def listen() -> Server:
        context = authority and authority.server_context(asks_client=False)
        return await serve(echo, "127.0.0.1", 0, ssl=context)

    async def end(server: Server) -> None:
        server.close()
        await server.wait_closed()

    with start_blocking_portal() as portal:
        server = portal.call(listen)
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"{'http' if authority is None else 'https'}://127.0.0.1:{port}"
        finally:
            portal.call(end, server)


def test_one_thread_reads_and_writes_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once damage what OpenSSL knows of the connection: one of 500 never opened."""
    authority = TestAuthority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    users: dict[int, set[int]] = defaultdict(set)

    def noted(step: Callable[..., Any]) -> Callable[..., Any]:
        def call(line: object, *values: object) -> object:
            users[id(line)].add(threading.get_ident())
            return step(line, *values)

        return call

    for kind in (ssl.SSLObject, ssl.SSLSocket):
        for name in ("read", "write"):
            monkeypatch.setattr(kind, name, noted(getattr(kind, name)))
    with echo_server(authority) as address:
        connection = websocket.ServerSocket(ServerAccess(address), "/echo")
        connection.send("well")
        assert connection.recv(10) == "well"
        connection.close(10)
    assert len(users) == 2  # the client's end and the server's
    assert [len(threads) for threads in users.values()] == [1, 1]


@pytest.mark.parametrize("tls", [False, True])
def test_all_messages_arrive_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, tls: bool
) -> None:
    authority = TestAuthority(tmp_path) if tls else None
    if authority is not None:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    with echo_server(authority) as address:
        connection = websocket.ServerSocket(ServerAccess(address), "/echo")
        with pytest.raises(TimeoutError):
            connection.recv(0)
        for text in ("one", "two", "bye"):
            connection.send(text)
        assert [connection.recv(10) for _ in range(2)] == ["one", "two"]
        for _ in range(2):
            with pytest.raises(ConnectionClosed, match="as asked"):
                connection.recv(10)
        with pytest.raises(ConnectionClosed, match="as asked"):
            connection.send("more")
        connection.close(10)
        with pytest.raises(RuntimeError):
            connection.send("more")


@pytest.mark.parametrize("tls", [False, True])
def test_a_server_that_does_not_close_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, tls: bool
) -> None:
    authority = TestAuthority(tmp_path) if tls else None
    if authority is not None:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca))
    stands_still, goes_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        stands_still.set()
        goes_on.wait(60)

    with echo_server(authority, stand_still) as address:
        connection = websocket.ServerSocket(ServerAccess(address), "/echo", close_timeout=60)
        connection.send("stop")
        assert stands_still.wait(10)
        connection.close(0.2)
        goes_on.set()
        with pytest.raises(ConnectionClosed):
            connection.recv(10)


def test_a_redirect_to_another_server_is_not_followed() -> None:
    """It would get the headers, and they may hold keys."""

    class Redirects(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", "ws://127.0.0.2:1/echo")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with HTTPServer(("127.0.0.1", 0), Redirects) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        access = ServerAccess(f"http://127.0.0.1:{server.server_port}", {"X-Key": "secret"})
        with pytest.raises(websocket.CONNECT_FAILURES, match="cross-origin redirect"):
            websocket.ServerSocket(access, "/")
