"""The client that the broker holds: calls, connections that block, and the client of a single server."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError

from antiphon.broker.connections.outages import FAILURES, is_demotion, is_redirection, outage
from antiphon.broker.connections.pipeline import COPIED_BYTES, LONG_BYTES, Pipeline
from antiphon.broker.connections.pool import (
    LONGEST_BLOCK_MS,
    LocateServer,
    ShrinkingPool,
    blocking_pool,
    require_master,
    shared_pool,
)
from antiphon.broker.errors import BadPasswordFile, BrokerUnavailable
from antiphon.broker.redis_address import Endpoint, RedisAddress
from antiphon.broker.settings import BrokerSettings, read_utf8

_PING_S = LONGEST_BLOCK_MS / 1000
"""A connection that waits sends a command at this interval, so that both sides notice its loss."""


_LATE_READ_S = _PING_S + 0.5
"""A reply to a blocking read after this time is late."""


class RedisNode:
    """One server."""

    def __init__(self, pool: ShrinkingPool) -> None:
        self._pool = pool
        self._redis = Redis.from_pool(pool)
        self._pipeline = Pipeline(pool.new_connection, pool.timeout)
        self._long_commands = Pipeline(pool.new_connection, pool.timeout, in_pieces=True)
        """Not the pipeline of the short ones, which would wait."""

    @property
    def name(self) -> str:
        """Address of the server, for messages."""
        place = self._pool.connection_kwargs
        if "locate" in place:
            return "the master"
        return str(place.get("path") or f"{place['host']}:{place['port']}")

    async def call(self, *command: Any, **options: Any) -> Any:
        """Run one command; redis-py uses `options` to parse the reply.

        Raises BrokerUnavailable when Redis does not answer within the pool's `timeout`.
        """
        async with self._translate_outages():
            return await self._redis.execute_command(*command, **options)

    async def call_pipelined(self, *command: Any, master: bytes | None = None) -> Any:
        """Like `call`, with less CPU time, on one connection for all callers; the reply is not parsed.

        For frequent commands that Redis executes at once and whose replies are short. Long commands have
        another connection: a short one that is called after a long one may overtake it. Raises
        BrokerUnavailable also when another server of a cluster has the key now, and MasterChanged if
        `master` is not the `master_id` of the key.
        """
        size = 0
        for part in command:
            if type(part) is bytes:
                size += len(part)
        pipeline = self._long_commands if size > LONG_BYTES else self._pipeline
        try:
            return await pipeline.call(*command, server=master, long=size > COPIED_BYTES)
        except FAILURES as error:
            raise await self._outage(error) from error

    async def server_id(self) -> bytes:
        """See `Pipeline.server_id`, for `call_pipelined`. Raises BrokerUnavailable."""
        try:
            return await self._pipeline.server_id()
        except FAILURES as error:
            raise await self._outage(error) from error

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

    async def call_asking(self, *command: Any, **options: Any) -> Any:
        """Like `call`, on a server that is receiving the slot of the key."""
        async with self._translate_outages(), self._redis.pipeline(transaction=False) as batch:
            batch.execute_command("ASKING")
            batch.execute_command(*command, **options)
            _, answer = await batch.execute(raise_on_error=False)
            if isinstance(answer, Exception):
                raise answer
            return answer

    async def refusals(self, commands: Sequence[Sequence[str]]) -> list[RedisError | None]:
        """How the server would refuse these commands, which it does not execute.

        They are parts of a transaction that ends with its connection. Raises BrokerUnavailable.
        """
        async with self._translate_outages():
            connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
            try:
                packed = [connection.pack_command(*command) for command in (("MULTI",), *commands)]
                await connection.send_packed_command([part for parts in packed for part in parts])
                answers = [await _reply_of(connection) for _ in packed]
            finally:
                await connection.disconnect(nowait=True)
                await self._pool.release(connection)
        return answers[1:]

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pipeline.aclose()
        await self._long_commands.aclose()
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
        except FAILURES as error:
            raise await self._outage(error) from error

    async def _outage(self, error: Exception) -> BrokerUnavailable:
        """See `outage`. Closes the connections to a server that is no longer the master."""
        if is_demotion(error):
            await self._disconnect()
        return outage(error)

    async def _disconnect(self) -> None:
        """The next calls connect again."""
        self._pipeline.disconnect()
        self._long_commands.disconnect()
        await self._pool.disconnect(inuse_connections=False)


async def _reply_of(connection: AbstractConnection) -> RedisError | None:
    """None if the command would be executed."""
    try:
        await connection.read_response()
    except ResponseError as error:
        return error
    return None


StreamEntries = list[tuple[bytes, dict[bytes, bytes]]]
"""Ids and fields of the entries of one stream."""


class BlockingConnection:
    """One task's connection, whose reads may block for up to LONGEST_BLOCK_MS."""

    def __init__(
        self, pool: ShrinkingPool, node_of: Callable[[AbstractConnection], RedisNode]
    ) -> None:
        """`node_of`: the server that a connection leads to, for commands while a read blocks."""
        self._pipeline = Pipeline(pool.new_connection, pool.timeout)
        self._locate: LocateServer | None = pool.connection_kwargs.get("locate")
        self._node_of = node_of

    async def read(self, *command: Any) -> dict[bytes, StreamEntries]:
        """New entries by stream, from XREAD or XREADGROUP; empty after the time that it may block.

        Raises BrokerUnavailable also when the server is a replica now. A replica answers reads, so a
        reader that stays connected would miss what the master receives. A late reply may be that of a
        master that was suspended and replaced, so the master is looked up before the reply is used.
        """
        began = time.monotonic()
        try:
            reply = await self._pipeline.call(*command)
            if self._locate is not None and time.monotonic() - began > _LATE_READ_S:
                with suppress(BrokerUnavailable):  # no other master is known: the reply is used
                    self.disconnect_others(await self._locate())
                if self._pipeline.connection is None:
                    raise BrokerUnavailable("another server is the master now")
            if not reply:
                await require_master(self._pipeline.call("ROLE"))
        except FAILURES as error:
            if is_demotion(error) or is_redirection(error):
                self._pipeline.disconnect()
            raise outage(error) from error
        return {
            key: [
                (entry_id, dict(zip(fields[::2], fields[1::2], strict=True)))
                for entry_id, fields in entries
            ]
            for key, entries in reply or ()
        }

    async def subscribe(self, channel: str) -> None:
        """Subscribe to a channel on which nothing is published. The connection cannot read then.

        Raises BrokerUnavailable, or ResponseError if the user may not subscribe.
        """
        try:
            await self._pipeline.call("SUBSCRIBE", channel)
        except FAILURES as error:
            raise outage(error) from error

    async def keep_subscribed(self, for_s: float) -> None:
        """Keep a subscription for this time, or until the connection is lost."""
        for _ in range(round(for_s / _PING_S)):
            if await self._pipeline.is_lost_within(_PING_S):
                return
            try:
                await self._pipeline.call("PING")
            except FAILURES:
                return

    def disconnect_others(self, endpoint: Endpoint) -> None:
        """Disconnect unless this is the server. A read in progress fails."""
        self._pipeline.disconnect_others(endpoint)

    async def interrupt(self) -> None:
        """End the read in progress, if Redis has received it. Raises BrokerUnavailable."""
        connection = self._pipeline.connection
        if connection is not None:
            await self._node_of(connection).call("CLIENT", "UNBLOCK", connection.client_id)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._pipeline.aclose()


