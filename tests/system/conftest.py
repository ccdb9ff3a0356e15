"""A stack of real processes per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis_server import RedisServer
from stack import Stack


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Nothing runs yet but Redis (with persistence); at the end no log may hold a traceback."""
    with RedisServer(tmp_path / "redis", aof=True) as redis:
        running = Stack(tmp_path, redis)
        try:
            yield running
        finally:
            running.close()
    assert running.tracebacks() == []
