"""The invariants: transitions and slots in Redis while it runs, recordings at the end."""

import asyncio
import wave
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.recorder_service.manifest.meta import read_meta
from antiphon.shared_schemas.recording import (
    RECORDING_FILE,
    DuplexRecording,
    Meta,
    RecordingState,
    TurnRecording,
    UnitRecord,
    parse_recording,
)
from antiphon.shared_schemas.registry import QueueSnapshot, SessionEvent
from antiphon.shared_schemas.states import HELD_STATES, LEGAL_MOVES, SessionState
from support.chaos.clients import ChaosSession, Outcome, ReceivedResult, mark_of
from support.chaos.system import GRACE_S, SLOTS
from support.stack import until

_CLOSE_TO_GRACE = 0.8


class TransitionAudit:
    """Checks each transition against the one before it in the same session."""

    def __init__(self, slots: int = SLOTS) -> None:
        self.violations: list[str] = []
        self.seen = Counter[str]()
        self.claimed: list[str] = []
        """The sessions in the order of their first claims."""
        self._slots = slots
        self._last: dict[int, SessionEvent] = {}
        self._holds: defaultdict[str, set[int]] = defaultdict(set)

    def add(self, event: SessionEvent) -> None:
        if event.ask is not None:
            return
        self.seen[event.state] += 1
        if event.state is SessionState.ASSIGNED and event.epoch == 1:
            self.claimed.append(event.sid)
        before = self._last.get(event.ticket)
        if before is not None:
            self._check_move(before, event)
        self._last[event.ticket] = event
        self._check_slots(event)

    def _check_move(self, before: SessionEvent, event: SessionEvent) -> None:
        claimed = event.state is SessionState.ASSIGNED and before.state not in HELD_STATES
        if event.state not in LEGAL_MOVES[before.state]:
            self._violation(event, f"{before.state} is followed by {event.state}")
        if event.epoch != before.epoch + claimed:
            self._violation(event, f"epoch {event.epoch} follows {before.epoch}")
        if {before.state, event.state} <= HELD_STATES and before.worker != event.worker:
            self._violation(event, f"{event.worker} has it while {before.worker} does")

    def _check_slots(self, event: SessionEvent) -> None:
        for held in self._holds.values():
            held.discard(event.ticket)
        if event.state in HELD_STATES:
            self._holds[event.worker].add(event.ticket)
            if len(self._holds[event.worker]) > self._slots:
                self._violation(event, f"{event.worker} has more than {self._slots} sessions")

    def _violation(self, event: SessionEvent, text: str) -> None:
        self.violations.append(f"{event.sid}, event {event.id}: {text}")


class RedisAudit:
    """Follows Redis on a connection that no proxy disturbs."""

    def __init__(self, broker: Broker, slots: int = SLOTS) -> None:
        """`slots`: of each worker."""
        self.transitions = TransitionAudit(slots)
        self.violations: list[str] = []
        self._broker = broker
        self._after = "0-0"

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            try:
                await self.read_once()
            except BrokerUnavailable:
                continue

    async def read_once(self) -> None:
        async for event in self._broker.events.since(self._after):
            self.transitions.add(event)
            self._after = event.id
        self._check_slots(await self._broker.queue.snapshot())

    def _check_slots(self, snapshot: QueueSnapshot) -> None:
        """The script reads everything at one moment."""
        held = Counter(session.worker for session in snapshot.running)
        for worker in snapshot.workers:
            if worker.used != held[worker.id]:
                self.violations.append(
                    f"{worker.id} counts {worker.used} used slots and has {held[worker.id]}"
                )
        sids = [session.sid for session in (*snapshot.waiting, *snapshot.running)]
        if len(sids) != len(set(sids)):
            self.violations.append("a session waits and runs at once")

    async def no_slot_leaked(self, within_s: float = 40.0) -> None:
        async def is_free() -> bool:
            try:
                snapshot = await self._broker.queue.snapshot()
            except BrokerUnavailable:
                return False
            return not snapshot.running and not snapshot.waiting

        try:
            await until(is_free, within_s=within_s, every_s=0.2)
        except TimeoutError:
            left = await self._broker.queue.snapshot()
            self.violations.append(f"sessions are left: {left.waiting} {left.running}")