class RedisClient(ABC):
    """One Redis of one or several servers."""

    @abstractmethod
    async def call(self, *command: Any, **options: Any) -> Any:
        """Run one command on the master of its key; see RedisNode."""

    @abstractmethod
    async def call_pipelined(self, *command: Any, master: bytes | None = None) -> Any:
        """Run one frequent command on the master of its key; see RedisNode."""

    @abstractmethod
    async def call_all(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Run several commands on the keys of one slot in one transaction; see RedisNode."""

    @abstractmethod
    async def master_id(self, key: str) -> bytes:
        """Changes when the next `call_pipelined` on this key goes to another server than before.

        It may lack the newest writes: replication is asynchronous. Raises BrokerUnavailable.
        """

    async def disconnect_former_masters(self) -> None:  # noqa: B027 - only Sentinel needs it
        """Close the connections to a server that was the master, and does not know yet that it is not.

        What it still accepts is lost. To be called twice a second. Raises BrokerUnavailable.
        """

    @abstractmethod
    def group(self, key: str) -> Hashable:
        """One blocking read may name the keys that have the same group."""

    @abstractmethod
    def connect_blocking(self, key: str) -> BlockingConnection:
        """A connection for one task to the master of this key."""

    @abstractmethod
    async def masters(self) -> Sequence[RedisNode]:
        """Every server that takes writes, for SCAN and INFO. Raises BrokerUnavailable."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close every connection but those of `connect_blocking`."""


def read_password(setting: str, path: Path | None) -> str | None:
    """The text of the file that a setting names, None without one. Raises BadPasswordFile."""
    if path is None:
        return None
    try:
        password = read_utf8(path).strip()
    except OSError as error:
        raise BadPasswordFile(f"{setting} {path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise BadPasswordFile(f"{setting} {error}") from None
    if not password:
        raise BadPasswordFile(f"{setting} {path} is empty")
    return password


class SingleServer(RedisNode, RedisClient):
    """One server, or the one that is the master now if `locate` is given."""

    def __init__(
        self,
        settings: BrokerSettings,
        address: RedisAddress,
        *,
        only_master: bool,
        locate: LocateServer | None = None,
    ) -> None:
        super().__init__(shared_pool(settings, address, locate=locate, only_master=only_master))
        self._settings = settings
        self._address = address
        self._locate = locate

    async def master_id(self, key: str) -> bytes:  # noqa: ARG002
        return await self.server_id()

    def group(self, key: str) -> Hashable:  # noqa: ARG002
        return None

    def connect_blocking(self, key: str) -> BlockingConnection:  # noqa: ARG002
        pool = blocking_pool(self._settings, self._address, locate=self._locate)
        return BlockingConnection(pool, lambda _: self)

    async def masters(self) -> Sequence[RedisNode]:
        return (self,)
