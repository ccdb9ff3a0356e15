"""What must be known of a recording's past to go on with it; folded from the journal's lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.recorder_service.journal.journal import Line, Placed, Side
from antiphon.shared_schemas.stream_position import StreamPosition


@dataclass(slots=True)
class JournalState:
    """Counts for one session. `turn` and `spoken` number the next unit with sound.

    Each count follows one stream only, so it does not matter how the two were interleaved. A turn
    ends with `end_of_turn`. `prepare` is the entry that says what the session is to be like.
    """

    ticket: int
    positions: dict[Side, StreamPosition] = field(init=False)
    chunks: int = 0
    turn: int = 0
    spoken: int = 0
    first_at: float | None = None
    prepare: Line | None = None

    def __post_init__(self) -> None:
        start = StreamPosition.before(self.ticket)
        self.positions = {"in": start, "out": start}

    @classmethod
    def of(cls, ticket: int, placed: Mapping[Side, Placed]) -> JournalState:
        """Of everything that is recorded."""
        tally = cls(ticket)
        for entries in placed.values():
            for _, line in entries:
                tally.add(line)
        return tally

    def has(self, side: Side, position: StreamPosition) -> bool:
        """True when this entry has been recorded."""
        return position <= self.positions[side]

    def add(self, line: Line) -> None:
        """Take one recorded entry into account; one that was added before changes nothing."""
        position = StreamPosition.parse(line["id"])
        if self.has(line["stream"], position):
            return
        self.positions[line["stream"]] = position
        self.first_at = line["at"] if self.first_at is None else min(self.first_at, line["at"])
        match line["type"]:
            case "prepare" | "half_prepare" | "chat" if self.prepare is None:
                self.prepare = line
            case "chunk":
                self.chunks += 1
            case "result":
                self._add_result(line)

    def _add_result(self, line: Line) -> None:
        if "ai_audio" in line:
            self.spoken += 1
        if line["end_of_turn"] and not line["is_listen"]:
            self.turn += 1
            self.spoken = 0

    @property
    def start_ms(self) -> float:
        """When the session's time line begins: its `prepare`, else its first entry (Redis ms)."""
        if self.prepare is not None:
            return float(self.prepare["at"])
        return self.first_at or 0.0
