"""The HTTP port of a service, over real sockets."""

import socket
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from antiphon.broker.service.metrics import new_registry
from antiphon.broker.service.status_port import Health, status_port


def well() -> tuple[bool, dict[str, Any]]:
    return True, {"status": "healthy"}


def ill() -> tuple[bool, dict[str, Any]]:
    return False, {"status": "unhealthy"}


def loading() -> tuple[bool, dict[str, Any]]:
    return True, {"status": "healthy", "ready": False}


def serve_page(
    health: Health, registry: CollectorRegistry | None = None, port: int = 0
) -> AbstractAsyncContextManager[str]:
    return status_port(
        "127.0.0.1", port, health, registry or CollectorRegistry(), setting="ANTIPHON_HEALTH_PORT"
    )


async def get(url: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.get(url)


async def test_metrics_can_be_read_by_prometheus() -> None:
    registry = new_registry("worker", "worker-1")
    Counter("antiphon_things", "Things.", registry=registry).inc(3)
    async with serve_page(well, registry) as address:
        reply = await get(f"http://{address}/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    assert [sample.value for sample in families["antiphon_things"].samples] == [3]
    assert not [name for name in families if name.endswith("_created")]


@pytest.mark.parametrize(
    ("health", "path", "status"),
    [
        *((well, "/health", 200), (loading, "/health", 200), (ill, "/health", 503)),
        *((well, "/ready", 200), (loading, "/ready", 503), (ill, "/ready", 503)),
        (well, "/else", 404),
    ],
)
async def test_health_is_a_status(health: Any, path: str, status: int) -> None:
    async with serve_page(health) as address:
        reply = await get(f"http://{address}{path}")
    assert reply.status_code == status
    if path != "/else":
        assert reply.json() == health()[1]


async def test_values_are_refreshed_before_each_scrape() -> None:
    registry = CollectorRegistry()
    scrapes = Counter("antiphon_scrapes", "Scrapes.", registry=registry)

    async def refresh() -> None:
        scrapes.inc()

    page = status_port(
        "127.0.0.1", 0, well, registry, setting="ANTIPHON_EDGE_HEALTH_PORT", refresh=refresh
    )
    async with page as address:
        assert (await get(f"http://{address}/health")).status_code == 200
        for number in (1, 2):
            assert (
                f"antiphon_scrapes_total {number}.0"
                in (await get(f"http://{address}/metrics")).text
            )


async def test_a_port_in_use_is_reported_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f"_HEALTH_HOST, ANTIPHON_HEALTH_PORT\\) cannot listen: port {port} is in use; choose"
        with pytest.raises(OSError, match=text):
            async with serve_page(well, port=port):
                pass


async def test_the_port_is_free_again_afterwards() -> None:
    async with serve_page(well) as address:
        host, _, port = address.partition(":")
    with socket.create_server((host, int(port))):
        pass


def test_a_process_reports_its_identity() -> None:
    registry = new_registry("worker", "worker-1")
    labels = {family.name: family.samples[0].labels for family in registry.collect()}
    assert labels["antiphon"]["service"] == "worker"
    assert labels["antiphon"]["instance_id"] == "worker-1"
    assert "process_resident_memory_bytes" in labels
