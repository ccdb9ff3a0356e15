"""A server of a language model that answers as a test says, well or badly."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "scripted"


def event(value: object) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"data: {text}\n\n".encode()


def delta(finish: str | None = None, **fields: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def says(*pieces: str) -> list[bytes]:
    """The events of a whole answer without a count of tokens."""
    return [*(delta(content=piece) for piece in pieces), delta("stop"), event("[DONE]")]


@dataclass
class Answer:
    """`hold` keeps the connection open after the events until the client closes it."""

    events: list[bytes] = field(default_factory=list)
    status: int = 200
    kind: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)
    hold: bool = False


def refuses(status: int, message: str = "", **headers: str) -> Answer:
    body = json.dumps({"error": {"message": message}}).encode()
    return Answer([body], status, "application/json", headers)


Script = Callable[[dict[str, Any]], Answer]


class ScriptedServer:
    """`script` answers each chat request; `requests` has their bodies. The list of models has MODEL."""

    def __init__(self, server: ThreadingHTTPServer, scheme: str) -> None:
        self.url = f"{scheme}://127.0.0.1:{server.server_address[1]}/v1"
        self.script: Script = lambda _: Answer(says("Hello."))
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.held = 0
        """Answers with `hold` whose connection no client has closed yet."""
        self._lock = threading.Lock()
        self.models: Answer | None = None

    def answers(self, *answers: Answer | list[bytes]) -> None:
        """One after another; the last one again and again."""
        waiting = [one if isinstance(one, Answer) else Answer(one) for one in answers]

        def take(_: dict[str, Any]) -> Answer:
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]

        self.script = take

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        self.keys.append(handler.headers.get("Authorization"))
        if handler.command == "GET":
            listed = json.dumps({"data": [{"id": MODEL}]}).encode()
            self._send(handler, self.models or Answer([listed], kind="application/json"))
            return
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        self.requests.append(body)
        self._send(handler, self.script(body))

    def _send(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        handler.send_response(answer.status)
        handler.send_header("Content-Type", answer.kind)
        for name, value in answer.headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        for part in answer.events:
            handler.wfile.write(part)
        handler.wfile.flush()
        if answer.hold:
            self._hold(1)
            handler.rfile.read(1)
            self._hold(-1)

    def _hold(self, more: int) -> None:
        with self._lock:
            self.held += more


@contextmanager
def scripted_server(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            scripted.respond(self)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Tests show nothing of it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        scripted = ScriptedServer(server, "https" if tls else "http")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield scripted
        finally:
            server.shutdown()
            thread.join()
