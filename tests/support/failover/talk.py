"""A complete stack on a Redis of several servers, and clients that talk through one fault."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import orjson
from redis.crc import key_slot

from antiphon.broker.client import open_broker
from antiphon.broker.keys import Keys
from support.chaos.audit import RedisAudit, check_sessions
from support.chaos.clients import ChaosSession, Outcome
from support.chaos.system import SLOTS
from support.failover.conversations import OTHERS, PIECES, HalfDuplexSession, WaitingSession
from support.failover.resumes import ResumingSession
from support.ports import free_port
from support.recorder_process import QUICK as QUICK_RECORDER
from support.redis_cluster import RedisCluster
from support.redis_sentinel import RedisSentinel
from support.stack import Stack, until

_ENGINE = orjson.dumps(
    {"prepare_ms": 20, "prefill_ms": 10, "listen_ms": 10, "speak_ms": 100, "finalize_ms": 5}
    | {"answer_pieces": PIECES}
).decode()
_WITHIN_S = 60.0
_RESULTS = 4
_FOREVER_S = 3600.0
_PATIENT = {"broker_patience_s": 120.0}
"""A Sentinel on a busy machine may elect nobody for half a minute."""
_PONG_WITHIN_S = 20.0
"""The default of the library `websockets`. The edges are not lost."""

Client = TypeVar("Client", bound=ChaosSession)


@dataclass(frozen=True)
class Load:
    """Clients of `/ws/duplex`, of each other protocol, and behind them in the queue.

    `resuming`: more clients of `/ws/duplex`, whose connections break.
    """

    clients: int
    others: int = 0
    waiting: int = 0
    resuming: int = 0

    @property
    def slots(self) -> int:
        """Of each of two workers, so that all of them are taken."""
        return math.ceil((self.clients + self.others * len(OTHERS) + self.resuming) / 2)


LOAD = Load(clients=6, others=2, waiting=3)
"""Of the tests. Both workers have all slots in use."""


@dataclass
class TalkReport:
    """How the sessions of one fault ended. `violations` is empty when every invariant held."""

    sessions: list[ChaosSession]
    election_s: float
    """From the fault until the servers are complete again."""
    violations: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Every session has continued, and nothing is lost."""
        print(self)  # noqa: T201
        assert not self.violations
        assert not self.ended_early
        assert self.lost == 0

    def __str__(self) -> str:
        return (
            f"election {self.election_s:.1f} s, silence {self.silence_s:.1f} s, lost {self.lost} of "
            f"{self.losing}, ended early: {self.ended_early}, violations: {self.violations}"
        )

    @property
    def waiting(self) -> list[WaitingSession]:
        return [session for session in self.sessions if isinstance(session, WaitingSession)]

    @property
    def worse_places(self) -> list[str]:
        """Of clients that got a worse place than before, also for a moment.

        A busy machine may stop all workers for so long that their sessions are before those that wait.
        """
        return [
            f"{session.sid}: {session.places}"
            for session in self.waiting
            if session.places != sorted(session.places, reverse=True)
        ]

    @property
    def lost(self) -> int:
        """Chunks without a result in the sessions that ended as their clients asked."""
        return sum(session.sent - len(session.results) for session in self._stopped)

    @property
    def losing(self) -> list[str]:
        """Sessions without all results. A client does not repeat what it has sent when it resumes."""
        losing = [s for s in self._stopped if s.sent > len(s.results)]
        return [f"{s.sid}, {s.resumes} resumes, the last after {s.closed_with!r}" for s in losing]

    @property
    def _stopped(self) -> list[ChaosSession]:
        return [session for session in self.sessions if session.outcome is Outcome.STOPPED]

    @property
    def ended_early(self) -> list[str]:
        early = [s for s in self.sessions if s.outcome is not Outcome.STOPPED]
        return [f"{session.sid}: {session.outcome} {session.code}" for session in early]

    @property
    def silence_s(self) -> float:
        return max(session.longest_silence_s for session in self.sessions)


