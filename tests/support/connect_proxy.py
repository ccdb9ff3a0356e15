"""A proxy as companies have: HTTPS goes through it in tunnels (RFC 9110, CONNECT)."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class ConnectProxy:
    """Leads every tunnel to `port` of this machine, unless `refusal` is a status to answer with."""

    port: int
    refusal: int | None = None
    url: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """The host and port of each tunnel, and the login that came with it."""


class _Handler(BaseHTTPRequestHandler):
    proxy: ConnectProxy

    def do_CONNECT(self) -> None:
        self.close_connection = True
        self.proxy.asked.append((self.path, self.headers.get("Proxy-Authorization")))
        if self.proxy.refusal is not None:
            self.send_error(self.proxy.refusal)
            return
        with socket.create_connection(("127.0.0.1", self.proxy.port)) as server:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_forward, args=(server, self.connection))
            back.start()
            _forward(self.connection, server)
            back.join()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):  # either side may close the connection at any time
        while data := source.recv(1 << 16):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def connect_proxy(port: int) -> Iterator[ConnectProxy]:
    proxy = ConnectProxy(port)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": proxy}))
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
