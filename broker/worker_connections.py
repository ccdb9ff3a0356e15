"""One connection per worker that is open as long as its process, and the edges' look at these connections.

Redis learns of the end of a process at once, because the system closes its connections. A worker
subscribes to the channel that has the name of its row. Nothing is published there.
"""

from collections import deque
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import structlog
from redis.exceptions import ResponseError

from antiphon.broker.connections.client import BlockingConnection, RedisClient
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.keys import Keys
from antiphon.broker.retry import retry_until_available
from antiphon.broker.scripts import Scripts, control_script

log = structlog.get_logger()

_RENEW_S = 15.0
"""A new connection replaces the old one: another server may have the control keys since."""


class WorkerConnection(NamedTuple):
    """`beat_at`: the worker's last heartbeat, as Redis has it."""

    is_open: bool
    beat_at: bytes


class ConnectionsSeen(NamedTuple):
    """The connections of the registered workers, by id.

    `server` changes with the server that was asked, and when it restarts.
    """

    server: bytes
    workers: dict[str, WorkerConnection]


@control_script
def _worker_connections(reply: list[bytes | int]) -> dict[str, WorkerConnection]:
    rows = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    return {
        worker.decode(): WorkerConnection(bool(subscriptions), beat_at)
        for worker, beat_at, subscriptions in rows
        if isinstance(worker, bytes) and isinstance(beat_at, bytes)
    }


@control_script
def _worker_disconnected(reply: int, worker_id: str, beat_at: bytes, is_lost: bool) -> bool:
    return reply == 1


class WorkerConnections:
    """Where the user may not subscribe or ask, nothing is seen, and missing heartbeats count alone."""

    def __init__(self, redis: RedisClient, keys: Keys, scripts: Scripts) -> None:
        self._redis = redis
        self._keys = keys
        self._scripts = scripts

    async def keep_open(self, worker_id: str) -> None:
        """Run forever, or until Redis refuses the subscription."""
        channel = self._keys.worker(worker_id)
        connections: deque[BlockingConnection] = deque()
        try:
            while True:
                connections.append(self._redis.connect_blocking(channel))
                subscribe = partial(connections[-1].subscribe, channel)
                await retry_until_available(subscribe, "subscribe")
                while len(connections) > 1:
                    await connections[0].aclose()  # again at the end if this is cancelled
                    connections.popleft()
                await connections[0].keep_subscribed(_RENEW_S)
        except ResponseError as error:
            log.warning("subscription_refused", channel=channel, error=str(error))
        finally:
            for connection in connections:
                await connection.aclose()

    async def look(self) -> ConnectionsSeen:
        """What one server has. Raises BrokerUnavailable, also if another one becomes the master."""
        server = await self._redis.master_id(self._keys.control)
        return ConnectionsSeen(server, await self._scripts.run_on(server, _worker_connections))

    async def report_closed(
        self, server: bytes, worker_id: str, beat_at: bytes, *, is_lost: bool
    ) -> bool:
        """The worker counts as silent until its next heartbeat. If `is_lost`, its leases expire.

        Changes nothing and returns False if the worker has sent a heartbeat after `beat_at`. Raises
        BrokerUnavailable, also unless the `server` of the looks is the master: workers leave a former one.
        """
        with suppress(BrokerUnavailable):  # no Sentinel answers: the server counts as the master
            await self._redis.disconnect_former_masters()
        args = (worker_id, beat_at, is_lost)
        return await self._scripts.run_on(server, _worker_disconnected, *args)