class Talk:
    """Clients that talk until `over` is set."""

    def __init__(self, name: str, edges: list[str]) -> None:
        self.over = asyncio.Event()
        self.sessions: list[ChaosSession] = []
        self.waiting: list[WaitingSession] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._name = name
        self._edges = edges

    def start(self, clients: int, kind: type[Client] = ChaosSession) -> list[Client]:
        first = len(self.sessions)
        started = [self._start(number, kind) for number in range(first, first + clients)]
        self.sessions += started
        return started

    def _start(self, number: int, kind: type[Client]) -> Client:
        edges = self._edges[number % 2 :] + self._edges[: number % 2]
        prefix = "hdx" if issubclass(kind, HalfDuplexSession) else "adx"
        sid = f"{prefix}_{self._name}_{number}"
        session = kind(sid, edges, random.Random(number), _FOREVER_S)
        session.starts_within_s = _WITHIN_S  # a busy machine is not the fault that is tested
        session.pong_within_s = _PONG_WITHIN_S
        self.tasks.append(asyncio.create_task(session.run(self.over), name=sid))
        return session

    async def wait_in_queue(self, clients: int) -> None:
        """More clients, one behind the other. Raises TimeoutError."""

        def waits_or_has_ended() -> bool:
            return session.outcome is not None or session.has_place

        for _ in range(clients):
            (session,) = self.start(1, WaitingSession)
            self.waiting.append(session)
            await until(waits_or_has_ended, within_s=_WITHIN_S, every_s=0.05)

    async def get_results(self, count: int) -> None:
        """Until each session has this many more results, or has ended, and each that waits has its place.

        Raises TimeoutError.
        """
        talking = [session for session in self.sessions if session not in self.waiting]
        wanted = [(session, len(session.results) + count) for session in talking]

        def have_all() -> bool:
            return all(s.outcome is not None or len(s.results) >= n for s, n in wanted) and all(
                s.outcome is not None or s.has_place for s in self.waiting
            )

        await until(have_all, within_s=_WITHIN_S, every_s=0.05)

    def check_order(self, claimed: list[str]) -> list[str]:
        """Those that waited are served in the order in which they came."""
        came = [session.sid for session in self.waiting]
        served = [sid for sid in claimed if sid in came]
        return [] if served == came else [f"{served} are served, {came} waited"]


@dataclass
class TalkingStack:
    """Two edges, two workers and a recorder."""

    stack: Stack
    edges: list[str]
    slots: int
    """Of each worker."""
    _talks: int = 0

    @property
    def control_slot(self) -> int:
        return int(key_slot(Keys(self.stack.prefix).control.encode()))

    def stream_slot(self, session: ChaosSession) -> int:
        return int(key_slot(Keys(self.stack.prefix).inbound(session.sid).encode()))

    async def talk_through(
        self,
        fault: Callable[[Talk], Awaitable[None]],
        load: Load,
        *,
        loses_writes: bool = False,
    ) -> TalkReport:
        """Each client gets `_RESULTS` results before the fault, and as many more after it.

        If the fault loses writes, the transitions that Redis has stored do not follow each other.
        """
        self._talks += 1
        talk = Talk(str(self._talks), self.edges)
        async with open_broker(self.stack.settings) as broker:
            audit = RedisAudit(broker, self.slots)
            watching = asyncio.create_task(audit.watch())
            talk.start(load.clients)
            talk.start(load.resuming, ResumingSession)
            for kind in OTHERS:
                talk.start(load.others, kind)
            election_s = 0.0
            try:
                await talk.get_results(_RESULTS)
                await talk.wait_in_queue(load.waiting)
                began = time.monotonic()
                await fault(talk)
                election_s = time.monotonic() - began
                await talk.get_results(_RESULTS)
            except TimeoutError:
                counts = {s.sid: len(s.results) for s in talk.sessions}
                audit.violations.append(f"sessions do not continue: {counts}")
            talk.over.set()
            _, hung = await asyncio.wait(talk.tasks, timeout=_WITHIN_S)
            audit.violations += [f"{task.get_name()} hangs" for task in hung]
            for task in (watching, *hung):
                task.cancel()
            await asyncio.gather(watching, *hung, return_exceptions=True)
            await audit.no_slot_leaked()
            await audit.read_once()
        audit.violations += talk.check_order(audit.transitions.claimed)
        report = TalkReport(talk.sessions, election_s, audit.violations)
        if not loses_writes:
            report.violations += audit.transitions.violations
        recordings = self.stack.data_dir / "sessions"
        report.violations += await check_sessions(
            talk.sessions, recordings, loses_writes=loses_writes
        )
        return report


@contextmanager
def talking_stack(
    folder: Path, redis: RedisCluster | RedisSentinel, *, slots: int = SLOTS, **settings: object
) -> Iterator[TalkingStack]:
    """At the end no log may hold a traceback."""
    folder.mkdir(parents=True, exist_ok=True)
    server = redis.nodes[0] if isinstance(redis, RedisCluster) else redis.servers[0]
    stack = Stack(folder, server, redis.url)
    settings = _PATIENT | settings
    ports = [free_port(), free_port()]
    try:
        for port in ports:
            stack.edge(port=port, max_connects_per_minute=0, drain_s=0.5, **settings)
        for _ in range(2):
            stack.worker(
                slots=slots, engine_options=_ENGINE, backlog_chunks=10_000, drain_s=0.5, **settings
            )
        stack.recorder(**QUICK_RECORDER, **settings)
        yield TalkingStack(stack, [f"ws://127.0.0.1:{port}" for port in ports], slots)
    finally:
        stack.close(within_s=30)  # without a master, a service takes longer to say goodbye
    assert stack.tracebacks() == []
    assert [service.name for service in stack.services if service.process.poll()] == []
