"""Session transitions, as the `{antiphon}:events` stream carries them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from antiphon.shared_schemas.registry import RowNumber, SessionIdentity
from antiphon.shared_schemas.states import EndReason, SessionState


class SessionCommand(StrEnum):
    """A command to a running session from outside its connection."""

    INTERRUPT = "break"
    """Stop the answer that is being generated."""


class WorkerCommand(StrEnum):
    """An operator's command to a worker."""

    DRAIN = "drain"
    """Claim nothing new, finish or hand over current sessions, then exit (same as SIGTERM)."""


class UnreadableEvent(ValueError):
    """An event is not of this version's form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent(SessionIdentity):
    """One transition: the session is now in `state`. `at` is Redis-clock ms; `reason` is set when ended.

    With `ask` set the state has not changed: the event is a command to the edge of the session.
    """

    id: str
    state: SessionState
    worker: str
    at: RowNumber
    reason: EndReason | None = None
    ask: SessionCommand | None = None

    @classmethod
    def parse(cls, entry_id: bytes, data: Mapping[bytes, bytes]) -> SessionEvent:
        """Read one stream entry. Raises UnreadableEvent on an unknown or incomplete one."""
        try:
            values: dict[str, Any] = {key.decode(): value.decode() for key, value in data.items()}
            values |= {name: None for name in ("reason", "ask") if not values.get(name)}
            return _EVENT.validate_python(values | {"id": entry_id.decode()})
        except ValueError as error:
            raise UnreadableEvent(f"event {entry_id!r} cannot be read: {error!r}") from error


_EVENT = TypeAdapter(SessionEvent)
