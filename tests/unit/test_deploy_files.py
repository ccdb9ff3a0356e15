"""Scripts in deploy/."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from support.dashboards import DEPLOY


@contextmanager
def service(status: int) -> Iterator[int]:
    """The port of a service that answers /health with this status."""

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    with HTTPServer(("127.0.0.1", 0), Health) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


@pytest.mark.parametrize(("status", "exit_status"), [(200, 0), (503, 1)])
def test_the_health_check_is_the_status_of_the_service(status: int, exit_status: int) -> None:
    with service(status) as port:
        assert subprocess.run([DEPLOY / "healthy", str(port)]).returncode == exit_status


def test_a_service_that_does_not_listen_is_unhealthy() -> None:
    with service(200) as port:
        pass
    done = subprocess.run([DEPLOY / "healthy", str(port)], capture_output=True)
    assert done.returncode == 1
