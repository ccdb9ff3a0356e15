"""How a record lies in a Redis stream: a JSON header under `h` and raw bytes beside it.

Stream ids are `<ticket * 1000 + epoch>-<n>`: Redis refuses an id that is not above the last, so an
older epoch cannot write after a newer one, and a retried append cannot double an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import orjson
from pydantic import BaseModel

EPOCHS_PER_TICKET = 1000
BINARY = {"binary": True}
"""Field metadata: the value lies beside the header as it is; a tuple lies as name0, name1, ..."""

_HEADER = b"h"


class StreamPosition(NamedTuple):
    """An entry's id taken apart; `n` counts from 1 over a session's whole life, across epochs."""

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

    @classmethod
    def before(cls, ticket: int) -> StreamPosition:
        """The position that precedes every entry of the session with this ticket."""
        return cls(ticket, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEntry:
    """Base of every record in a stream; a subclass is known by its `tag`."""

    tag: ClassVar[str]
    at: float = 0.0
    """Redis-clock milliseconds at which the writer appended it."""
    trace: bytes = field(default=b"", metadata=BINARY, repr=False)
    """Where it belongs in the session's trace (`broker.tracing`); empty while nothing is traced."""

    def __init_subclass__(cls) -> None:
        """Make the tag readable."""
        _BY_TAG[cls.tag] = cls


_BY_TAG: dict[str, type[StreamEntry]] = {}


class UnreadableEntry(ValueError):
    """A stream entry is not of this version's form."""


def pack(entry: StreamEntry) -> list[bytes]:
    """Field names and values, flat, ready for XADD."""
    header: dict[str, Any] = {"type": entry.tag}
    raw: list[bytes] = []
    for item in fields(entry):
        value = getattr(entry, item.name)
        if not item.metadata.get("binary"):
            header[item.name] = value.model_dump() if isinstance(value, BaseModel) else value
        elif isinstance(value, tuple):
            for index, part in enumerate(value):
                raw += [f"{item.name}{index}".encode(), part]
        elif value:
            raw += [item.name.encode(), value]
    return [_HEADER, orjson.dumps(header), *raw]


def unpack(data: Mapping[bytes, bytes]) -> StreamEntry:
    """Inverse of `pack`. Raises UnreadableEntry on an unknown or incomplete entry."""
    try:
        header: dict[str, Any] = dict(orjson.loads(data[_HEADER]))
        cls = _BY_TAG[header.pop("type")]
        values = {
            item.name: _load(item, header, data) for item in fields(cls) if _has(item, header)
        }
        return cls(**values)
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableEntry(f"stream entry cannot be read: {error!r}") from error


def _has(item: Field[Any], header: dict[str, Any]) -> bool:
    return bool(item.metadata.get("binary")) or item.name in header


def _load(item: Field[Any], header: dict[str, Any], data: Mapping[bytes, bytes]) -> Any:
    if item.metadata.get("binary"):
        return (
            _load_parts(item.name, data)
            if item.default == ()
            else data.get(item.name.encode(), b"")
        )
    value = header[item.name]
    load = item.metadata.get("load")
    return load(value) if load else value


def _load_parts(name: str, data: Mapping[bytes, bytes]) -> tuple[bytes, ...]:
    parts: list[bytes] = []
    while (part := data.get(f"{name}{len(parts)}".encode())) is not None:
        parts.append(part)
    return tuple(parts)
