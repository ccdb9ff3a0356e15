"""How much a client may send, and how fast."""

from __future__ import annotations

import time
from collections.abc import Callable

from antiphon.shared_schemas.errors import ErrorCode, InvalidInput

_BURST_S = 4.0
_CLOCK_SLACK = 1.1
"""Audio refills a little faster than real time, so that a fast microphone clock never runs dry."""


class Bucket:
    """Holds up to `capacity` and fills at `rate` per second; time is given, not read."""

    def __init__(self, capacity: float, rate: float, now: float) -> None:
        self._capacity = capacity
        self._rate = rate
        self._level = capacity
        self._at = now

    def take(self, amount: float, now: float) -> bool:
        """Take `amount` if it is there."""
        self._level = min(self._capacity, self._level + (now - self._at) * self._rate)
        self._at = now
        if amount > self._level:
            return False
        self._level -= amount
        return True


_FREE_BYTES = 1024
"""Shorter messages are counted by their number alone, so that a `stop` always comes through."""


class InputBudget:
    """One session's allowance: seconds of audio ahead of real time, messages and bytes per second.

    `largest`: the cost of a message, in bytes, that must pass where none went before.
    """

    def __init__(
        self,
        ahead_s: float,
        messages_per_s: float,
        bytes_per_s: float,
        largest: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        now = clock()
        self._ahead_s = ahead_s
        self._audio = Bucket(ahead_s, _CLOCK_SLACK, now)
        self._messages = Bucket(messages_per_s * _BURST_S, messages_per_s, now)
        self._bytes = Bucket(max(bytes_per_s * _BURST_S, largest), bytes_per_s, now)

    def charge_message(self) -> None:
        """Count one message. Raises InvalidInput with `input_backpressure` when there are too many."""
        if not self._messages.take(1, self._clock()):
            raise _backpressure("too many messages; send fewer per second", None)

    def charge_bytes(self, size: int) -> None:
        """Count a message's bytes. Raises InvalidInput with `input_backpressure` when it is too much."""
        if size > _FREE_BYTES and not self._bytes.take(size, self._clock()):
            raise _backpressure("too much at once; send fewer or smaller messages per second", None)

    def charge_audio(self, seconds: float, field: str) -> None:
        """Count audio. Raises InvalidInput with `input_backpressure` when it comes too fast."""
        if not self._audio.take(seconds, self._clock()):
            text = f"{field}: more than {self._ahead_s:g} s ahead of real time; chunk refused"
            raise _backpressure(text, field)


def _backpressure(text: str, field: str | None) -> InvalidInput:
    return InvalidInput(text, field=field, code=ErrorCode.INPUT_BACKPRESSURE)
