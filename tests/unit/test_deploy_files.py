"""Scripts in deploy/."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
import yaml

from antiphon.edge.settings import EdgeSettings
from support.dashboards import DEPLOY, ROOT

WEBRTC = (DEPLOY / "webrtc.yml").read_text()
VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


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


def test_edges_with_calls_publish_the_ports_on_which_they_listen() -> None:
    """Each port of the host belongs to one container."""
    defaults = VARIABLE.sub(lambda match: match[2], WEBRTC)
    edges = yaml.safe_load(defaults)["services"]
    taken: list[int] = []
    for edge in edges.values():
        ports = edge["environment"]["ANTIPHON_WEBRTC_PORTS"]
        assert edge["ports"] == [f"0.0.0.0:{ports}:{ports}/udp"]
        assert edge["deploy"] == {"replicas": 1}
        assert "calls" in edge["networks"]
        first, last = EdgeSettings(webrtc_ports=ports).webrtc_port_range or (0, 0)
        taken += range(first, last + 1)
    assert len(edges) == 2
    assert len(taken) == len({*taken}) == 100


def test_the_image_with_calls_is_that_of_the_chart_and_of_the_dockerfile() -> None:
    edge = yaml.safe_load(WEBRTC)["services"]["edge"]
    name = edge["image"].partition(":")[0]
    chart = (DEPLOY / "helm" / "antiphon" / "templates" / "edge.yaml").read_text()
    assert f'"{name}"' in chart
    [(argument, extra)] = edge["build"]["args"].items()
    assert re.search(rf"^ARG {argument}=$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    document = (ROOT / "docs" / "kubernetes.md").read_text()
    assert f"--build-arg {argument}={extra}" in document
    assert f"{name}:1" in document


def test_the_variables_of_calls_are_in_the_table_with_their_defaults() -> None:
    document = (ROOT / "docs" / "deployment.md").read_text()
    defaults = dict(VARIABLE.findall(WEBRTC)) | {"WEBRTC_ADDRESSES": "none"}
    del defaults["ANTIPHON_VERSION"]
    names = {f"`{name}`" for name in re.findall(r"\$\{(WEBRTC_\w+)", WEBRTC)}
    assert names == {f"`{name}`" for name in defaults}
    ports = ", ".join(f"`{name}`" for name in defaults if "PORTS" in name)
    values = ", ".join(value for name, value in defaults.items() if "PORTS" in name)
    assert f"| {ports} | {values} |" in document
    assert "| `WEBRTC_ADDRESSES` | none |" in document
