"""The Redis servers on which these tests run."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from support.redis_server import redis_binaries, server_id

BROKER = Path(__file__).parent / "broker"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of the broker run on every server, and each other file on one of them."""
    if "redis_program" not in metafunc.fixturenames:
        return
    test, servers = metafunc.definition, redis_binaries()
    if test.path.parent != BROKER or test.get_closest_marker("one_redis"):
        chosen = zlib.crc32(test.path.name.encode()) % len(servers)
        servers = servers[chosen : chosen + 1]
    metafunc.parametrize("redis_program", servers, ids=server_id, indirect=True, scope="session")
