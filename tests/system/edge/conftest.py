"""An edge of the test's own, and a worker that the test plays; modules may define their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from support.edge_harness import PlayedWorker, RunningEdge, played_worker, running_edge


@pytest.fixture
async def edge(settings: BrokerSettings) -> AsyncIterator[RunningEdge]:
    """An edge as a process would be, on the test's own part of Redis."""
    async with running_edge(settings) as running:
        yield running


@pytest.fixture
async def worker(broker: Broker) -> AsyncIterator[PlayedWorker]:
    """Claims sessions as a worker does, and answers as the test says."""
    async with played_worker(broker) as played:
        yield played
