"""Reading recordings over HTTP, against real servers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from antiphon.client.recordings import Recordings

KEY = "client-key-0123456789"
EMPTY = b'{"total": 0, "offset": 0, "limit": 20, "complete": true, "sessions": []}'


@contextmanager
def server(location: str = "") -> Iterator[tuple[int, list[str | None]]]:
    """The port of a server that redirects, or has no recordings; and the API key of each request."""
    keys: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers["X-Api-Key"])
            self.send_response(302 if location else 200)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(0 if location else len(EMPTY)))
            self.end_headers()
            if not location:
                self.wfile.write(EMPTY)

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
