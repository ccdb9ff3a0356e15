"""Limits on what one client, one address and one edge may take."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from antiphon.edge.errors import BudgetExceeded, TooManyConnections
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput

_MIB = 1024 * 1024

_BURST_S = 4.0
_CLOCK_SLACK = 1.1
"""Audio refills faster than real time, so that a fast microphone clock never exhausts it."""
_COUNTED_CHUNK_S = 0.01
"""An audio chunk counts as a message as far as it is shorter. Longer ones are limited by their audio."""
_FREE_BYTES = 1024
"""Shorter messages are limited by their number only, so that `stop` always passes."""

SMALL_REQUEST_BYTES = _MIB
"""Chat requests up to this size are always accepted."""

MINUTE_S = 60.0
SWEEP_EVERY = 1024
"""Remove unused addresses each time the table grows by this many."""

MIN_UPLOAD_RATE = 16 * 1024
"""Bytes per second: every this many bytes extend the deadline of a body or a message by one second."""


class TokenBucket:
    """Holds up to `capacity` and refills at `rate` per second; the caller passes the time."""

    def __init__(self, capacity: float, rate: float, now: float) -> None:
        self._capacity = capacity
        self._rate = rate
        self._level = capacity
        self._at = now

    def take(self, amount: float, now: float) -> bool:
        """True if `amount` was available; otherwise takes nothing."""
        self._refill(now)
        if amount > self._level:
            return False
        self._level -= amount
        return True

    def wait_for(self, amount: float, now: float, longest: float) -> float | None:
        """Take `amount` in advance: the seconds until it is available. None, without effect: too many."""
        self._refill(now)
        wait = max(0.0, (amount - self._level) / self._rate)
        if wait > longest:
            return None
        self._level -= amount
        return wait

    def _refill(self, now: float) -> None:
        self._level = min(self._capacity, self._level + (now - self._at) * self._rate)
        self._at = now


class InputBudget:
    """Limits one session: seconds of audio ahead of real time, messages and bytes per second.

    A chunk of audio is no message, unless it is very short; its camera frames are. So a client that sends
    short chunks in real time has the whole rate of messages for its frames and reports.

    A message that costs `largest` bytes always passes if the budget is full. `history`: messages that change
    what was said before may come at once, in addition to the others.
    Each method raises InvalidInput with `input_backpressure` above its limit.
    """

    def __init__(
        self,
        ahead_s: float,
        messages_per_s: float,
        bytes_per_s: float,
        largest: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        *,
        history: float = 0.0,
    ) -> None:
        self._clock = clock
        now = clock()
        self._ahead_s = ahead_s
        self._messages_per_s = messages_per_s
        self._audio = TokenBucket(ahead_s, _CLOCK_SLACK, now)
        self._messages = TokenBucket(messages_per_s * _BURST_S, messages_per_s, now)
        self._history = TokenBucket(history, messages_per_s, now)
        self._bytes = TokenBucket(max(bytes_per_s * _BURST_S, largest), bytes_per_s, now)

    def charge_message(self) -> None:
        self._charge_messages(1, "send fewer")

    def charge_history(self) -> None:
        """A message that changes the history: a client that restores a conversation sends many."""
        if not self._history.take(1, self._clock()):
            self.charge_message()

    def charge_chunk(self, seconds: float, frames: int) -> None:
        """The messages that a chunk counts as; `charge_audio` charges its audio."""
        what = "fewer camera frames, and audio" if frames else "audio"
        remedy = f"send {what} in chunks of {_COUNTED_CHUNK_S:g} s or more"
        self._charge_messages(max(0.0, 1 - seconds / _COUNTED_CHUNK_S) + frames, remedy)

    def _charge_messages(self, count: float, remedy: str) -> None:
        if not self._messages.take(count, self._clock()):
            text = (
                f"more than {self._messages_per_s:g} messages per second; message dropped: {remedy}"
            )
            raise _backpressure(text, None)

    def charge_bytes(self, size: int) -> None:
        if size > _FREE_BYTES and not self._bytes.take(size, self._clock()):
            raise _backpressure("too much at once; send fewer or smaller messages per second", None)

    def charge_audio(self, seconds: float, field: str) -> None:
        if not self._audio.take(seconds, self._clock()):
            text = f"{field}: more than {self._ahead_s:g} s ahead of real time; chunk refused"
            raise _backpressure(text, field)


def _backpressure(text: str, field: str | None) -> InvalidInput:
    return InvalidInput(text, field=field, code=ErrorCode.INPUT_BACKPRESSURE)


class ByteBudget:
    """Caps the total bytes of requests, or of incomplete messages, that one edge holds.

    A single request always fits, and every request of up to `always` bytes.
    """

    def __init__(
        self, limit: int, what: str = "chat requests", *, always: int = SMALL_REQUEST_BYTES
    ) -> None:
        self.limit = limit
        self.what = what
        self.always = always
        self.held = 0

    @contextmanager
    def reserve(self) -> "Iterator[Reservation]":
        """A request's share of the budget, empty at first; released at the end."""
        reservation = Reservation(self)
        try:
            yield reservation
        finally:
            reservation.resize(0)


