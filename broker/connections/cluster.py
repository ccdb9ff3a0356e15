"""Redis Cluster: each command goes to the master of its key's slot, and follows redirections.

redis-py's cluster client is not used: it repeats commands whose reply was lost, and its connections do
not notice resets.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from redis.asyncio.connection import AbstractConnection, Connection
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, ResponseError, TryAgainError

from antiphon.broker.connections.client import BlockingConnection, RedisClient, RedisNode
from antiphon.broker.connections.pool import blocking_pool, shared_pool
from antiphon.broker.connections.shared_call import SharedCall
from antiphon.broker.errors import BrokerUnavailable, IncompatibleRedis
from antiphon.broker.keys import Keys
from antiphon.broker.redis_address import Endpoint, RedisAddress
from antiphon.broker.settings import BrokerSettings

T = TypeVar("T")

_TRY_AGAIN_S = 0.02
"""Pause while the keys of one command are on two servers, because their slot is being moved."""

_MOST_REDIRECTIONS = 3
"""Redirections without a pause. Servers that do not agree yet send a command to and fro."""

_LOOKUP_S = 1.0
"""A node that does not report the slots for this long is passed over, and the next one is asked."""

_REFRESH_S = 0.1
"""The shortest time between two refreshes: hundreds of calls may fail at the same time."""

_NO_HOST = (None, b"", b"?")

_LONGEST_REFRESH_S = 3.0
"""Less than the timeout of a call: the next refresh asks the nodes in another order."""

_PLACE_OF_KEY = {
    "EVAL": 3,
    "EVALSHA": 3,
    "MEMORY": 2,
    "XGROUP": 2,
    "XINFO": 2,
}
"""Place of the first key in commands whose first argument is not a key."""

_WITHOUT_KEY = frozenset({"CLIENT", "CLUSTER", "CONFIG", "INFO", "PING", "ROLE", "SCAN", "TIME"})


def slot_of(command: tuple[Any, ...]) -> int | None:
    """The hash slot of a command's first key; None for a command without keys."""
    name, *subcommand = command[0].split()
    if name in _WITHOUT_KEY:
        return None
    key = command[_PLACE_OF_KEY.get(name, 1) - len(subcommand)]
    return key_slot(key if isinstance(key, bytes) else key.encode())


class HashSlotMap:
    """Endpoints of the masters by slot, as the nodes report them. It is read again when it may be old."""

    def __init__(
        self, seeds: tuple[Endpoint, ...], ask: Callable[[Endpoint], Awaitable[Any]]
    ) -> None:
        """`ask` returns a node's reply to CLUSTER SLOTS."""
        self._seeds = seeds
        self._ask = ask
        self._masters: dict[int, Endpoint] = {}
        self._known: set[Endpoint] = set()
        self._lost: Endpoint | None = None
        self._is_stale = True
        self._refreshed = float("-inf")
        self._refreshing = SharedCall(self._refresh)
        self.aclose = self._refreshing.aclose

    async def master_of(self, slot: int) -> Endpoint:
        """Raises BrokerUnavailable when no node answers, or when no node has the slot."""
        await self._refresh_if_stale()
        try:
            return self._masters[slot]
        except KeyError:
            self._is_stale = True
            raise BrokerUnavailable(f"no server of the cluster has the hash slot {slot}") from None

    async def masters(self) -> list[Endpoint]:
        """Every master that has slots."""
        await self._refresh_if_stale()
        return list(dict.fromkeys(self._masters.values()))

    def suspect(self, endpoint: Endpoint | None = None) -> None:
        """Read the map again before the next call, from other nodes than `endpoint` if possible."""
        self._is_stale = True
        self._lost = endpoint

    def move(self, slot: int, endpoint: Endpoint) -> None:
        """Store what a redirection says. The others are read again: a slot rarely moves alone."""
        self._masters[slot] = endpoint
        self._is_stale = True

    async def _refresh_if_stale(self) -> None:
        if self._is_stale and time.monotonic() - self._refreshed > _REFRESH_S:
            await self._refreshing()

    async def _refresh(self) -> None:
        failure = "no answer in time"
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_REFRESH_S):
                for endpoint in self._candidates():
                    try:
                        reply = await self._ask(endpoint)
                    except BrokerUnavailable as error:
                        failure = str(error)
                        continue
                    if reply:
                        self._read(reply, endpoint[0])
                        return
                    failure = "the node has joined no cluster"
        raise BrokerUnavailable(f"no node of the cluster answers: {failure}")

    def _candidates(self) -> list[Endpoint]:
        """In random order: a node that is cut off from the others does not know what has changed."""
        known, seeds = list(self._known), list(self._seeds)
        random.shuffle(known)
        random.shuffle(seeds)
        unique = list(dict.fromkeys([*known, *seeds]))
        return sorted(unique, key=lambda endpoint: endpoint == self._lost)

    def _read(self, reply: list[Any], asked_host: str) -> None:
        """A node that does not know its own host, or has no host name, gives none."""
        self._masters = {}
        self._known = set()
        for first, last, *nodes in reply:
            endpoints = [
                (asked_host if host in _NO_HOST else host.decode(), port)
                for host, port, *_ in nodes
            ]
            self._masters.update(dict.fromkeys(range(first, last + 1), endpoints[0]))
            self._known.update(endpoints)
        self._is_stale = False
        self._refreshed = time.monotonic()


