"""A client of the edge, and a folder of recordings; modules may define other edges."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from support.edge_harness import RunningEdge


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
