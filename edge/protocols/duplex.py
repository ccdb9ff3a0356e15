"""`/ws/duplex` as a state machine: what a client may ask when, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from antiphon.edge.protocols.contract import Action, Forward, Tell
from antiphon.edge.protocols.duplex_commands import WIRE_NAMES, CameraFrame, DuplexCommand
from antiphon.edge.protocols.duplex_messages import result_message
from antiphon.edge.protocols.forecast import ContextForecast
from antiphon.edge.protocols.phases import Phase, PreparedMachine
from antiphon.shared_schemas.duplex_messages import MAX_FRAMES, Paused, Prepared, Timeout
from antiphon.shared_schemas.entries import (
    ChunkIn,
    DiagnosticIn,
    ErrorOut,
    InEntry,
    OutEntry,
    PausedOut,
    PauseIn,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    ResumedOut,
    ResumeIn,
    StopIn,
    StoppedOut,
    TimeoutOut,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import Notice, Resumed

_ALWAYS = frozenset({DiagnosticIn, StopIn})

LEGAL: dict[Phase, frozenset[type[DuplexCommand]]] = {
    Phase.QUEUED: _ALWAYS | {PrepareIn},
    Phase.QUEUED_PREPARED: _ALWAYS,
    Phase.ASSIGNED: _ALWAYS | {PrepareIn},
    Phase.PREPARING: _ALWAYS,
    Phase.ACTIVE: _ALWAYS | {ChunkIn, CameraFrame, PauseIn, PlaybackIn},
    Phase.PAUSED: _ALWAYS | {ResumeIn, PlaybackIn},
    Phase.STOPPING: frozenset({DiagnosticIn}),
    Phase.OVER: frozenset(),
}


class DuplexMachine(PreparedMachine):
    """One session between its client and its streams.

    `timing`: results say where their time went; `notices`: the client is told of a context that is
    nearly full; `transcript`: results have what the engine has understood of the user.
    """

    LEGAL: ClassVar = LEGAL
    WIRE_NAMES: ClassVar = WIRE_NAMES

    def __init__(
        self,
        sid: str,
        recording: str,
        *,
        timing: bool = False,
        notices: bool = False,
        transcript: bool = False,
    ) -> None:
        super().__init__(sid, recording)
        self._timing = timing
        self._transcript = transcript
        self._forecast = ContextForecast(wanted=notices)
        self._frames: tuple[bytes, ...] = ()

    def receive(self, command: DuplexCommand) -> list[Action]:
        """The client asks. Raises InvalidInput, which repeats the legal moves, when it may not."""
        self._check(command)
        match command:
            case ChunkIn():
                return [Forward(self._with_frames(command))]
            case CameraFrame(data=data):
                self._frames = (*self._frames, data)[-MAX_FRAMES:]
                return []
            case PrepareIn():
                return self._prepare(command)
            case PauseIn():
                self._frames = ()
                return self._enter(Phase.PAUSED, command)
            case ResumeIn():
                return self._enter(Phase.ACTIVE, command)
            case PlaybackIn():
                return [Forward(command)]
            case StopIn():
                return self._stop(command)
            case DiagnosticIn():
                return self._forward_or_hold(command)

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:
        """The worker answers; `now_ms` is Redis-clock time."""
        match entry:
            case ResultOut():
                return self._result(entry, now_ms)
            case PreparedOut():
                return self._prepared(entry)
            case PausedOut(timeout_s=timeout_s):
                return [Tell(Paused(timeout=timeout_s))]
            case ResumedOut():
                return [Tell(Resumed())]
            case StoppedOut():
                return self._stopped()
            case TimeoutOut(reason=reason):
                return self._timed_out(Timeout(reason=reason))
            case ErrorOut():
                return self._failed(entry)
            case _:
                raise TypeError(f"{entry.tag} does not belong in a duplex session")

    def ended(self, reason: EndReason | None) -> list[Action]:
        """The session ended without a last word of the worker; None: its record is lost."""
        if reason is EndReason.PAUSE_TIMEOUT:
            return self._timed_out(Timeout(reason="the pause lasted too long"))
        return super().ended(reason)

    def memory(self) -> dict[str, Any]:
        """Where the session stands, ready for JSON."""
        return {**super().memory(), "forecast": self._forecast.memory()}

    def recall(self, memory: Mapping[str, Any], held: Sequence[InEntry]) -> None:
        """Stand there again."""
        super().recall(memory, held)
        self._forecast.recall(memory["forecast"])

    def _result(self, entry: ResultOut, now_ms: float) -> list[Action]:
        result = result_message(entry, now_ms, timing=self._timing, transcript=self._transcript)
        told: list[Action] = [Tell(result)]
        left_s = self._forecast.seconds_left(entry)
        notice = Notice(limit="context", seconds_left=left_s) if left_s is not None else None
        return [*told, Tell(notice)] if notice else told

    def _with_frames(self, chunk: ChunkIn) -> ChunkIn:
        if not self._frames:
            return chunk
        frames, self._frames = (*self._frames, *chunk.frames)[-MAX_FRAMES:], ()
        return replace(chunk, frames=frames)

    def _prepared_message(self, entry: PreparedOut) -> Prepared:
        return Prepared(prompt_length=entry.prompt_length, recording_session_id=self._recording)
