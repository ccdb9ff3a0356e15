"""The edge, the worker and the HTTP client of the edge's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

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
async def worker(broker: Broker) -> AsyncIterator[PlayedWorker]:
    """Claims sessions like a worker; the test decides its answers."""
    async with played_worker(broker) as played:
        yield played
