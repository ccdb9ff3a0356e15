"""A server that accepts a connection and then says nothing, with and without TLS."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
