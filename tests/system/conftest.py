"""An edge for each test with a worker that the test plays, and one stack with the local engine.

The local engine takes seconds to load, so all tests that do not change it share the stack.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from support.edge_harness import PlayedWorker, RunningEdge, played_worker, running_edge
from support.stack import Stack, new_stack


@pytest.fixture(scope="session")
def running_local_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with new_stack(tmp_path_factory.mktemp("local-engine")) as running:
        running.edge()
        running.recorder()
        running.worker("local", slots=1)
        yield running


@pytest.fixture
async def local_stack(running_local_stack: Stack) -> AsyncIterator[Stack]:
    """An edge, a recorder, and a worker with the local engine and one free slot."""
    yield running_local_stack
    await running_local_stack.no_session_left()
    assert running_local_stack.tracebacks() == []


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
