"""What the driver of a connection and a protocol's translator know of each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from antiphon.edge.errors import Close
from antiphon.shared_schemas.entries import InEntry, OutEntry
from antiphon.shared_schemas.events import SessionCommand
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import ServerMessage


@dataclass(frozen=True, slots=True)
class Tell:
    """Send this to the client."""

    message: ServerMessage


@dataclass(frozen=True, slots=True)
class Forward:
    """Append this to the session's input stream."""

    entry: InEntry


@dataclass(frozen=True, slots=True)
class Finish:
    """Close the connection after what was told; the session is over for `reason`."""

    close: Close
    reason: EndReason


Action = Tell | Forward | Finish
Actions = Sequence[Action]


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """What a waiting client is told; `first` says that it was told nothing before. Seconds."""

    ticket_id: str
    position: int
    queue_length: int
    eta_s: float
    first: bool


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a session does at a given time; `at` is the event loop's."""

    at: float
    then: Callable[[], Actions]


Command = TypeVar("Command")
Command_co = TypeVar("Command_co", covariant=True)
Command_contra = TypeVar("Command_contra", contravariant=True)


class Door(Protocol[Command_co]):
    """Checks what comes in, once; inside there are typed commands only."""

    async def read(self, frame: str | bytes) -> Command_co:
        """One WebSocket frame. Raises InvalidInput, or NotJson where the connection must close."""
        ...


class Machine(Protocol[Command_contra]):
    """A session as its client sees it. No call does I/O; none may follow a Finish.

    What `deliver` tells depends on its entry and on `memory` only (and on the time, which is told but
    decides nothing): from a memory and the entries after it the same messages come again.
    """

    @property
    def waiting(self) -> bool:
        """No worker has been granted yet."""
        ...

    @property
    def held(self) -> Sequence[InEntry]:
        """What goes to the worker with the grant."""
        ...

    def receive(self, command: Command_contra) -> Actions:
        """The client asks. Raises InvalidInput when that is not legal now."""
        ...

    def placed(self, place: QueuePlace) -> Actions:
        """The session waits there."""
        ...

    def granted(self) -> Actions:
        """A worker holds the session."""
        ...

    def asked(self, ask: SessionCommand) -> Actions:
        """Someone beside the client asks for something."""
        ...

    def deliver(self, entry: OutEntry, now_ms: float) -> Actions:
        """The worker answers; `now_ms` is Redis-clock time."""
        ...

    def ended(self, reason: EndReason | None) -> Actions:
        """The session ended without a last word of the worker; None: its record is lost."""
        ...

    def gone(self) -> EndReason:
        """The client left: why the session ends."""
        ...

    def memory(self) -> dict[str, Any]:
        """Where the session stands, ready for JSON; without `held`, and without media."""
        ...

    def recall(self, memory: Mapping[str, Any], held: Sequence[InEntry]) -> None:
        """Stand there again, perhaps in another process."""
        ...

    def adopt(self, entry: InEntry) -> None:
        """Stand where this input, found in the stream, has led."""
        ...
