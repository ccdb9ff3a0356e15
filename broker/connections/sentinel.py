"""A Redis whose master Sentinel elects: each new connection asks the Sentinels where it is."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from redis.exceptions import ResponseError

from antiphon.broker.connections.client import (
    BlockingConnection,
    RedisNode,
    SingleServer,
    read_password,
)
from antiphon.broker.connections.pool import shared_pool
from antiphon.broker.connections.shared_call import SharedCall
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.redis_address import Endpoint, RedisAddress
from antiphon.broker.settings import BrokerSettings

_ANSWER_S = 1.0
"""A Sentinel without an answer for this long is lost, and the next one is asked."""

_LATE_S = 0.5
"""A server that needs longer for an answer may have been suspended."""


class SentinelClient(SingleServer):
    """The master of one service."""

    def __init__(
        self, settings: BrokerSettings, address: RedisAddress, *, only_master: bool
    ) -> None:
        self.sentinels = _sentinels(settings, address)
        """Those of the URL; the one that answered last is the first."""
        self.service = address.service
        self._blocking: WeakSet[BlockingConnection] = WeakSet()
        self._master: Endpoint | None = None
        self._locating = SharedCall(self._locate_master)
        super().__init__(settings, address, only_master=only_master, locate=self._locating)

    async def aclose(self) -> None:
        await self._locating.aclose()
        await super().aclose()
        for sentinel in self.sentinels:
            await sentinel.aclose()

    def connect_blocking(self, key: str) -> BlockingConnection:
        connection = super().connect_blocking(key)
        self._blocking.add(connection)
        return connection

    async def call(self, *command: Any, **options: Any) -> Any:
        """Like RedisNode.call. Raises BrokerUnavailable also when a former master may have answered.

        A master that was suspended answers the calls that wait for it, but what it does is lost.
        """
        master, began = self._master, time.monotonic()
        reply = await super().call(*command, **options)
        if time.monotonic() - began > _LATE_S:
            with suppress(BrokerUnavailable):  # no other master is known: the reply is used
                await self.disconnect_former_masters()
            if master not in (None, self._master):
                raise BrokerUnavailable("another server became the master during the call")
        return reply

    async def disconnect_former_masters(self) -> None:
        """A master that was cut off accepts writes until a Sentinel has demoted it, for ten seconds."""
        master = await self._locating()
        self._pipeline.disconnect_others(master)
        self._long_commands.disconnect_others(master)
        for connection in self._blocking:
            connection.disconnect_others(master)
        self._pool.disconnect_others(master)

    async def _outage(self, error: Exception) -> BrokerUnavailable:
        """Connections to a master that hangs stay open: none is used once one has failed."""
        if not isinstance(error, ResponseError):
            await self._disconnect()
        return await super()._outage(error)

    async def _locate_master(self) -> Endpoint:
        """Ask one Sentinel after the other. Raises BrokerUnavailable when none knows a master."""
        failures: list[str] = []
        for sentinel in list(self.sentinels):
            try:
                master = _master_in(await self.read_state(sentinel))
            except BrokerUnavailable as error:
                failures.append(str(error))
                self.sentinels.remove(sentinel)
                self.sentinels.append(sentinel)
            else:
                self._master = master
                return master
        reasons = "; ".join(dict.fromkeys(failures))
        raise BrokerUnavailable(f"no Sentinel knows the master of {self.service!r}: {reasons}")

    async def read_state(self, sentinel: RedisNode) -> dict[str, str]:
        """What a Sentinel knows about the master. Raises BrokerUnavailable."""
        try:
            return _fields(await sentinel.call("SENTINEL", "MASTER", self.service))
        except ResponseError as error:
            if "unknown command" in str(error).lower():
                raise BrokerUnavailable(f"{sentinel.name} is not a Sentinel") from error
            reason = str(error)
            if "no such master" in reason.lower():
                reason = await _other_masters(sentinel)
            raise BrokerUnavailable(reason) from error


def _fields(reply: list[bytes]) -> dict[str, str]:
    text = [part.decode() for part in reply]
    return dict(zip(text[::2], text[1::2], strict=True))


async def _other_masters(sentinel: RedisNode) -> str:
    """What a Sentinel knows that does not know the service."""
    try:
        known = [_fields(master)["name"] for master in await sentinel.call("SENTINEL", "MASTERS")]
    except ResponseError:  # its user may not ask
        known = []
    names = ", ".join(map(repr, sorted(known)))
    return f"{sentinel.name} knows {'only ' + names if known else 'no such master'}"


def _master_in(state: Mapping[str, str]) -> Endpoint:
    if "down" in state["flags"]:
        raise BrokerUnavailable("the master is down")
    return state["ip"], int(state["port"])


def _sentinels(settings: BrokerSettings, address: RedisAddress) -> list[RedisNode]:
    """Clients of the Sentinels. They have TLS as the servers have, and separate users."""
    file = settings.redis_sentinel_password_file
    password = read_password("redis_sentinel_password_file", file)
    quickly = settings.model_copy(
        update={"redis_timeout_s": min(_ANSWER_S, settings.redis_timeout_s)}
    )
    return [
        RedisNode(
            shared_pool(
                quickly,
                replace(
                    address,
                    endpoints=(endpoint,),
                    db=0,
                    user=settings.redis_sentinel_user,
                    password=password,
                ),
                only_master=False,
            )
        )
        for endpoint in address.endpoints
    ]
