"""The client that the broker holds: calls that translate outages, and connections that block."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from antiphon.broker.connections.outages import UNAVAILABLE, is_demotion, is_refusal
from antiphon.broker.connections.pool import (
    ReportsLoss,
    ShrinkingPool,
    blocking_pool,
    require_master,
    shared_pool,
)
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.settings import BrokerSettings


class RedisNode:
    """One server."""

    def __init__(self, pool: ShrinkingPool, *, single_connection: bool = False) -> None:
        self._pool = pool
        self._redis = Redis(connection_pool=pool, single_connection_client=single_connection)
        self._redis.auto_close_connection_pool = True

    async def call(self, *command: Any, **options: Any) -> Any:
        """Run one command; redis-py uses `options` to parse the reply.

        Raises BrokerUnavailable when Redis does not answer within the pool's `timeout`.
        """
        async with self._translate_outages():
            return await self._redis.execute_command(*command, **options)

    async def call_all(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Run several commands on one key in one transaction; raises the first error like `call`."""
        async with self._translate_outages(), self._redis.pipeline(transaction=True) as batch:
            for command in commands:
                batch.execute_command(*command)
            answers: list[Any] = await batch.execute(raise_on_error=False)
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
            return answers

    async def aclose(self) -> None:
        """Close every connection."""
        await self._redis.aclose()

    @asynccontextmanager
    async def _translate_outages(self) -> AsyncIterator[None]:
        """Raise BrokerUnavailable for every way in which Redis can fail to answer.

        The pool's timeout is one deadline for the whole call: connection, request and reply. redis-py's
        `socket_timeout` applies to each step separately, costs a task per command, and on Python 3.11
        can lose a cancellation (`asyncio.wait_for`).
        """
        try:
            async with asyncio.timeout(self._pool.timeout):
                yield
        except TimeoutError as error:
            raise BrokerUnavailable("Redis does not answer in time") from error
        except UNAVAILABLE as error:
            raise BrokerUnavailable(f"Redis does not answer: {error}") from error
        except ResponseError as error:
            if not is_refusal(error):
                raise
            if is_demotion(error):
                await self._pool.disconnect(inuse_connections=self._redis.single_connection_client)
            raise BrokerUnavailable(f"Redis refuses for now: {error}") from error


class BlockingConnection(RedisNode):
    """One task's connection, whose reads may block for up to LONGEST_BLOCK_MS."""

    def __init__(self, pool: ShrinkingPool, control: RedisNode) -> None:
        super().__init__(pool, single_connection=True)
        self._control = control

    async def interrupt(self) -> None:
        """End the read in progress, if Redis has received it. Raises BrokerUnavailable."""
        connection = self._redis.connection
        if isinstance(connection, ReportsLoss) and connection.client_id:
            await self._control.call("CLIENT", "UNBLOCK", connection.client_id)

    async def check_master(self) -> None:
        """Raises BrokerUnavailable when the server is a replica now, and closes the connection to it.

        A replica answers reads, so a reader that stays connected would miss what the master receives.
        """
        async with self._translate_outages():
            await require_master(self._redis.execute_command("ROLE"))


class RedisClient(ABC):
    """One Redis, whatever the number of its servers."""

    @abstractmethod
    async def call(self, *command: Any, **options: Any) -> Any:
        """Run one command on the master of its key; see RedisNode."""

    @abstractmethod
    async def call_all(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Run several commands on the keys of one slot in one transaction; see RedisNode."""

    @abstractmethod
    def group(self, key: str) -> Hashable:
        """One blocking read may name the keys that have the same group."""

    @abstractmethod
    def connect_blocking(self, key: str) -> BlockingConnection:
        """A connection for one task to the master of this key."""

    @abstractmethod
    def masters(self) -> Sequence[RedisNode]:
        """Every server that takes writes, for SCAN and INFO."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close every connection but those of `connect_blocking`."""


class SingleServer(RedisNode, RedisClient):
    """A Redis that is one server."""

    def __init__(self, settings: BrokerSettings, *, only_master: bool = True) -> None:
        super().__init__(shared_pool(settings, only_master=only_master))
        self._settings = settings

    def group(self, key: str) -> Hashable:  # noqa: ARG002
        return None

    def connect_blocking(self, key: str) -> BlockingConnection:  # noqa: ARG002
        return BlockingConnection(blocking_pool(self._settings), self)

    def masters(self) -> Sequence[RedisNode]:
        return (self,)


def connect(settings: BrokerSettings, *, only_master: bool = True) -> RedisClient:
    """A client whose calls give up after `redis_timeout_s`. By default it refuses a replica."""
    return SingleServer(settings, only_master=only_master)
