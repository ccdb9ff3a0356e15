"""The fixtures of all tests, which may be a cluster's here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.asyncio import RedisCluster as ClusterClient

from antiphon.broker.settings import BrokerSettings
from support.redis_cluster import RedisCluster, redis_cluster
from support.redis_server import RedisServer


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """Three masters for the whole run."""
    with redis_cluster(tmp_path_factory.mktemp("cluster"), replicas=0) as started:
        yield started


@pytest.fixture(scope="session")
def redis_url(
    redis_program: Path,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    if redis_program.name == "cluster":
        yield request.getfixturevalue("cluster").url
        return
    with RedisServer(tmp_path_factory.mktemp("redis"), binary=redis_program) as server:
        yield server.url


@pytest.fixture
async def raw(
    settings: BrokerSettings, request: pytest.FixtureRequest
) -> AsyncIterator[Redis | ClusterClient]:
    """A plain client on the same Redis, to inspect keys and to change stored times."""
    client: Redis | ClusterClient
    if settings.redis_url.startswith("redis+cluster:"):
        port = request.getfixturevalue("cluster").nodes[0].port
        client = ClusterClient(host="127.0.0.1", port=port)
    else:
        client = Redis.from_url(settings.redis_url)
    async with client:
        yield client
