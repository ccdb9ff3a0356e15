"""Fixtures for all folders of tests: a real Redis, and a broker with a separate key prefix."""

from __future__ import annotations

import functools
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import hypothesis
import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.settings import BrokerSettings
from support.redis_server import RedisServer
from support.stack import Stack, new_stack

hypothesis.settings.register_profile("suite", deadline=None, print_blob=True)
hypothesis.settings.load_profile("suite")  # a busy machine is no failure

# httpx reads the certificates of all authorities for every client, which takes longer than most requests.
httpx._transports.default.create_ssl_context = functools.cache(httpx.create_ssl_context)  # type: ignore[attr-defined]

# A shell makes what it runs in the background deaf to Ctrl-C, and so would be all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One redis-server for the whole run; tests keep apart by `settings.key_prefix`."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server of this test's own that survives restarts with its data (AOF); already started."""
    with RedisServer(tmp_path_factory.mktemp("redis-aof"), aof=True) as server:
        yield server


@pytest.fixture
def settings(redis_url: str) -> BrokerSettings:
    """Broker settings with a key prefix that no other test has."""
    return BrokerSettings(redis_url=redis_url, key_prefix=f"t-{uuid.uuid4().hex[:12]}")


@pytest.fixture
async def broker(settings: BrokerSettings) -> AsyncIterator[Broker]:
    """An opened broker on the run's Redis."""
    async with open_broker(settings) as opened:
        yield opened


@pytest.fixture
async def raw(settings: BrokerSettings) -> AsyncIterator[Redis]:
    """A plain client on the same Redis, for looking behind the broker and for bending time."""
    async with Redis.from_url(settings.redis_url) as client:
        yield client


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Nothing runs yet except Redis (with persistence). At the end no log may hold a traceback."""
    with new_stack(tmp_path, aof=True) as running:
        yield running
