"""What an edge writes down of a session that may be resumed, so that any other edge can go on with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from antiphon.shared_schemas.entry_codec import StreamEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldMark(StreamEntry):
    """Where a client's connection stands after one event; lies in its `told` stream.

    `seq` numbers the last message told. `heard` and `sent` are the stream ids of the last output
    entry told of and of the last input entry written before. `memory` is the protocol machine's.
    `messages`: those of this event, which no stream would tell again; the last of them is `seq`.
    """

    tag: ClassVar[str] = "mark"
    seq: int
    heard: str
    sent: str
    memory: dict[str, Any]
    messages: list[dict[str, Any]]
