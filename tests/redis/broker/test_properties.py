"""The queue compared with a model in Python, for any order of joins, claims, losses and ends."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import QueueFull, SessionExists
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.registry import QueueSnapshot, Ticket
from antiphon.shared_schemas.states import (
    HELD_STATES,
    LEGAL_MOVES,
    EndReason,
    SessionKind,
    SessionState,
)
from support.control_plane import (
    AUDIO,
    CHAT,
    OMNI,
    SILENCE_S,
    expire_lease,
    now_ms,
    reap,
    report,
    silence,
)

pytestmark = pytest.mark.one_redis

T = TypeVar("T")

SIDS = ("a", "b", "c", "d", "e", "f", "g", "h")
EDGES = ("e1", "e2")
MAX_QUEUE = 6
MAX_ATTEMPTS = 3
RECOVERY_TIMEOUT_S = 3600
FAR = 1 << 50
"""A time in milliseconds that no test reaches. A busy machine may take seconds for one step."""
WORKERS: dict[str, tuple[frozenset[SessionKind], int]] = {
    "w1": (frozenset(SessionKind), 1),
    "w2": (frozenset({AUDIO}), 2),
    "w3": (frozenset({CHAT, OMNI}), 3),
}

_COMPARED = ("state", "ticket", "epoch", "attempt", "reason", "failures", "shared", "long_trial")

sids = st.sampled_from(SIDS)
workers = st.sampled_from(sorted(WORKERS))
numbers = st.integers(0, 7)
wrong_by = st.sampled_from([0, 0, 0, 1, -1])


class Since(Enum):
    """When a session began to work again after the loss of a worker."""

    RECENTLY = auto()
    MINUTES_AGO = auto()
    LONG_AGO = auto()


RECORD = (Since.RECENTLY, Since.MINUTES_AGO)


@dataclass
class Session:
    ticket: int
    kind: SessionKind
    edge: str
    state: SessionState = SessionState.QUEUED
    epoch: int = 0
    attempt: int = 1
    worker: str = ""
    expired: bool = False
    reason: EndReason | None = None
    failures: int = 0
    shared: int = 0
    on_trial: bool = False
    outlived: bool = False
    """The end of the trial has passed."""
    waited: bool = False
    """It waits for a worker without sessions for too long."""
    verdict: tuple[int, str] = (0, "")
    works_since: Since | None = None
    long_trial: bool = False

    @property
    def live(self) -> bool:
        return self.state is not SessionState.ENDED

    @property
    def held(self) -> bool:
        return self.state in HELD_STATES

    @property
    def waits(self) -> bool:
        return self.live and not self.held

    def acquit(self) -> None:
        self.attempt -= self.shared
        self.failures = self.shared = 0
        self.on_trial, self.verdict = False, (0, "")
        self.works_since = Since.RECENTLY

    def charge(self) -> None:
        if self.works_since is Since.RECENTLY:
            self.long_trial = True
        elif not self.on_trial:
            self.long_trial = False
        self.works_since = None
        self.attempt += 1
        self.failures += 1
        self.shared += self.verdict[1] == "suspected"

    @property
    def guilty(self) -> bool:
        if self.verdict[1] == "accused":
            return self.attempt - self.shared >= MAX_ATTEMPTS - 1
        return self.verdict[1] == "blamed" and self.attempt >= MAX_ATTEMPTS


def any_held(machine: "QueueMachine") -> bool:
    return any(s.held for s in machine.sessions.values())


class QueueMachine(RuleBasedStateMachine):
    """Every rule does the same to Redis and to the model, and compares the answers."""

    def __init__(self, redis_url: str) -> None:
        super().__init__()
        self.sessions: dict[str, Session] = {}
        self.open: dict[str, bool] = {}
        self.last_ticket = 0
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.settings = BrokerSettings(
            redis_url=redis_url,
            key_prefix=f"p-{uuid.uuid4().hex[:12]}",
            redis_timeout_s=60.0,
            lease_s=600.0,
            heartbeat_ttl_s=SILENCE_S - 10.0,
            broker_patience_s=SILENCE_S - 10.0,
            max_queue_size=MAX_QUEUE,
            max_attempts=MAX_ATTEMPTS,
            recovery_timeout_s=RECOVERY_TIMEOUT_S,
        )
        self.broker, self.raw = self.run(self._connect)

    async def _connect(self) -> tuple[Broker, Redis]:
        broker = await self.stack.enter_async_context(open_broker(self.settings))
        raw = await self.stack.enter_async_context(Redis.from_url(self.settings.redis_url))
        return broker, raw

    def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """`Runner.run` would install and remove a signal handler each time."""
        return self.runner.get_loop().run_until_complete(call())

    def teardown(self) -> None:
        self.run(self.stack.aclose)
        self.runner.close()

    # State of the model.

    def waiting(self) -> list[str]:
        """Live sessions without a worker, in ticket order."""
        found = [(s.ticket, sid) for sid, s in self.sessions.items() if s.waits]
        return [sid for _, sid in sorted(found)]

    def held_by(self, worker: str) -> list[str]:
        return [sid for sid, s in self.sessions.items() if s.held and s.worker == worker]

    def servable(self, worker: str) -> str | None:
        kinds, slots = WORKERS[worker]
        held = [self.sessions[sid] for sid in self.held_by(worker)]
        free = slots - len(held)
        trial = max((s.failures for s in held if s.on_trial), default=0)
        if not self.open.get(worker) or free <= 0 or trial > 1:
            return None
        found, reserved = None, 0
        worst, most = None, 1
        for sid in self.waiting():
            session = self.sessions[sid]
            if session.kind not in kinds:
                continue
            if not held and session.failures > most:
                worst, most = sid, session.failures
            if session.failures == 0:
                fits = trial == 0 and free > reserved
            elif session.failures == 1:
                alone = not self.another_is_empty(worker, session.kind)
                fits = not held or trial == 1 or session.waited or alone
            else:
                fits = trial == 0 and session.waited
            if found is None and fits:
                found = sid
            elif session.failures:
                reserved += 1
            if session.state is SessionState.QUEUED or (found and held):
                break
        return worst or found

    def another_is_empty(self, worker: str, kind: SessionKind) -> bool:
        return any(
            self.open.get(other) and kind in kinds and not self.held_by(other)
            for other, (kinds, _) in WORKERS.items()
            if other != worker
        )

    def requeue(self, session: Session) -> None:
        session.state, session.expired = SessionState.RECOVERING, False
        session.on_trial = session.waited = False

    def finish(self, session: Session, reason: EndReason) -> None:
        session.state, session.reason, session.expired = SessionState.ENDED, reason, False
        session.on_trial = False

    def judge(self, worker: str) -> None:
        held = [self.sessions[sid] for sid in self.held_by(worker)]
        tried = [s for s in held if s.on_trial]
        suspects = tried or held
        recent = [s for s in held if s.works_since is Since.RECENTLY and not s.on_trial]
        for session in held:
            verdict = "blamed" if len(suspects) == 1 else "suspected"
            if len(tried) == 1 and recent:
                verdict = "accused"
            session.verdict = (session.epoch, verdict if session in suspects else "excused")

    def pick(self, number: int, of: Callable[[Session], bool]) -> tuple[str, Session]:
        """One of the matching sessions; at least one must exist."""
        found = [(sid, s) for sid, s in self.sessions.items() if of(s)]
        return found[number % len(found)]

    # Rules.

    @initialize()
    def open_all_workers(self) -> None:
        for worker in WORKERS:
            self.beat(worker, is_open=True)

    @rule(sid=sids, kind=st.sampled_from([AUDIO, OMNI, CHAT]), edge=st.sampled_from(EDGES))
    def join(self, sid: str, kind: SessionKind, edge: str) -> None:
        old = self.sessions.get(sid)

        def enqueue() -> Awaitable[Ticket]:
            return self.broker.queue.join(sid, kind, edge=edge, recording=sid)

        if old and old.live:
            with pytest.raises(SessionExists):
                self.run(enqueue)
        elif len(self.waiting()) >= MAX_QUEUE:
            with pytest.raises(QueueFull):
                self.run(enqueue)
        else:
            ticket = self.run(enqueue)
            assert ticket.number > self.last_ticket
            self.last_ticket = ticket.number
            self.sessions[sid] = Session(ticket.number, kind, edge)
            assert ticket.position == len(self.waiting()) == ticket.queue_length

    @rule(kinds=st.lists(st.sampled_from([AUDIO, OMNI, CHAT]), min_size=3, max_size=8))
    def join_several(self, kinds: list[SessionKind]) -> None:
        """Several joins, so that the queue is long enough."""
        for sid, kind in zip(SIDS, kinds, strict=False):
            self.join(sid, kind, EDGES[len(sid + kind) % 2])

    @rule(worker=workers, is_open=st.sampled_from([True, True, False]))
    def beat(self, worker: str, is_open: bool) -> None:
        kinds, slots = WORKERS[worker]
        reported = report(*kinds, slots=slots, is_open=is_open)
        self.run(lambda: self.broker.registry.worker_beat(worker, reported))
        self.open[worker] = is_open

    @precondition(lambda self: len(self.open) > 1)
    @rule(worker=workers, in_order=st.booleans())
    def lose_worker(self, worker: str, in_order: bool) -> None:
        if in_order:
            self.run(lambda: self.broker.registry.worker_gone(worker))
            for sid in self.held_by(worker):
                self.sessions[sid].expired = True
        elif worker in self.open:
            self.run(lambda: silence(self.raw, self.broker.keys.workers, worker, self.broker))
            self.reap()
        self.open.pop(worker, None)

    @rule(worker=workers)
    def claim(self, worker: str) -> None:
        expected = self.servable(worker)
        held = self.run(lambda: self.broker.leases.claim(worker))
        assert (held.sid if held else None) == expected
        if held:
            session = self.sessions[held.sid]
            assert held.epoch == session.epoch + 1
            assert (held.ticket, held.kind) == (session.ticket, session.kind)
            assert held.attempt == session.attempt
            session.state, session.worker = SessionState.ASSIGNED, worker
            session.epoch = held.epoch
            session.on_trial, session.outlived = session.failures > 0, False
            session.works_since = session.works_since and Since.RECENTLY

    @precondition(lambda self: bool(self.waiting()))
    @rule()
    def claim_all(self) -> None:
        for worker in WORKERS:
            while self.servable(worker):
                self.claim(worker)

    @precondition(lambda self: any(s.worker for s in self.sessions.values()))
    @rule(worker=workers, offset=wrong_by)
    def renew(self, worker: str, offset: int) -> None:
        mine = {sid: s for sid, s in self.sessions.items() if s.worker == worker}
        believed = {sid: s.epoch + offset for sid, s in mine.items()}
        kept = {sid for sid, s in mine.items() if offset == 0 and s.held}
        lost = self.run(lambda: self.broker.leases.renew(worker, believed))
        assert lost == set(believed) - kept
        for sid in kept:
            self.sessions[sid].expired = False

    @precondition(any_held)
    @rule(number=numbers)
    def expire(self, number: int) -> None:
        sid, session = self.pick(number, of=lambda s: s.held)
        self.run(lambda: expire_lease(self.broker, self.raw, sid))
        session.expired = True

    @precondition(any_held)
    @rule(number=numbers)
    def expire_all_of_a_worker(self, number: int) -> None:
        """As after the death of its process."""
        _, picked = self.pick(number, of=lambda s: s.held)
        for sid in self.held_by(picked.worker):
            self.run(lambda sid=sid: expire_lease(self.broker, self.raw, sid))  # type: ignore[misc]
            self.sessions[sid].expired = True

    @rule()
    def reap(self) -> None:
        for session in self.sessions.values():
            if session.on_trial and session.outlived:
                session.acquit()
        lost = [s for s in self.sessions.values() if s.held and s.expired]
        for worker in {s.worker for s in lost if s.verdict[0] != s.epoch}:
            self.judge(worker)
        ending = [s for s in lost if s.guilty]
        outcome = self.run(lambda: reap(self.broker, self.raw))
        assert outcome == (len(lost) - len(ending), len(ending))
        for session in lost:
            if session in ending:
                self.finish(session, EndReason.WORKER_LOST)
                continue
            if session.verdict[1] == "excused":
                session.works_since = Since.RECENTLY
            else:
                session.charge()
            self.requeue(session)
            session.verdict = (0, "")

    @precondition(lambda self: any(s.on_trial for s in self.sessions.values()))
    @rule(number=numbers)
    def outlive_the_trial(self, number: int) -> None:
        sid, session = self.pick(number, of=lambda s: s.on_trial)
        self.run(lambda: self.raw.zadd(self.broker.keys.trials, {sid: 1}, xx=True))
        session.outlived = True

    @precondition(lambda self: any(s.works_since and s.live for s in self.sessions.values()))
    @rule(number=numbers, age=st.sampled_from([Since.MINUTES_AGO, Since.LONG_AGO]))
    def work_for_long(self, number: int, age: Since) -> None:
        _, session = self.pick(number, of=lambda s: s.works_since is not None and s.live)
        session.works_since = age

    @precondition(lambda self: any(s.waits and s.epoch for s in self.sessions.values()))
    @rule(number=numbers)
    def wait(self, number: int) -> None:
        """For longer than a session waits for a worker without sessions."""
        sid, session = self.pick(number, of=lambda s: s.waits and s.epoch > 0)
        long_ago = self.run(lambda: now_ms(self.raw)) - RECOVERY_TIMEOUT_S * 1000 // 2
        key = self.broker.keys.session(sid)
        self.run(lambda: self.raw.hset(key, "recovering_at", long_ago))
        session.waited = True

    @precondition(lambda self: any(s.failures for s in self.sessions.values()))
    @rule()
    def serve_all(self) -> None:
        """No session waits forever: if time passes and nothing else fails, all free slots fill."""
        progress = True
        while progress:
            before = len(self.waiting())
            on_trial = sum(s.on_trial for s in self.sessions.values())
            for number in range(on_trial):
                self.outlive_the_trial(number)
            if on_trial:
                for worker in WORKERS:
                    self.renew(worker, 0)
                self.reap()
            for number in range(sum(s.waits and s.epoch > 0 for s in self.sessions.values())):
                self.wait(number)
            self.claim_all()
            progress = len(self.waiting()) < before or on_trial > 0
        waiting = {self.sessions[sid].kind for sid in self.waiting()}
        for worker, (kinds, slots) in WORKERS.items():
            if self.open.get(worker) and len(self.held_by(worker)) < slots:
                assert not waiting & kinds

    @precondition(lambda self: sum(s.live for s in self.sessions.values()) > 5)
    @rule(edge=st.sampled_from(EDGES))
    def lose_edge(self, edge: str) -> None:
        self.reap()  # the next one then counts only this edge's sessions
        if self.run(lambda: self.raw.zscore(self.broker.keys.edges, edge)):
            self.run(lambda: silence(self.raw, self.broker.keys.edges, edge, self.broker))
        gone = [s for s in self.sessions.values() if s.live and s.edge == edge]
        assert self.run(lambda: reap(self.broker, self.raw)) == (0, len(gone))
        for session in gone:
            self.finish(session, EndReason.EDGE_LOST)

    @precondition(lambda self: sum(s.live for s in self.sessions.values()) > 3)
    @rule(number=numbers, fenced=st.booleans(), epoch_off=wrong_by, ticket_off=wrong_by)
    def end(self, number: int, fenced: bool, epoch_off: int, ticket_off: int) -> None:
        sid, session = self.pick(number, of=lambda s: s.ticket > 0)
        fence = {"epoch": session.epoch + epoch_off, "ticket": session.ticket + ticket_off}
        right = not fenced or (epoch_off == 0 and ticket_off == 0)
        expected = session.live and right
        for attempt in (1, 2):  # ending is idempotent
            ended = self.run(
                lambda: self.broker.sessions.end(
                    sid, EndReason.CANCELLED, **(fence if fenced else {})
                )
            )
            assert ended == (expected and attempt == 1)
        if expected:
            self.finish(session, EndReason.CANCELLED)

    @rule(sid=sids)
    def end_of_nothing(self, sid: str) -> None:
        if sid not in self.sessions:
            assert not self.run(lambda: self.broker.sessions.end(sid, EndReason.CANCELLED))

    @precondition(any_held)
    @rule(number=numbers, by=st.none() | workers, offset=wrong_by)
    def give_back(self, number: int, by: str | None, offset: int) -> None:
        sid, session = self.pick(number, of=lambda s: bool(s.worker))
        worker, epoch = by or session.worker, session.epoch + offset
        expected = session.held and session.worker == worker and offset == 0
        assert self.run(lambda: self.broker.leases.give_back(sid, worker, epoch)) == expected
        if expected:
            self.requeue(session)
            session.works_since = None

    @precondition(any_held)
    @rule(number=numbers, state=st.sampled_from(sorted(HELD_STATES)), offset=wrong_by)
    def move(self, number: int, state: SessionState, offset: int) -> None:
        sid, session = self.pick(number, of=lambda s: bool(s.worker))
        worker, epoch = session.worker, session.epoch + offset

        def attempt() -> bool:
            return self.run(lambda: self.broker.leases.move(sid, worker, epoch, state))

        if not session.held or offset:
            assert not attempt()
        elif state is session.state or state in LEGAL_MOVES[session.state]:
            assert attempt()
            if state not in (session.state, SessionState.PAUSED):
                if session.state is SessionState.PAUSED and session.works_since in RECORD:
                    session.failures = max(session.failures, 1)
                session.on_trial = session.failures > 0
                session.outlived = session.outlived and not session.on_trial  # it is extended
            session.state = state
        else:
            with pytest.raises(ValueError, match=state):
                attempt()

    # Invariants.

    @invariant()
    def redis_and_the_model_agree(self) -> None:
        snapshot = self.run(self.broker.queue.snapshot)
        note(str(snapshot))
        self.check_queue(snapshot)
        self.check_slots(snapshot)
        rows, on_trial = self.run(self._rows_and_trials)
        self.check_rows(rows)
        assert on_trial == {sid for sid, s in self.sessions.items() if s.on_trial}

    def check_queue(self, snapshot: QueueSnapshot) -> None:
        assert [row.sid for row in snapshot.waiting] == self.waiting()
        assert [row.position for row in snapshot.waiting] == list(
            range(1, len(snapshot.waiting) + 1)
        )
        tickets = [row.ticket for row in snapshot.waiting]
        assert tickets == sorted(set(tickets))
        assert all((row.eta_s is None) is (row.reason is not None) for row in snapshot.waiting)
        etas = [row.eta_s for row in snapshot.waiting if row.eta_s is not None]
        assert etas == sorted(etas)
        assert all(eta >= 0.0 for eta in etas)

    def check_slots(self, snapshot: QueueSnapshot) -> None:
        running = {row.sid: (row.worker, row.state) for row in snapshot.running}
        held = {sid: (s.worker, s.state) for sid, s in self.sessions.items() if s.held}
        assert running == held
        assert not set(running) & {row.sid for row in snapshot.waiting}
        assert {row.id: row.open for row in snapshot.workers} == self.open
        for row in snapshot.workers:
            assert row.used == len(self.held_by(row.id)) <= row.slots

    def check_rows(self, rows: dict[str, list[str | None]]) -> None:
        assert rows == {
            sid: [
                str(value) if value is not None else None
                for value in (
                    *(s.state, s.ticket, s.epoch, s.attempt, s.reason),
                    *(s.failures or None, s.shared or None, int(s.long_trial) or None),
                )
            ]
            for sid, s in self.sessions.items()
        }

    async def _rows_and_trials(self) -> tuple[dict[str, list[str | None]], set[str]]:
        """All sessions' rows, and the sessions on trial, in one round trip.

        Also makes trials longer: only `outlive_the_trial` lets their time pass, and only
        `work_for_long` that since the last loss.
        """
        minutes_ago = await now_ms(self.raw) - 60_000
        since = {Since.RECENTLY: FAR, Since.MINUTES_AGO: minutes_ago, Since.LONG_AGO: 1}
        lasting = {sid: FAR for sid, s in self.sessions.items() if s.on_trial and not s.outlived}
        async with self.raw.pipeline() as batch:
            batch.zrange(self.broker.keys.trials, 0, -1)
            for sid in self.sessions:
                key = self.broker.keys.session(sid)
                batch.hmget(key, *_COMPARED)
            if lasting:
                batch.zadd(self.broker.keys.trials, lasting, xx=True)
            for sid, session in self.sessions.items():
                if session.works_since and session.live:
                    key = self.broker.keys.session(sid)
                    batch.hset(key, "works_since", since[session.works_since])
            trials, *found = await batch.execute()
        rows = {
            sid: [value and value.decode() for value in row]
            for sid, row in zip(self.sessions, found[: len(self.sessions)], strict=True)
        }
        return rows, {sid.decode() for sid in trials}


def test_the_queue_equals_its_model(redis_url: str) -> None:
    run_state_machine_as_test(
        lambda: QueueMachine(redis_url),
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
