"""An edge for each test, and a worker that the test plays; modules may define other ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from support.edge_harness import PlayedWorker, RunningEdge, played_worker, running_edge


@pytest.fixture
async def edge(
    settings: BrokerSettings, request: pytest.FixtureRequest
) -> AsyncIterator[RunningEdge]:
    """A complete edge on the test's key prefix, with the settings of `@pytest.mark.edge(...)`."""
    marker = request.node.get_closest_marker("edge")
    async with running_edge(settings, **(marker.kwargs if marker else {})) as running:
        yield running


@pytest.fixture
async def http(edge: RunningEdge) -> AsyncIterator[httpx.AsyncClient]:
    async with edge.http() as client:
        yield client


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder of recordings."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    return folder


@pytest.fixture
async def worker(broker: Broker) -> AsyncIterator[PlayedWorker]:
    """Claims sessions like a worker; the test decides its answers."""
    async with played_worker(broker) as played:
        yield played
