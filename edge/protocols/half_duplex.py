"""`/ws/half_duplex` as a state machine: turns of speech and answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from antiphon.edge.protocols.contract import Action, Forward, Tell
from antiphon.edge.protocols.phases import Phase, PreparedMachine
from antiphon.shared_schemas.entries import (
    BreakIn,
    ChunkIn,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    HalfDuplexPrepareIn,
    InEntry,
    OutEntry,
    PreparedOut,
    StopIn,
    StoppedOut,
    TimeoutOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.events import SessionCommand
from antiphon.shared_schemas.half_duplex_messages import (
    Generating,
    HalfDuplexPrepared,
    HalfDuplexTimeout,
    TurnChunk,
    TurnDone,
    VadState,
)
from antiphon.shared_schemas.states import EndReason

HalfDuplexCommand = HalfDuplexPrepareIn | ChunkIn | StopIn

WIRE_NAMES: dict[type[HalfDuplexCommand], str] = {
    HalfDuplexPrepareIn: "prepare",
    ChunkIn: "audio_chunk",
    StopIn: "stop",
}

LEGAL: dict[Phase, frozenset[type[HalfDuplexCommand]]] = {
    Phase.QUEUED: frozenset({HalfDuplexPrepareIn, StopIn}),
    Phase.QUEUED_PREPARED: frozenset({StopIn}),
    Phase.ASSIGNED: frozenset({HalfDuplexPrepareIn, StopIn}),
    Phase.PREPARING: frozenset({StopIn}),
    Phase.ACTIVE: frozenset({ChunkIn, StopIn}),
    Phase.STOPPING: frozenset(),
    Phase.OVER: frozenset(),
}


class HalfDuplexMachine(PreparedMachine):
    """One session between its client and its streams."""

    LEGAL: ClassVar = LEGAL
    WIRE_NAMES: ClassVar = WIRE_NAMES

    def __init__(self, sid: str, recording: str) -> None:
        super().__init__(sid, recording)
        self._timeout_s = 0.0

    def receive(self, command: HalfDuplexCommand) -> list[Action]:
        """The client asks. Raises InvalidInput, which repeats the legal moves, when it may not."""
        self._check(command)
        match command:
            case ChunkIn():
                return [Forward(command)]
            case HalfDuplexPrepareIn(config=config):
                self._timeout_s = config.session.timeout_s
                return self._prepare(command)
            case StopIn():
                return self._stop(command)

    def memory(self) -> dict[str, Any]:
        """Where the session stands, ready for JSON."""
        return {**super().memory(), "timeout_s": self._timeout_s}

    def recall(self, memory: Mapping[str, Any], held: Sequence[InEntry]) -> None:
        """Stand there again."""
        super().recall(memory, held)
        self._timeout_s = memory["timeout_s"]

    def adopt(self, entry: InEntry) -> None:
        """Stand where this input, found in the stream, has led."""
        super().adopt(entry)
        if isinstance(entry, HalfDuplexPrepareIn):
            self._timeout_s = entry.config.session.timeout_s

    def asked(self, ask: SessionCommand) -> list[Action]:
        """Someone beside the client asks for something."""
        wanted = ask is SessionCommand.INTERRUPT and self.phase is Phase.ACTIVE
        return [Forward(BreakIn())] if wanted else []

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:  # noqa: ARG002 - as all have
        """The worker answers."""
        match entry:
            case DeltaOut():
                return _chunk(entry)
            case VadOut(speaking=speaking):
                return [Tell(VadState(speaking=speaking))]
            case GeneratingOut(speech_duration_ms=duration):
                return [Tell(Generating(speech_duration_ms=duration))]
            case TurnDoneOut(turn_index=index, text=text):
                return [Tell(TurnDone(turn_index=index, text=text))]
            case PreparedOut():
                return self._prepared(entry)
            case StoppedOut():
                return self._stopped()
            case TimeoutOut(elapsed_s=elapsed_s):
                return self._silent(self._timeout_s if elapsed_s is None else elapsed_s)
            case ErrorOut():
                return self._failed(entry)
            case _:
                raise TypeError(f"{entry.tag} does not belong in a half-duplex session")

    def ended(self, reason: EndReason | None) -> list[Action]:
        """The session ended without a last word of the worker; None: its record is lost."""
        if reason is EndReason.PAUSE_TIMEOUT:
            return self._silent(self._timeout_s)
        return super().ended(reason)

    def _silent(self, elapsed_s: float) -> list[Action]:
        return self._timed_out(HalfDuplexTimeout(elapsed_s=round(elapsed_s, 1)))

    def _prepared_message(self, entry: PreparedOut) -> HalfDuplexPrepared:
        return HalfDuplexPrepared(
            session_id=self._sid,
            timeout_s=self._timeout_s,
            recording_session_id=self._recording,
            prompt_length=entry.prompt_length,
        )


def _chunk(entry: DeltaOut) -> list[Action]:
    if not (entry.text_delta or entry.audio):
        return []
    return [Tell(TurnChunk(text_delta=entry.text_delta, audio_data=entry.audio))]
