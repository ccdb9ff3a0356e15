"""An edge for each test, and a worker that the test plays; modules may define other ones."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from support.edge_harness import PlayedWorker, RunningEdge, played_worker, running_edge


@pytest.fixture
async def edge(settings: BrokerSettings) -> AsyncIterator[RunningEdge]:
    """A complete edge on the test's key prefix."""
    async with running_edge(settings) as running:
        yield running


@pytest.fixture
async def worker(broker: Broker) -> AsyncIterator[PlayedWorker]:
    """Claims sessions like a worker; the test decides its answers."""
    async with played_worker(broker) as played:
        yield played
