"""Limits on the connections and requests of one address over HTTP."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from prometheus_client import Counter as CounterMetric
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.edge.access.limits import MINUTE_S, SWEEP_EVERY, TokenBucket
from antiphon.edge.errors import HttpError, TooManyConnections, http_error_response
from antiphon.shared_schemas.errors import ErrorCode

log = structlog.get_logger()

MIN_DOWNLOAD_RATE = 16 * 1024
"""Bytes per second that a client must read of a response while the edge waits for it."""

REQUESTS_PER_S = 100.0
REQUEST_BURST = 1000
"""Requests of one address. Those above it wait."""

_LONGEST_WAIT_S = 10.0

CONNECTIONS_PER_S = 100.0
CONNECTION_BURST = 1000
"""New connections of one address. Those above it are closed."""

CHUNKS_PER_S = 500.0
CHUNK_BURST = 2000
"""Small chunks of the bodies on one connection, as many as small frames on a WebSocket."""

_ADDRESS_CHUNKS = 4
"""As many times the chunks of one connection for all of an address."""

_LOG_EVERY_S = 10.0
"""Log at most this often during a flood."""

_SPARE_DESCRIPTORS = 64
"""Kept for connections to Redis and for files."""


class RequestPace:
    """Tells how long each request of an address must wait, so that it starts no more than its rate.

    Clients with the key None do not wait.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[TokenBucket, float]] = {}
        self._sweep_at = SWEEP_EVERY

    def __len__(self) -> int:
        return len(self._buckets)

    def delay(self, key: str | None) -> float:
        """Count a request: the seconds that it must wait. Raises TooManyConnections."""
        if key is None:
            return 0.0
        now = self._clock()
        bucket, _ = self._buckets.get(key) or (self._create(now), now)
        self._buckets[key] = bucket, now
        wait = bucket.wait_for(1, now, _LONGEST_WAIT_S)
        if wait is None:
            raise TooManyConnections(
                f"more than {REQUESTS_PER_S:g} requests a second from your address; wait"
            )
        return wait

    def _create(self, now: float) -> TokenBucket:
        if len(self._buckets) >= self._sweep_at:
            self._buckets = {
                key: entry for key, entry in self._buckets.items() if now - entry[1] < MINUTE_S
            }
            self._sweep_at = len(self._buckets) + SWEEP_EVERY
        return TokenBucket(REQUEST_BURST, REQUESTS_PER_S, now)


@dataclass(frozen=True, slots=True)
class RequestLimit:
    """ASGI middleware that limits the requests of one client: their rate, and those without an answer.

    Connections of clients behind a proxy cannot be counted.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        edge = request.app.state.edge
        key = edge.access.client_limit_key(request)
        try:
            with edge.request_limiter.hold(key):
                if delay := edge.request_pace.delay(key):
                    await asyncio.sleep(delay)
                await self.app(scope, receive, send)
        except TooManyConnections as error:
            refusal = HttpError(429, ErrorCode.RATE_LIMITED, str(error), retry_after_s=1)
            response = await http_error_response(request, refusal)
            await response(scope, receive, send)


@dataclass(slots=True)
class _Address:
    connects: TokenBucket
    chunks: TokenBucket
    open_now: int = 0
    last_seen: float = 0.0


class ConnectionShare:
    """What one connection may take, and what it takes of the share of its address, if that counts."""

    def __init__(self, address: _Address | None, clock: Callable[[], float]) -> None:
        self._address = address
        self._clock = clock
        self._chunks: TokenBucket | None = None

    def take_chunks(self, count: int) -> bool:
        """False if the connection, or its address, has sent too many small chunks."""
        now = self._clock()
        if self._chunks is None:
            self._chunks = TokenBucket(CHUNK_BURST, CHUNKS_PER_S, now)
        if not self._chunks.take(count, now):
            return False
        return self._address is None or self._address.chunks.take(count, now)

    def release(self) -> None:
        """The connection is closed, or is a WebSocket now."""
        if self._address is not None:
            self._address.open_now -= 1
            self._address = None


class HttpConnectionLimiter:
    """Deadlines, and limits per address, for connections that serve HTTP requests.

    A connection counts until it is closed or becomes a WebSocket. `key_of` maps a peer's host to its
    rate limit key; None: not counted. `at_once` of 0: no cap, and no limit on new connections.
    """

    def __init__(
        self,
        timeout_s: float,
        send_stall_s: float,
        at_once: int,
        key_of: Callable[[str], str | None],
        rejected: CounterMetric,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeout_s = timeout_s
        self.send_stall_s = send_stall_s
        self._at_once = at_once
        self._key_of = key_of
        self._rejected = rejected
        self._clock = clock
        self._addresses: dict[str, _Address] = {}
        self._sweep_at = SWEEP_EVERY
        self._unreported = Counter[str]()
        self._reported_at = self._warned_at = float("-inf")

    def __len__(self) -> int:
        return sum(address.open_now for address in self._addresses.values())

    def admit(self, host: str) -> bool:
        """Count a new connection before it is served. False: close it, its address opens too many."""
        key = self._key_of(host)
        if key is None or not self._at_once:
            return True
        address = self._address(key)
        if address.open_now >= self._at_once or not address.connects.take(1, self._clock()):
            self.report("rate_limited")
            return False
        return True

    def acquire(self, host: str) -> ConnectionShare:
        """Serve a connection until its share is released. Raises OverflowError above the cap."""
        key = self._key_of(host)
        if key is None:
            return ConnectionShare(None, self._clock)
        address = self._address(key)
        if self._at_once and address.open_now >= self._at_once:
            self.report("rate_limited")
            raise OverflowError(key)
        address.open_now += 1
        return ConnectionShare(address, self._clock)

    def _address(self, key: str) -> _Address:
        now = self._clock()
        address = self._addresses.get(key)
        if address is None:
            self._sweep(now)
            address = self._addresses[key] = _Address(
                TokenBucket(CONNECTION_BURST, CONNECTIONS_PER_S, now),
                TokenBucket(_ADDRESS_CHUNKS * CHUNK_BURST, _ADDRESS_CHUNKS * CHUNKS_PER_S, now),
            )
        address.last_seen = now
        return address

    def _sweep(self, now: float) -> None:
        """Remove addresses that left over a minute ago: their buckets are full again."""
        if len(self._addresses) < self._sweep_at:
            return
        self._addresses = {
            key: address
            for key, address in self._addresses.items()
            if address.open_now or now - address.last_seen < MINUTE_S
        }
        self._sweep_at = len(self._addresses) + SWEEP_EVERY

    def has_room(self, descriptor: int) -> bool:
        """False if few file descriptors are left beside that of a new connection; reports it then.

        The system assigns the lowest free number, so `descriptor` says how many are in use.
        """
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if allowed == resource.RLIM_INFINITY or descriptor < allowed - _SPARE_DESCRIPTORS:
            return True
        self.report("edge_full")
        if (now := self._clock()) - self._warned_at >= _LOG_EVERY_S:
            self._warned_at = now
            remedy = "raise its hard limit of open files (ulimit -Hn), or start more edges"
            log.warning("edge_out_of_descriptors", allowed=allowed, remedy=remedy)
        return False

    def report(self, reason: str) -> None:
        """Count a connection that was cut off, and log it at intervals."""
        self._rejected.labels(reason).inc()
        self._unreported[reason] += 1
        if (now := self._clock()) - self._reported_at >= _LOG_EVERY_S:
            # Not a warning: browsers open spare connections and leave them idle.
            log.info("connections_cut_off", **self._unreported)
            self._unreported.clear()
            self._reported_at = now