class Reservation:
    """The bytes of one request, or of one message that is not received completely."""

    def __init__(self, budget: ByteBudget, always: int | None = None) -> None:
        self.size = 0
        self._budget = budget
        self._always = budget.always if always is None else always

    def add(self, size: int) -> None:
        """Raises BudgetExceeded."""
        self.resize(self.size + size)

    def resize(self, size: int) -> None:
        """Raises BudgetExceeded if it grows; up to `always` bytes fit anyway."""
        budget = self._budget
        others = budget.held - self.size
        if size > max(self.size, self._always) and others and others + size > budget.limit:
            mib = budget.limit // _MIB
            text = f"this server holds {mib} MiB of {budget.what} already; try again"
            raise BudgetExceeded(text)
        self.size = size
        budget.held = others + size


@dataclass(slots=True, kw_only=True)
class RecentClient:
    """Base of what is counted of one client."""

    open_now: int = 0
    last_seen: float = 0.0


ClientT = TypeVar("ClientT", bound=RecentClient)


class RecentClients(Generic[ClientT]):
    """The clients by key, until a minute after they left: their buckets are full again then."""

    def __init__(self, new: Callable[[float], ClientT]) -> None:
        self._new = new
        self._clients: dict[str, ClientT] = {}
        self._sweep_at = SWEEP_EVERY

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[ClientT]:
        return iter(self._clients.values())

    def see(self, key: str, now: float) -> ClientT:
        """The client, which is here `now`."""
        client = self._clients.get(key)
        if client is None:
            self._sweep(now)
            client = self._clients[key] = self._new(now)
        client.last_seen = now
        return client

    def _sweep(self, now: float) -> None:
        if len(self._clients) < self._sweep_at:
            return
        self._clients = {
            key: client
            for key, client in self._clients.items()
            if client.open_now or now - client.last_seen < MINUTE_S
        }
        self._sweep_at = len(self._clients) + SWEEP_EVERY


@dataclass(slots=True)
class _Client(RecentClient):
    opened: TokenBucket | None


class ConnectionLimiter:
    """Limits the open connections of one address and its new connections per minute.

    Counts per edge. A limit of 0 disables it. Clients with the key None are not counted.
    """

    def __init__(
        self, at_once: int, per_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._at_once = at_once
        self._per_minute = per_minute
        self._clock = clock
        self._clients = RecentClients(self._new_client)

    def __len__(self) -> int:
        return len(self._clients)

    def count(self, key: str | None) -> None:
        """Count one new connection or request. Raises TooManyConnections."""
        if key is None:
            return
        now = self._clock()
        client = self._clients.see(key, now)
        if client.opened is not None and not client.opened.take(1, now):
            text = f"more than {self._per_minute} connections a minute from your address; wait"
            raise TooManyConnections(text)

    @contextmanager
    def hold(self, key: str | None) -> Iterator[None]:
        """Count one connection while it is open. Raises TooManyConnections."""
        self.count(key)
        if key is None:
            yield
            return
        client = self._clients.see(key, self._clock())
        if self._at_once and client.open_now >= self._at_once:
            raise TooManyConnections(
                f"more than {self._at_once} connections at once from your address; close one"
            )
        client.open_now += 1
        try:
            yield
        finally:
            client.open_now -= 1

    def _new_client(self, now: float) -> _Client:
        rate = self._per_minute / MINUTE_S
        return _Client(TokenBucket(self._per_minute, rate, now) if self._per_minute else None)