async def check_sessions(
    sessions: list[ChaosSession], recordings: Path, *, loses_writes: bool = False
) -> list[str]:
    """`loses_writes`: Redis may have lost entries that clients received, before the recorder read them."""
    violations: list[str] = []
    for session in sessions:
        violations += session.violations
        early = session.away_s < GRACE_S * _CLOSE_TO_GRACE
        if session.outcome is Outcome.EXPIRED and early:
            violations.append(f"{session.sid}: expired after {session.away_s:.1f} s")
        if session.results:
            violations += await _check_recording(
                session, recordings / session.recording, loses_writes
            )
    return violations


async def _check_recording(session: ChaosSession, folder: Path, loses_writes: bool) -> list[str]:
    def is_finished() -> bool:
        meta = read_meta(folder)
        return meta is not None and meta.state is not RecordingState.RECORDING

    try:
        await until(is_finished, within_s=60, every_s=0.2)
    except TimeoutError:
        return [f"{session.sid}: its recording is not finished: {folder.name} {read_meta(folder)}"]
    meta = read_meta(folder)
    assert meta is not None
    recording = parse_recording((folder / RECORDING_FILE).read_bytes())
    found = RecordingAudit(session, folder, meta, recording, loses_writes)
    found.check()
    return [f"{session.sid}: {text} ({folder.name})" for text in found.violations]


class RecordingAudit:
    """Compares one recording with what its client sent and received."""

    def __init__(
        self,
        session: ChaosSession,
        folder: Path,
        meta: Meta,
        recording: DuplexRecording | TurnRecording,
        loses_writes: bool = False,
    ) -> None:
        self.violations: list[str] = []
        self._session = session
        self._folder = folder
        self._meta = meta
        self._loses_writes = loses_writes
        self._recording = recording

    def check(self) -> None:
        if isinstance(self._recording, DuplexRecording):
            self._check_input(self._recording)
            self._check_results(self._recording)
        if self._session.outcome is Outcome.STOPPED:
            self._expect("state", self._meta.state, RecordingState.COMPLETE)
            self._expect("missing", self._meta.missing, [])

    def _check_input(self, recording: DuplexRecording) -> None:
        """Chunks may be lost on a broken connection; none is doubled or changes its place."""
        marks = [self._mark(chunk.user_audio) for chunk in recording.chunks]
        if any(later <= earlier for earlier, later in pairwise(marks)):
            self.violations.append(f"chunks are doubled or out of order: {marks}")
        if marks and marks[-1] > self._session.sent:
            self.violations.append(f"chunk {marks[-1]} of {self._session.sent}")

    def _mark(self, name: str | None) -> int:
        if name is None:
            self.violations.append("a chunk has no audio")
            return 0
        with wave.open(str(self._folder / name)) as file:
            levels = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        self._expect(f"levels in {name}", len(set(levels.tolist())), 1)
        return mark_of(int(levels[0]))

    def _check_results(self, recording: DuplexRecording) -> None:
        chunks = recording.chunks
        units = [chunk.result for chunk in chunks if chunk.result is not None]
        is_stopped = self._session.outcome is Outcome.STOPPED
        has_holes = self._loses_writes and not is_stopped and bool(self._meta.missing)
        if any(chunk.repeated_results for chunk in chunks):
            self.violations.append("a result is doubled")
        if recording.orphan_results and not has_holes:
            self.violations.append("a result has no chunk")
        if any(chunk.skipped for chunk in chunks):
            self.violations.append("a chunk was skipped")
        if any(chunk.result is None for chunk in chunks[: len(units)]) and not has_holes:
            self.violations.append("a chunk has no result, and later ones do")
        epochs = [unit.epoch for unit in units]
        self._expect("epochs", epochs, sorted(epochs))
        recorded, received = [self._received(unit) for unit in units], self._session.results
        if has_holes:
            left = iter(received)
            recorded = recorded[: len(received)]
            received = [result for result in recorded if result in left]  # `in` skips lost ones
        elif not is_stopped:
            recorded = recorded[: len(received)]
            if self._loses_writes:
                received = received[: len(recorded)]
        self._expect("results", recorded, received)

    def _received(self, unit: UnitRecord) -> ReceivedResult:
        if unit.ai_audio is not None and not (self._folder / unit.ai_audio).exists():
            self.violations.append(f"{unit.ai_audio} does not exist")
        return ReceivedResult(unit.mode == "LISTEN", unit.text or "")

    def _expect(self, what: str, actual: object, expected: object) -> None:
        if actual != expected:
            self.violations.append(f"{what}: {actual}, expected {expected}")
