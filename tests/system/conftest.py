"""One stack with the local engine, which takes seconds to load, for all tests that do not change it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from support.stack import Stack, new_stack, until


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
    async with httpx.AsyncClient(base_url=running_local_stack.http_url) as http:

        async def is_free() -> bool:
            status = (await http.get("/status")).json()
            return bool(status["slots_used"] == status["queue_length"] == 0)

        await until(is_free, within_s=45)
    assert running_local_stack.tracebacks() == []
