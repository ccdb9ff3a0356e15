"""Session transitions, as the `{antiphon}:events` stream carries them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState


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
class SessionEvent:
    """One transition: the session is now in `state`. `at` is Redis-clock ms; `reason` is set when ended.

    With `ask` set the state has not changed: the event is a command to the edge of the session.
    """

    id: str
    sid: str
    state: SessionState
    kind: SessionKind
    ticket: int
    epoch: int
    attempt: int
    edge: str
    worker: str
    recording: str
    at: int
    reason: EndReason | None = None
    ask: SessionCommand | None = None

    @classmethod
    def parse(cls, entry_id: bytes, data: Mapping[bytes, bytes]) -> SessionEvent:
        """Read one stream entry. Raises UnreadableEvent on an unknown or incomplete one."""
        try:
            text = {key.decode(): value.decode() for key, value in data.items()}
            return cls(id=entry_id.decode(), **_values(text))
        except (KeyError, ValueError) as error:
            raise UnreadableEvent(f"event {entry_id!r} cannot be read: {error!r}") from error


def _values(text: Mapping[str, str]) -> dict[str, Any]:
    reason, ask = text.get("reason"), text.get("ask")
    return {
        "sid": text["sid"],
        "state": SessionState(text["state"]),
        "kind": SessionKind(text["kind"]),
        "ticket": int(text["ticket"]),
        "epoch": int(text["epoch"]),
        "attempt": int(text["attempt"]),
        "edge": text["edge"],
        "worker": text["worker"],
        "recording": text["recording"],
        "at": int(text["at"]),
        "reason": EndReason(reason) if reason else None,
        "ask": SessionCommand(ask) if ask else None,
    }
