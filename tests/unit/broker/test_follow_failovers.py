"""The upkeep against failovers continues after an error."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from antiphon.broker import client
from antiphon.broker.client import Broker
from antiphon.broker.connections.client import BlockingConnection, RedisClient, RedisNode
from antiphon.broker.errors import BrokerUnavailable, IncompatibleRedis
from antiphon.broker.service.metrics import BrokerMetrics
from antiphon.broker.settings import BrokerSettings


class _Redis(RedisClient):
    """Raises `errors` one after another when it is asked for the master, and then answers."""

    def __init__(self, errors: list[Exception]) -> None:
        self._errors = errors
        self.answered = asyncio.Event()

    async def disconnect_former_masters(self) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.answered.set()

    async def call(self, *command: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def call_pipelined(self, *command: Any, master: bytes | None = None) -> Any:
        raise NotImplementedError

    async def call_all(self, *commands: tuple[Any, ...]) -> list[Any]:
        raise NotImplementedError

    async def master_id(self, key: str) -> bytes:
        raise NotImplementedError

    def group(self, key: str) -> Hashable:
        raise NotImplementedError

    def connect_blocking(self, key: str) -> BlockingConnection:
        raise NotImplementedError

    async def masters(self) -> Sequence[RedisNode]:
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError


async def test_an_unexpected_error_is_logged_and_the_upkeep_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "_FOLLOW_EVERY_S", 0.0)
    redis = _Redis([BrokerUnavailable("away"), IncompatibleRedis("this server is not a Sentinel")])
    broker = Broker(redis, BrokerSettings(), BrokerMetrics(CollectorRegistry()), 0.0)
    with capture_logs() as logs:
        following = asyncio.create_task(broker.follow_failovers())
        async with asyncio.timeout(30):
            await redis.answered.wait()
        following.cancel()
        await asyncio.wait((following,))
    assert [line["event"] for line in logs] == ["failover_upkeep_failed"]
