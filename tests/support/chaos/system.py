"""Two edges, two workers, a recorder and Redis, with a proxy on every connection, and their faults."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM

from support.chaos.plan import EDGES, EVERYTHING, RECORDER, REDIS, WORKERS, Fault, FaultKind
from support.ports import free_port
from support.recorder_process import QUICK as QUICK_RECORDER
from support.stack import Service, Stack, new_stack, until
from support.tcp_proxy import TcpProxy, tcp_proxy

GRACE_S = 20.0
SLOTS = 12
_DELAY_S = 0.1
_SIMULATED = '{"prepare_ms":20,"prefill_ms":10,"listen_ms":10,"speak_ms":30,"finalize_ms":5}'
_COMMON = {"lease_s": 2, "heartbeat_ttl_s": 2, "resume_grace_s": GRACE_S}
_STOP_WITHIN_S = 30.0


@dataclass
class Member:
    """A process, and how to start it again. While `down`, its end is part of a fault."""

    name: str
    module: str
    settings: dict[str, object]
    redis: TcpProxy
    clients: TcpProxy | None = None
    service: Service | None = None
    down: bool = False
    starts: int = 0


@dataclass
class ChaosSystem:
    """`violations`: processes that ended by themselves or did not stop."""

    stack: Stack
    members: dict[str, Member] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    injected: dict[str, int] = field(default_factory=dict)
    _busy: set[tuple[str, str]] = field(default_factory=set)

    @property
    def client_urls(self) -> list[str]:
        """Where clients connect: the proxies in front of the edges."""
        fronts = [self.members[name].clients for name in EDGES]
        return [f"ws://{front.address}" for front in fronts if front is not None]

    def start(self, member: Member) -> None:
        member.service = self.stack.start(
            member.module, redis_url=member.redis.url, **member.settings
        )
        member.starts += 1

    async def inject(self, fault: Fault) -> None:
        """Carries out one fault to its end, unless a similar one of the target is in progress."""
        layer = "process" if fault.kind in _OF_PROCESSES else str(fault.kind)
        if (fault.target, layer) in self._busy:
            return
        self._busy.add((fault.target, layer))
        self.injected[str(fault.kind)] = self.injected.get(str(fault.kind), 0) + 1
        try:
            if fault.target == REDIS:
                await self._inject_into_redis(fault)
            else:
                await self._carry_out(fault)
        finally:
            self._busy.discard((fault.target, layer))

    async def _carry_out(self, fault: Fault) -> None:
        members = (
            list(self.members.values())
            if fault.target == EVERYTHING
            else [self.members[fault.target]]
        )
        match fault.kind:
            case FaultKind.KILL | FaultKind.STOP:
                await self._replace(members[0], fault)
            case FaultKind.FREEZE:
                await _freeze(members[0], fault.for_s)
            case FaultKind.RESET | FaultKind.CUT | FaultKind.DELAY:
                await _disturb([member.redis for member in members], fault)
            case FaultKind.RESET_CLIENTS | FaultKind.CUT_CLIENTS:
                await _disturb([m.clients for m in members if m.clients is not None], fault)

    async def _inject_into_redis(self, fault: Fault) -> None:
        redis = self.stack.redis
        if fault.kind is FaultKind.KILL:
            await asyncio.to_thread(redis.kill)
            await asyncio.sleep(fault.for_s)
            await asyncio.to_thread(redis.start)
        else:
            redis.freeze()
            await asyncio.sleep(fault.for_s)
            redis.thaw()

    async def _replace(self, member: Member, fault: Fault) -> None:
        service = member.service
        assert service is not None
        member.down = True
        if fault.kind is FaultKind.KILL:
            service.process.kill()
        else:
            service.process.send_signal(SIGTERM)
        try:
            await until(lambda: service.process.poll() is not None, within_s=_STOP_WITHIN_S)
        except TimeoutError:
            self.violations.append(f"{member.name} did not stop")
            service.kill()
        await asyncio.sleep(fault.for_s)
        self.start(member)
        member.down = False

    async def supervise(self) -> None:
        """Starts processes again, as a service manager does.

        None may end by itself, unless it cannot start because Redis does not answer.
        """
        while True:
            await asyncio.sleep(0.5)
            for member in self.members.values():
                service = member.service
                if member.down or service is None or service.process.poll() is None:
                    continue
                if "_cannot_start" not in service.log:
                    self.violations.append(
                        f"{member.name} ended with {service.process.returncode}: "
                        f"{service.log_path.name} {_last_line(service)}"
                    )
                self.start(member)


_OF_PROCESSES = (FaultKind.KILL, FaultKind.STOP, FaultKind.FREEZE)


async def _freeze(member: Member, for_s: float) -> None:
    service = member.service
    assert service is not None
    service.freeze()
    await asyncio.sleep(for_s)
    service.thaw()


async def _disturb(proxies: Iterable[TcpProxy], fault: Fault) -> None:
    for proxy in proxies:
        match fault.kind:
            case FaultKind.RESET | FaultKind.RESET_CLIENTS:
                proxy.reset()
            case FaultKind.DELAY:
                proxy.delay_s = _DELAY_S
                await asyncio.sleep(fault.for_s)
                proxy.delay_s = 0.0
            case _:
                proxy.freeze()
                await asyncio.sleep(fault.for_s)
                proxy.thaw()


def _last_line(service: Service) -> str:
    return (service.log.splitlines() or ["no log"])[-1][-300:]


@asynccontextmanager
async def chaos_system(folder: Path) -> AsyncIterator[ChaosSystem]:
    """All processes have started. At the end no log may hold a traceback."""
    with new_stack(folder, aof=True) as stack:
        async with AsyncExitStack() as closing:
            closing.callback(stack.close)
            system = ChaosSystem(stack)
            for name in (*EDGES, *WORKERS, RECORDER):
                redis = await closing.enter_async_context(tcp_proxy(stack.redis.port))
                member = await _member(name, redis, closing)
                system.members[name] = member
                system.start(member)
            await _await_start(system)
            yield system


async def _member(name: str, redis: TcpProxy, closing: AsyncExitStack) -> Member:
    if name in EDGES:
        port = free_port()
        clients = await closing.enter_async_context(tcp_proxy(port))
        settings = {**_COMMON, "port": port, "drain_s": 0.5, "max_connects_per_minute": 0}
        return Member(name, "edge", settings, redis, clients)
    if name in WORKERS:
        engine = {"engine": "simulated", "engine_options": _SIMULATED, "slots": SLOTS}
        settings = {**_COMMON, **engine, "drain_s": 0.5, "backlog_chunks": 10_000}
        return Member(name, "inference_worker", settings, redis)
    return Member(name, "recorder_service", {**QUICK_RECORDER, "recorder_silence_s": 3}, redis)


async def _await_start(system: ChaosSystem) -> None:
    for member in system.members.values():
        service = member.service
        assert service is not None
        if member.module == "edge":
            await until(lambda m=member: _listens(m), within_s=60, every_s=0.1)
        elif member.module == "inference_worker":
            await until(lambda s=service: "worker_ready" in s.log, within_s=60, every_s=0.1)


async def _listens(edge: Member) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", edge.settings["port"])
    except OSError:
        return False
    writer.close()
    return True
