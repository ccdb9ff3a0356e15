"""Reads rows in Redis. Malformed ones are skipped, with a few log lines.

The services trust Redis, so this is not a check of input. A row that an operator, another program or
a bug has changed must not end the processes that read it every second.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import structlog
from redis.exceptions import ResponseError

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.service.logs import LogLimit
from antiphon.shared_schemas.registry import LARGEST_NUMBER

log = structlog.get_logger()

T = TypeVar("T")

MALFORMED = (AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""What reading a malformed row raises; decoding, JSON and validation raise ValueErrors."""

LIMIT = LogLimit()


def note_malformed(row: str, error: Exception) -> None:
    if LIMIT.permits(row):
        log.warning("row_malformed", row=row, error=repr(error)[:300])


def read_row(row: str, read: Callable[[], T]) -> T | None:
    """What `read` returns; None, and a log line, if the row is malformed."""
    try:
        return read()
    except MALFORMED as error:
        note_malformed(row, error)
        return None


def read_rows(family: str, rows: Iterable[Sequence[Any]], read: Callable[..., T]) -> Iterator[T]:
    """Call `read` with the parts of each row, the first of which is its name. Logs malformed rows."""
    for row in rows:
        try:
            found = read(*row)
        except MALFORMED as error:
            note_malformed(f"{family}:{row[0].decode(errors='replace')}", error)
        else:
            yield found


HashReply = Mapping[bytes, bytes] | Sequence[bytes]
"""The reply of HGETALL, or its flat form in the reply of a script."""


def field_pairs(reply: HashReply) -> Iterable[tuple[bytes, bytes]]:
    return (
        reply.items() if isinstance(reply, Mapping) else zip(reply[::2], reply[1::2], strict=True)
    )


def hash_fields(reply: HashReply) -> dict[str, str]:
    """A hash as text."""
    return {name.decode(): value.decode() for name, value in field_pairs(reply)}


def whole_number(text: str | bytes) -> int:
    """Raises ValueError unless it is from 0 to LARGEST_NUMBER."""
    number = int(text)
    if not 0 <= number <= LARGEST_NUMBER:
        raise ValueError(f"{number} is out of range")
    return number


async def call_on_row(redis: RedisClient, *command: Any) -> Any:
    """Run one command; None, and a log line, if its key has another type than the command needs."""
    try:
        return await redis.call(*command)
    except ResponseError as error:
        if "WRONGTYPE" not in str(error):
            raise
        key, share, _ = str(command[1]).partition(":share")  # what follows is secret
        note_malformed(key + share, error)
        return None