class ClusterClient(RedisClient):
    """Commands without a key go to the master of the control keys."""

    def __init__(
        self, settings: BrokerSettings, address: RedisAddress, *, only_master: bool
    ) -> None:
        self._settings = settings
        self._address = address
        self._only_master = only_master
        self._nodes: dict[Endpoint, RedisNode] = {}
        self._lookup = settings.model_copy(
            update={"redis_timeout_s": min(_LOOKUP_S, settings.redis_timeout_s)}
        )
        self._lookup_nodes: dict[Endpoint, RedisNode] = {}
        self._slots = HashSlotMap(address.endpoints, self._ask_for_slots)
        self._control_slot = key_slot(Keys(settings.key_prefix).control.encode())

    async def call(self, *command: Any, **options: Any) -> Any:
        return await self._send(
            command,
            lambda node: node.call(*command, **options),
            lambda node: node.call_asking(*command, **options),
        )

    async def call_pipelined(self, *command: Any, master: bytes | None = None) -> Any:
        return await self._send(
            command,
            lambda node: node.call_pipelined(*command, master=master),
            lambda node: node.call_asking(*command),
            follow_moves=False,
        )

    async def call_all(self, *commands: tuple[Any, ...]) -> list[Any]:
        return await self._send(commands[0], lambda node: node.call_all(*commands), None)

    async def master_id(self, key: str) -> bytes:
        endpoint = await self._slots.master_of(key_slot(key.encode()))
        try:
            return await self._node_at(endpoint).server_id()
        except BrokerUnavailable:
            self._slots.suspect(endpoint)
            raise

    def group(self, key: str) -> Hashable:
        return key_slot(key.encode())

    def connect_blocking(self, key: str) -> BlockingConnection:
        async def locate() -> Endpoint:
            self._slots.suspect()  # the connection before was lost, or led to another server
            return await self._slots.master_of(slot)

        slot = key_slot(key.encode())
        pool = blocking_pool(self._settings, self._address, locate=locate)
        return BlockingConnection(pool, self._node_of)

    async def masters(self) -> Sequence[RedisNode]:
        return [self._node_at(endpoint) for endpoint in await self._slots.masters()]

    async def aclose(self) -> None:
        await self._slots.aclose()
        for node in (*self._nodes.values(), *self._lookup_nodes.values()):
            await node.aclose()

    async def _send(
        self,
        command: tuple[Any, ...],
        send: Callable[[RedisNode], Awaitable[T]],
        ask: Callable[[RedisNode], Awaitable[T]] | None,
        *,
        follow_moves: bool = True,
    ) -> T:
        """Repeat only what was not executed: a redirected command, or one whose slot is being moved.

        `ask` sends it to the server that receives the slot. Without it the command waits for the end
        of the move: a transaction cannot be sent there.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._settings.redis_timeout_s
        slot = slot_of(command)
        slot = self._control_slot if slot is None else slot
        endpoint, attempt = await self._slots.master_of(slot), send
        redirections = 0
        while True:
            try:
                return await attempt(self._node_at(endpoint))
            except BrokerUnavailable as error:
                cause = error.__cause__
                if not isinstance(cause, AskError | TryAgainError) or loop.time() > give_up_at:
                    self._slots.suspect(endpoint)
                    raise
                if isinstance(cause, MovedError):
                    endpoint = cause.host or endpoint[0], cause.port
                    self._slots.move(slot, endpoint)
                    if not follow_moves:  # the caller must see that `master_id` has changed
                        raise
            attempt = send
            redirections += 1
            if isinstance(cause, MovedError):
                pass
            elif isinstance(cause, AskError) and ask is not None:
                endpoint, attempt = (cause.host or endpoint[0], cause.port), ask
            else:
                redirections = _MOST_REDIRECTIONS
                endpoint = await self._slots.master_of(slot)
            if redirections >= _MOST_REDIRECTIONS:
                await asyncio.sleep(_TRY_AGAIN_S)

    def _node_at(self, endpoint: Endpoint) -> RedisNode:
        if endpoint not in self._nodes:
            address = replace(self._address, endpoints=(endpoint,))
            pool = shared_pool(self._settings, address, only_master=self._only_master)
            self._nodes[endpoint] = RedisNode(pool)
        return self._nodes[endpoint]

    async def _ask_for_slots(self, endpoint: Endpoint) -> Any:
        """Replicas answer as well."""
        if endpoint not in self._lookup_nodes:
            address = replace(self._address, endpoints=(endpoint,))
            pool = shared_pool(self._lookup, address, only_master=False)
            self._lookup_nodes[endpoint] = RedisNode(pool)
        node = self._lookup_nodes[endpoint]
        try:
            return await node.call("CLUSTER", "SLOTS")
        except ResponseError as error:
            hint = "use redis:// for a single server, or redis+sentinel:// for Sentinels"
            raise IncompatibleRedis(f"{node.name} has no cluster ({error}): {hint}") from error

    def _node_of(self, connection: AbstractConnection) -> RedisNode:
        assert isinstance(connection, Connection)
        return self._node_at((connection.host, connection.port))
