"""What a session's streams still hold of it, and of its beginning once they have let that go."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.shared_schemas.entries import PreparedOut, StreamEntry
from antiphon.shared_schemas.stream_position import StreamPosition

Record = tuple[StreamPosition, StreamEntry]
History = Sequence[Record]


class PastLost(Exception):
    """The streams no longer hold what a successor needs; the message says what."""


def begins_late(history: History) -> bool:
    """True where the stream has let its first entries go."""
    return bool(history) and history[0][0].n > 1


def accepted_prepare(
    inputs: History, outputs: History, beginning: Record | None
) -> tuple[int, StreamEntry] | None:
    """The `prepare` that the conversation began with, and its number; None where none was accepted yet.

    `beginning` is the one that was kept apart from the streams. Raises PastLost where it is nowhere.
    """
    told = next((entry for _, entry in outputs if isinstance(entry, PreparedOut)), None)
    if told is None and not begins_late(outputs):
        return None
    known = [*inputs, *([beginning] if beginning else ())]
    n = told.input_n if told else beginning[0].n if beginning else 0
    for position, entry in known:
        if position.n == n:
            return n, entry
    raise PastLost("the session's `prepare` is no longer in Redis (stream_max_entries)")
