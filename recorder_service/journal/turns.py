"""Which entries of an output stream make up which turn: pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from antiphon.recorder_service.journal.journal import Line, Placed

_DONE = frozenset({"turn_done", "chat_done"})


@dataclass(slots=True)
class TurnAssembly:
    """The entries of one turn. `begun` and `done` are None where they are missing.

    `spoken`: the entries that may carry sound, in order; a chat's last one is among them.
    """

    index: int
    begun: Line | None = None
    read: Line | None = None
    deltas: list[Line] = field(default_factory=list)
    done: Line | None = None
    stopped: bool = False
    failed: bool = False

    @property
    def spoken(self) -> list[Line]:
        """The entries that may carry sound."""
        return [*self.deltas, *([self.done] if self.done else [])]

    @property
    def text(self) -> str:
        """The words as they were sent."""
        return "".join(line["text_delta"] for line in self.deltas)


def assemble_turns(outputs: Placed) -> list[TurnAssembly]:
    """The turns of a half-duplex session, or the one of a chat as far as it was answered."""
    found: list[TurnAssembly] = []
    current: TurnAssembly | None = None
    for _, line in outputs:
        if _opens(line, current):
            current = TurnAssembly(line.get("turn_index", found[-1].index + 1 if found else 0))
            found.append(current)
        if current is not None:
            _add(current, line)
        if line["type"] in _DONE:
            current = None
    return found


def spoken_lines(outputs: Placed) -> Iterator[tuple[int, list[Line]]]:
    """Each turn's index with the entries that may carry its sound, in order."""
    return ((draft.index, draft.spoken) for draft in assemble_turns(outputs))


def _opens(line: Line, current: TurnAssembly | None) -> bool:
    match line["type"]:
        case "generating":
            return True
        case "turn_done":
            return current is None or current.index != line["turn_index"]
        case "delta" | "prefill_done" | "chat_done":
            return current is None
    return False


def _add(draft: TurnAssembly, line: Line) -> None:
    match line["type"]:
        case "generating":
            draft.begun = line
        case "prefill_done":
            draft.read = line
        case "delta":
            draft.deltas.append(line)
        case "turn_done" | "chat_done":
            draft.done = line
            draft.stopped = line["stopped"]
            draft.failed = line.get("failed", False)
        case "stopped":
            draft.stopped = True
        case "error":
            draft.failed = True
