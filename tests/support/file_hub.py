"""An HTTP server that sends one file, well or badly, as hubs of models and what stands before them do."""

import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_RANGE = re.compile(r"bytes=(\d+)-")


@dataclass
class Answer:
    """How one request is answered. By default the file, or the part that the request asks for."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """In place of the file."""
    shift: int = 0
    """The part begins so many bytes later than asked for."""
    cut_after: int | None = None
    """Bytes of the body after which the connection is closed."""
    chunked: bool = False
    takes_ranges: bool = True
    hold: bool = False
    """Keep the connection open after `cut_after` bytes."""


class FileHub:
    """Answers with `script` in its order, and with the whole file from then on.

    `asked` has the headers of each request.
    """

    def __init__(self, server: ThreadingHTTPServer, content: bytes) -> None:
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.content = content
        self.script: list[Answer] = []
        self.asked: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.held = threading.Event()
        self.over = threading.Event()

    @property
    def ranges(self) -> list[str | None]:
        return [headers.get("range") for headers in self.asked]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FileHub

    def do_GET(self) -> None:
        hub = self.hub
        hub.asked.append({name.lower(): value for name, value in self.headers.items()})
        hub.paths.append(self.path)
        answer = hub.script.pop(0) if hub.script else Answer()
        self.close_connection = True
        status, body, headers = answer.status, answer.body, dict(answer.headers)
        if body is None:
            status, body = self._part(answer, headers)
        self._send(answer, status, body, headers)

    def _part(self, answer: Answer, headers: dict[str, str]) -> tuple[int, bytes]:
        content = self.hub.content
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        if not (asked and answer.takes_ranges):
            return 200, content
        start = int(asked[1]) + answer.shift
        headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return 206, content[start:]

    def _send(self, answer: Answer, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        if answer.chunked:
            headers["Transfer-Encoding"] = "chunked"
        else:
            headers.setdefault("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if answer.chunked else body
        self.wfile.write(sent[: answer.cut_after])
        if answer.hold:
            self.hub.held.set()
            self.hub.over.wait(60)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """The client may close the connection at any time."""


@contextmanager
def file_hub(content: bytes, tls: ssl.SSLContext | None = None) -> Iterator[FileHub]:
    handler = type("Handler", (_Handler,), {})
    server = _Server(("127.0.0.1", 0), handler)
    handler.hub = hub = FileHub(server, content)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        hub.url = hub.url.replace("http:", "https:")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        hub.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
