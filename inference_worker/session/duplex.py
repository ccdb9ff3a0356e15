"""The full-duplex conversation as a state machine: which input means what, where."""

from __future__ import annotations

from enum import StrEnum

from antiphon.shared_schemas.entries import (
    ChunkIn,
    InEntry,
    PauseIn,
    PlaybackIn,
    PrepareIn,
    ResumeIn,
    StopIn,
)
from antiphon.shared_schemas.states import SessionState


class Action(StrEnum):
    """What the runner does about one input."""

    PREPARE = "prepare"
    RUN_UNIT = "run_unit"
    PAUSE = "pause"
    RESUME = "resume"
    PLAYED = "played"
    STOP = "stop"
    IGNORE = "ignore"


_S = SessionState

_ACTIONS: dict[SessionState, dict[type[InEntry], Action]] = {
    _S.ASSIGNED: {PrepareIn: Action.PREPARE, StopIn: Action.STOP},
    _S.ACTIVE: {
        ChunkIn: Action.RUN_UNIT,
        PauseIn: Action.PAUSE,
        PlaybackIn: Action.PLAYED,
        StopIn: Action.STOP,
    },
    _S.PAUSED: {ResumeIn: Action.RESUME, PlaybackIn: Action.PLAYED, StopIn: Action.STOP},
}


def decide(state: SessionState, entry: InEntry) -> Action:
    """The action for an input. The edge refuses what is out of turn; what slips through is ignored."""
    return _ACTIONS[state].get(type(entry), Action.IGNORE)
