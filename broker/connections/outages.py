"""What an error of a call means: an outage, a server that is no longer the master, or a redirection."""

import re

from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from antiphon.broker.errors import BrokerError, BrokerUnavailable

FAILURES = (
    RedisConnectionError,
    RedisTimeoutError,
    OSError,  # also TimeoutError
    ResponseError,
)
"""The errors of a call that `outage` understands."""

_REFUSALS = (
    AskError,  # MovedError as well
    OutOfMemoryError,
    ReadOnlyError,
    MasterDownError,
    ClusterDownError,
    TryAgainError,
)

_REFUSED = re.compile(
    r"\b(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN|UNBLOCKED"
    r"|UNKILLABLE)\b"
)
"""Replies of a server that runs but cannot serve now. redis-py has classes for some of them, and
errors raised inside a script only contain the code in their text."""

_REFUSED_AT = re.compile(
    r"Error 111 connecting to (\S+)\. (?:Connect call failed|Connection refused)"
)
"""Where nothing listens; the rest of the text repeats the address."""

_NOT_CONNECTED = re.compile(r"Error \S+ connecting to (\S+?)\. (.*)")
_LOST = re.compile(r"Error while \w+ \w+ (\S+) : \(\S+, [\"'](.*)[\"']\)")
_IN_PIPELINE = re.compile(
    r"Command # \d+ \(.*\) of pipeline caused error: \([\"'](.*)[\"'],\)", re.DOTALL
)
_SILENT = re.compile(r"handshake is taking longer.* connecting to (\S+)")
_UNKNOWN_HOST = re.compile(
    r"Name or service not known|name resolution|No address associated|name service"
)
"""What redis-py and the system write around the reason."""

_DEMOTED = re.compile(r"\b(MASTERDOWN|NOREPLICAS|READONLY|UNBLOCKED)\b")
"""Replies of a server that is no longer the master, or whose replicas have left it. Its address may
lead to the new master: every open connection is closed, so that the next call connects again."""


def outage(error: Exception) -> BrokerUnavailable:
    """The outage that the error of a call means. Raises any other error as it is."""
    if isinstance(error, ResponseError) and not isinstance(error, BusyLoadingError):
        if not isinstance(error, _REFUSALS) and not _REFUSED.search(str(error)):
            raise error
        return BrokerUnavailable(f"Redis refuses for now: {reason_of(error)}")
    if isinstance(error, AuthenticationError):
        return BrokerUnavailable(f"Redis refuses the login: {reason_of(error)}")
    if isinstance(error, TimeoutError | RedisTimeoutError):
        return BrokerUnavailable("Redis does not answer in time")
    if isinstance(error.__cause__, BrokerError):  # of the search for the server
        return BrokerUnavailable(str(error.__cause__))
    return BrokerUnavailable(f"Redis does not answer: {reason_of(error)}")


def reason_of(error: Exception) -> str:
    """The text of an error without what redis-py adds to it."""
    text = str(error).strip(". ")
    if found := _IN_PIPELINE.fullmatch(text):
        return found[1].strip(". ")
    if found := _REFUSED_AT.search(text):
        return f"nothing listens at {found[1]}"
    if found := _LOST.fullmatch(text):
        return f"the connection to {found[1]} was lost ({found[2]})"
    if found := _NOT_CONNECTED.fullmatch(text):
        where, why = found[1], found[2]
        if _UNKNOWN_HOST.search(why):
            return f"no address of {where.rpartition(':')[0]} is known ({why})"
        return f"cannot connect to {where} ({why})"
    if text.startswith("DENIED"):  # followed by a page about protected mode
        return text.partition(". ")[0]
    if found := _SILENT.search(text):
        return f"{found[1]} is silent in the TLS handshake"
    return text


def is_demotion(error: Exception) -> bool:
    """True when the server is no longer the master."""
    return isinstance(error, ResponseError) and (
        isinstance(error, ReadOnlyError | MasterDownError) or bool(_DEMOTED.search(str(error)))
    )


def is_redirection(error: BaseException | None) -> bool:
    """True when another server of the cluster has the key."""
    return isinstance(error, AskError)
