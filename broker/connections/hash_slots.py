"""The masters of a cluster: which server has which hash slot."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from redis.crc import key_slot

from antiphon.broker.connections.shared_call import SharedCall
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.redis_address import Endpoint

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
