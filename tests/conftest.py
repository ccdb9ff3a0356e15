"""Fixtures for all folders of tests: a real Redis, and a broker with a separate key prefix."""

import functools
import gc
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import hypothesis
import pytest
import structlog
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.service import logs
from antiphon.broker.settings import BrokerSettings
from support.longest_files import sort_longest_first
from support.redis_server import RedisServer, redis_binary
from support.stack import Stack, new_stack

# A busy machine is no failure. In CI, more examples are tried.
_EXAMPLES = 50 if os.environ.get("CI") == "true" else 20
hypothesis.settings.register_profile(
    "suite", deadline=None, print_blob=True, max_examples=_EXAMPLES
)
hypothesis.settings.load_profile("suite")

# httpx loads all CA certificates for every client, which takes longer than most requests.
httpx._transports.default.create_ssl_context = functools.cache(httpx.create_ssl_context)  # type: ignore[attr-defined]

# httpx waits for five seconds by default, and a busy machine may stop a server for that long.
for _part in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, _part, 60.0)

# A shell makes its background processes ignore Ctrl-C; the processes that the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection(session: pytest.Session) -> None:
    """Nothing that is imported or collected is garbage; looking for it takes seconds."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        sort_longest_first(items)


@pytest.fixture(scope="session", autouse=True)
def _no_command_configures_logs() -> Iterator[None]:
    """It would do so for this process, with a stream that is closed after the test of the command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structlog, "configure", lambda **_: None)
        patch.setattr(logs, "_adopt_libraries", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def redis_program(request: pytest.FixtureRequest) -> Path:
    """The redis-server of the next two fixtures; tests/redis/conftest.py chooses others."""
    chosen: Path = getattr(request, "param", redis_binary())
    return chosen


@pytest.fixture(scope="session")
def redis_url(redis_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A redis-server for many tests; each of them has its own `settings.key_prefix`."""
    with RedisServer(tmp_path_factory.mktemp("redis"), binary=redis_program) as server:
        yield server.url


@pytest.fixture
def redis_server(redis_program: Path, tmp_path: Path) -> Iterator[RedisServer]:
    """A started Redis for this test only. It keeps its data over restarts (AOF)."""
    with RedisServer(tmp_path / "redis-aof", aof=True, binary=redis_program) as server:
        yield server


@pytest.fixture
def settings(redis_url: str) -> BrokerSettings:
    """Broker settings with a key prefix that no other test has.

    A Redis on a busy machine may answer late. Tests of outages set `redis_timeout_s` themselves.
    """
    prefix = f"t-{uuid.uuid4().hex[:12]}"
    return BrokerSettings(redis_url=redis_url, key_prefix=prefix, redis_timeout_s=30.0)


@pytest.fixture
async def broker(settings: BrokerSettings) -> AsyncIterator[Broker]:
    async with open_broker(settings) as opened:
        yield opened


@pytest.fixture
async def raw(settings: BrokerSettings) -> AsyncIterator[Redis]:
    """A plain client on the same Redis, to inspect keys and to change stored times."""
    async with Redis.from_url(settings.redis_url) as client:
        yield client


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Starts only Redis (with persistence). At the end no log may contain a traceback."""
    with new_stack(tmp_path, aof=True) as running:
        yield running
