"""The Redis servers on which these tests run."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from support.redis_server import redis_binaries, server_id

BROKER = Path(__file__).parent / "broker"
CLUSTER = Path("cluster")
"""Stands for a cluster among the servers; see tests/redis/broker/conftest.py."""

ON_A_CLUSTER = {
    *("test_eta.py", "test_events.py", "test_leases.py", "test_orphaned_keys.py"),
    *("test_queue.py", "test_registry.py", "test_resume_registry.py", "test_session_commands.py"),
    *("test_shares.py", "test_stream_reader.py", "test_streams.py", "test_voices.py"),
}
"""Files of tests that run on a cluster as well."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The tests of the broker run on every server, and each other file on one of them."""
    if "redis_program" not in metafunc.fixturenames:
        return
    test, servers = metafunc.definition, redis_binaries()
    if test.path.parent != BROKER or test.get_closest_marker("one_redis"):
        chosen = zlib.crc32(test.path.name.encode()) % len(servers)
        servers = servers[chosen : chosen + 1]
    elif test.path.name in ON_A_CLUSTER and _can_run_on_a_cluster(metafunc):
        servers.append(CLUSTER)
    metafunc.parametrize("redis_program", servers, ids=_id, indirect=True, scope="session")


def _can_run_on_a_cluster(metafunc: pytest.Metafunc) -> bool:
    marked = metafunc.definition.get_closest_marker("single_server")
    return marked is None and "redis_server" not in metafunc.fixturenames


def _id(program: Path) -> str:
    return "cluster" if program == CLUSTER else server_id(program)
