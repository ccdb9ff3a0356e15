"""What all entries share, and how an entry is stored.

An entry is a JSON header in the field `h` and raw bytes in fields beside it.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple

import msgspec

from antiphon.shared_schemas.tagged import TaggedStruct, plain

HEADER = b"h"

EPOCHS_PER_TICKET = 1000


class StreamPosition(NamedTuple):
    """An entry's id, `<ticket * 1000 + epoch>-<n>`; `n` counts from 1 over the whole session.

    Redis rejects an id that is not above the last one, so an older epoch cannot write after a newer
    one, and a retried append cannot duplicate an entry.
    """

    ticket: int
    epoch: int
    n: int

    def id(self) -> str:
        """The Redis stream id. Raises ValueError on an epoch that would run into the next ticket."""
        if not 0 <= self.epoch < EPOCHS_PER_TICKET:
            raise ValueError(f"epoch {self.epoch} is not below {EPOCHS_PER_TICKET}")
        return f"{self.ticket * EPOCHS_PER_TICKET + self.epoch}-{self.n}"

    @classmethod
    def parse(cls, entry_id: bytes | str) -> StreamPosition:
        """Inverse of `id`."""
        text = entry_id.decode() if isinstance(entry_id, bytes) else entry_id
        major, _, n = text.partition("-")
        ticket, epoch = divmod(int(major), EPOCHS_PER_TICKET)
        return cls(ticket, epoch, int(n))

    def next(self) -> StreamPosition:
        """The position of the same writer's next entry. `_replace` takes twice as long."""
        return StreamPosition(self.ticket, self.epoch, self.n + 1)

    def follows(self, other: StreamPosition) -> bool:
        """Newer, and with a higher number.

        When a failover has lost entries that a reader has, the next writer gives their numbers again.
        """
        return self > other and self.n > other.n

    @classmethod
    def before(cls, ticket: int) -> StreamPosition:
        """The position that precedes every entry of the session with this ticket."""
        return cls(ticket, 0, 0)


class StreamEntry(TaggedStruct, tag_field="type"):
    """Base of every entry; a subclass is identified by its `tag`.

    Fields of the types `bytes` and `tuple[bytes, ...]` are stored raw; a tuple as name0, name1, ...
    """

    tag: ClassVar[str]
    at: float = 0.0
    """Redis-clock milliseconds at which the writer appended it."""
    host_at: float = 0.0
    """The same by the writer's host. It does not jump when Redis' clock does."""
    trace: bytes = b""
    """Trace context of the entry (`broker.service.tracing`); empty while tracing is off."""


class UnreadableEntry(ValueError):
    """A stream entry is not of this version's form."""


class RawFields(NamedTuple):
    """The fields of a class that are not in the header, and their values without their bytes."""

    single: tuple[tuple[str, bytes], ...]
    tuples: tuple[tuple[str, bytes], ...]
    empty: dict[str, Any]


@functools.cache
def raw_fields(kind: type[StreamEntry]) -> RawFields:
    found = {
        wanted: tuple(
            (item.name, item.name.encode())
            for item in msgspec.structs.fields(kind)
            if item.type == wanted
        )
        for wanted in (bytes, tuple[bytes, ...])
    }
    single, tuples = found[bytes], found[tuple[bytes, ...]]
    empty = {name: b"" for name, _ in single} | {name: () for name, _ in tuples}
    return RawFields(single, tuples, empty)


_ENCODER = msgspec.json.Encoder(enc_hook=plain)


def pack(entry: StreamEntry, **stamps: float) -> list[bytes]:
    """Field names and values, flat, ready for XADD; with the stamps `at` and `host_at`, if given.

    Fields with their default are left out of the header.
    """
    raw = raw_fields(type(entry))
    header = msgspec.structs.replace(entry, **raw.empty, **stamps)
    packed = [HEADER, _ENCODER.encode(header)]
    for name, key in raw.single:
        if value := getattr(entry, name):
            packed += (key, value)
    for name, key in raw.tuples:
        for index, part in enumerate(getattr(entry, name)):
            packed += (b"%b%d" % (key, index), part)
    return packed


def field_that_cannot_be_packed(entry: StreamEntry) -> str:
    """The first; empty if there is none."""
    for name in entry.__struct_fields__:
        value = getattr(entry, name)
        try:
            if not isinstance(value, bytes | tuple):
                _ENCODER.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return name
    return ""


class StopIn(StreamEntry, tag="stop"):
    """End the session."""


class StoppedOut(StreamEntry, tag="stopped"):
    """Last entry of a session that was stopped."""


class TimeoutOut(StreamEntry, tag="timeout"):
    """Last entry of a session whose pause, or the silence of its client, lasted too long.

    `elapsed_s`: the seconds without audio.
    """

    reason: str
    elapsed_s: float | None = None


class ErrorOut(StreamEntry, tag="error"):
    """A step failed; `fatal` ends the session. `input_n`: the entry that could not be served, 0 if none.

    `skipped`: the chunks dropped just before it under backpressure.
    """

    input_n: int = 0
    skipped: tuple[int, ...] = ()
    code: str
    message: str
    field: str | None = None
    fatal: bool = False
