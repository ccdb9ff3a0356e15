"""The errors of the broker."""

from __future__ import annotations

from collections.abc import Sequence


class BrokerError(Exception):
    """Base of the broker's errors."""


class BrokerUnavailable(BrokerError):
    """Redis does not answer; the call may or may not have taken effect."""


class MasterChanged(BrokerUnavailable):
    """Another server than before takes the writes now; the command was not sent to it."""


class QueueFull(BrokerError):
    """The queue is at its limit, with `length` sessions."""

    def __init__(self, length: int) -> None:
        super().__init__(f"the queue is full ({length} sessions wait); try again later")
        self.length = length


class TooManySessions(BrokerError):
    """One client has its maximum of sessions, `count`."""

    def __init__(self, count: int) -> None:
        super().__init__(f"this client has {count} sessions already; end one first")
        self.count = count


class StoreFull(BrokerError):
    """Redis uses so much of its `maxmemory` that the rest is kept for the running sessions."""

    def __init__(self, share: float) -> None:
        super().__init__(f"the server's store is {share:.0%} full; try again later")


class SessionExists(BrokerError):
    """A live session already has this id."""

    def __init__(self, sid: str) -> None:
        super().__init__(f"session {sid!r} is live on another connection; choose a new id")
        self.sid = sid


class VoicesFull(BrokerError):
    """The number of uploaded voices is at its limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"there are {limit} uploaded voices already; delete one first")
        self.limit = limit


class SharesFull(BrokerError):
    """The share links of a recording are at their limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"this recording has {limit} share links already; revoke one first")
        self.limit = limit


class StaleFence(BrokerError):
    """A newer process writes this stream, or the session is over: stop writing."""


class IncompatibleRedis(BrokerError):
    """This Redis cannot be used; the message says why and what to do."""


class ServicesRunning(BrokerError):
    """The keys cannot be migrated while services use them."""

    def __init__(self, services: Sequence[str]) -> None:
        super().__init__(f"these services use the keys, stop them first: {', '.join(services)}")


class BadPasswordFile(BrokerError):
    """The file with the Redis password cannot be used; the message names it."""
