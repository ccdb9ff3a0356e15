"""What can go wrong between a service and Redis, in the pipeline's own words."""

from __future__ import annotations


class BrokerError(Exception):
    """Base of everything the broker raises on purpose."""


class BrokerUnavailable(BrokerError):
    """Redis does not answer; the call may or may not have been carried out."""


class QueueFull(BrokerError):
    """The queue holds `length` sessions and takes no more."""

    def __init__(self, length: int) -> None:
        super().__init__(f"the queue is full ({length} sessions wait); try again later")
        self.length = length


class SessionExists(BrokerError):
    """A live session already has this id."""

    def __init__(self, sid: str) -> None:
        super().__init__(f"session {sid!r} is live on another connection; choose a new id")
        self.sid = sid


class VoicesFull(BrokerError):
    """There are as many uploaded voices as are allowed."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"there are {limit} uploaded voices already; delete one first")
        self.limit = limit


class SharesFull(BrokerError):
    """A recording has as many share links as it may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"this recording has {limit} share links already; revoke one first")
        self.limit = limit


class StaleFence(BrokerError):
    """Another process has taken this stream over, or the session is over; write no more."""


class IncompatibleRedis(BrokerError):
    """The server lacks something the pipeline needs; the message says what and what to do."""


class BadPasswordFile(BrokerError):
    """The file with Redis's password cannot be used; the message names it."""
