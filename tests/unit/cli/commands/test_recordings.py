"""`antiphon recordings` with a server that is no edge."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon.cli.main import app
from antiphon.shared_schemas.recording import META_FILE
from support.recordings import recorded


@contextmanager
def server(meta: bytes, archive: bytes) -> Iterator[str]:
    """Yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = archive if self.path.endswith("/download") else meta
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


@pytest.mark.parametrize("out", ["call.zip", "call"])
def test_an_export_that_is_no_zip_is_refused(out: str, tmp_path: Path) -> None:
    meta = (tmp_path / recorded(tmp_path) / META_FILE).read_bytes()
    target = tmp_path / out
    with server(meta, b'{"detail": "log in"}') as url:
        ended = CliRunner().invoke(
            app, ["recordings", "export", "r", "--url", url, "--out", str(target)]
        )
    assert ended.exit_code == 1
    said = "the server sent something else than a ZIP; check that an edge is at this address"
    assert " ".join(ended.stderr.split()) == f"antiphon: {said}"
    assert not target.exists()


def test_a_name_that_is_no_utf8_is_unknown() -> None:
    with server(b"", b"") as url:
        ended = CliRunner().invoke(app, ["recordings", "show", "\udcff", "--url", url])
    assert ended.exit_code == 1
    assert ended.stderr.startswith("antiphon: the server sent something unreadable")
