"""Limits on the connections, requests and slow reading of one address over HTTP."""

import asyncio
import fcntl
import resource
import struct
import termios
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from prometheus_client import Counter as CounterMetric
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.edge.access.limits import RecentClient, RecentClients, TokenBucket
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


class _PacedClient(RecentClient):
    def __init__(self, now: float) -> None:
        super().__init__()
        self.bucket = TokenBucket(REQUEST_BURST, REQUESTS_PER_S, now)


class RequestPace:
    """Computes how long each request of an address must wait, so that its rate stays within the limit.

    Clients with the key None do not wait.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._clients = RecentClients(_PacedClient)

    def __len__(self) -> int:
        return len(self._clients)

    def delay(self, key: str | None) -> float:
        """Count a request: the seconds that it must wait. Raises TooManyConnections."""
        if key is None:
            return 0.0
        now = self._clock()
        wait = self._clients.see(key, now).bucket.wait_for(1, now, _LONGEST_WAIT_S)
        if wait is None:
            raise TooManyConnections(
                f"more than {REQUESTS_PER_S:g} requests a second from your address; wait"
            )
        return wait


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


class _Address(RecentClient):
    def __init__(self, now: float) -> None:
        super().__init__()
        self.connects = TokenBucket(CONNECTION_BURST, CONNECTIONS_PER_S, now)
        self.chunks = TokenBucket(
            _ADDRESS_CHUNKS * CHUNK_BURST, _ADDRESS_CHUNKS * CHUNKS_PER_S, now
        )


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
        self._addresses = RecentClients(_Address)
        self._unreported = Counter[str]()
        self._reported_at = self._warned_at = float("-inf")

    def __len__(self) -> int:
        return sum(address.open_now for address in self._addresses)

    def admit(self, host: str) -> bool:
        """Count a new connection before it is served. False: close it, its address opens too many."""
        key = self._key_of(host)
        if key is None or not self._at_once:
            return True
        address = self._addresses.see(key, self._clock())
        if address.open_now >= self._at_once or not address.connects.take(1, self._clock()):
            self.report("rate_limited")
            return False
        return True

    def acquire(self, host: str) -> ConnectionShare:
        """Serve a connection until its share is released. Raises OverflowError above the cap."""
        key = self._key_of(host)
        if key is None:
            return ConnectionShare(None, self._clock)
        address = self._addresses.see(key, self._clock())
        if self._at_once and address.open_now >= self._at_once:
            self.report("rate_limited")
            raise OverflowError(key)
        address.open_now += 1
        return ConnectionShare(address, self._clock)

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


class ReaderWatch:
    """Aborts a connection whose client reads its responses too slowly, or not at all.

    Measures while the transport waits for the client; the time of the application does not count.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        limiter: HttpConnectionLimiter,
    ) -> None:
        self.sent = 0
        """Bytes of this response so far; the sender counts them."""
        self.descriptor = int(transport.get_extra_info("socket").fileno())
        self._loop = loop
        self._transport = transport
        self._limiter = limiter
        self._check: asyncio.TimerHandle | None = None
        self._unread = 0
        self._since = 0.0
        self._waited = 0.0

    @property
    def waits(self) -> bool:
        """True while the client must read before more can be sent."""
        return self._check is not None

    def begin(self) -> None:
        """Another response begins."""
        if not self.waits:
            self.sent, self._waited = 0, 0.0

    def pause(self) -> None:
        if not self.waits:
            self._since = self._loop.time()
            self._unread = self._unread_bytes()
            self._check_later()

    def resume(self) -> None:
        if self._check is None:
            return
        if self._too_slow():
            self._abort()
        self._waited += self._loop.time() - self._since
        self.stop()

    def stop(self) -> None:
        if self._check is not None:
            self._check.cancel()
            self._check = None

    def moved(self) -> bool:
        """True if the client has read anything since the last call."""
        before, self._unread = self._unread, self._unread_bytes()
        return self._unread != before

    def _check_later(self) -> None:
        self._check = self._loop.call_later(self._limiter.send_stall_s, self._check_progress)

    def _check_progress(self) -> None:
        if self.moved() and not self._too_slow():
            self._check_later()
        else:
            self._abort()

    def _too_slow(self) -> bool:
        waited = self._waited + self._loop.time() - self._since
        read = max(0, self.sent - self._unread_bytes())
        return waited > self._limiter.send_stall_s + read / MIN_DOWNLOAD_RATE

    def _abort(self) -> None:
        self.stop()
        if not self._transport.is_closing() or self._transport.get_write_buffer_size():
            self._limiter.report("slow_consumer")
            self._transport.abort()

    def _unread_bytes(self) -> int:
        """Bytes that the client has not acknowledged, in this process and in the kernel.

        This process alone sees no progress for long, because the kernel takes data in large steps.
        """
        queued = fcntl.ioctl(self.descriptor, termios.TIOCOUTQ, bytes(4))
        return self._transport.get_write_buffer_size() + int(struct.unpack("i", queued)[0])
