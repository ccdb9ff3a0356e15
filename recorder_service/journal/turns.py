"""Groups the entries of an output stream into turns. Pure."""

from dataclasses import dataclass, field

from antiphon.recorder_service.journal.journal import JournalEntries, JournalEntry, is_entry
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    PrefillDoneOut,
    StoppedOut,
    StreamEntry,
    TurnDoneOut,
)


@dataclass(slots=True)
class TurnAssembly:
    """The entries of one turn. `begun`, `prefilled` and `done` are None when they are missing."""

    index: int
    begun: JournalEntry[GeneratingOut] | None = None
    prefilled: JournalEntry[PrefillDoneOut] | None = None
    deltas: list[JournalEntry[DeltaOut]] = field(default_factory=list)
    done: JournalEntry[TurnDoneOut] | JournalEntry[ChatDoneOut] | None = None
    stopped: bool = False
    failed: bool = False

    @property
    def spoken(self) -> list[JournalEntry[StreamEntry]]:
        """The entries that may carry sound, in order. The last entry of a chat is one of them."""
        return [*self.deltas, *([self.done] if self.done else [])]

    @property
    def text(self) -> str:
        return "".join(delta.entry.text_delta for delta in self.deltas)

    def add(self, item: JournalEntry[StreamEntry]) -> None:
        if is_entry(item, GeneratingOut):
            self.begun = item
        elif is_entry(item, PrefillDoneOut):
            self.prefilled = item
        elif is_entry(item, DeltaOut):
            self.deltas.append(item)
        elif is_entry(item, TurnDoneOut):
            self.done, self.stopped, self.failed = item, item.entry.stopped, item.entry.failed
        elif is_entry(item, ChatDoneOut):
            self.done, self.stopped, self.failed = item, item.entry.stopped, False
        elif is_entry(item, StoppedOut):
            self.stopped = True
        elif is_entry(item, ErrorOut):
            self.failed = True


def assemble_turns(outputs: JournalEntries) -> list[TurnAssembly]:
    """The turns of a half-duplex session, or the one turn of a chat as far as it was answered."""
    found: list[TurnAssembly] = []
    current: TurnAssembly | None = None
    for item in outputs:
        if _opens(item.entry, current):
            following = found[-1].index + 1 if found else 0
            current = TurnAssembly(getattr(item.entry, "turn_index", following))
            found.append(current)
        if current is not None:
            current.add(item)
        if isinstance(item.entry, TurnDoneOut | ChatDoneOut):
            current = None
    return found


def _opens(entry: StreamEntry, current: TurnAssembly | None) -> bool:
    match entry:
        case GeneratingOut():
            return True
        case TurnDoneOut():
            return current is None or current.index != entry.turn_index
        case DeltaOut() | PrefillDoneOut() | ChatDoneOut():
            return current is None
    return False
