"""One run: random faults under thirty clients, and a report."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from antiphon.broker.client import open_broker
from support.chaos.audit import RedisAudit, check_sessions
from support.chaos.clients import ChaosSession, Outcome, keep_talking
from support.chaos.plan import Fault, plan
from support.chaos.system import ChaosSystem, chaos_system

CLIENTS = 30
_FINISH_WITHIN_S = 90.0


@dataclass(frozen=True)
class ChaosReport:
    """`violations` is empty when every invariant held."""

    seed: int
    seconds: float
    faults: dict[str, int]
    sessions: list[ChaosSession]
    violations: list[str]

    def __str__(self) -> str:
        outcomes = Counter(f"{s.outcome} {s.code}".strip() for s in self.sessions)
        silences = sorted(session.longest_silence_s for session in self.sessions)
        lines = [
            f"seed {self.seed}, {self.seconds:.0f} s, faults: {self.faults}",
            f"sessions: {dict(outcomes)}",
            f"results: {sum(len(s.results) for s in self.sessions)} of "
            f"{sum(s.sent for s in self.sessions)} chunks, "
            f"resumes: {sum(s.resumes for s in self.sessions)}",
            f"longest silence: median {silences[len(silences) // 2]:.1f} s, "
            f"longest {silences[-1]:.1f} s",
            f"violations: {len(self.violations)}",
        ]
        return "\n".join([*lines, *self.violations])


async def run_chaos(folder: Path, seed: int, seconds: float) -> ChaosReport:
    async with chaos_system(folder) as system, open_broker(system.stack.settings) as broker:
        audit = RedisAudit(broker)
        watching = [asyncio.create_task(audit.watch()), asyncio.create_task(system.supervise())]
        over = asyncio.Event()
        clients = [
            asyncio.create_task(
                keep_talking(str(n), system.client_urls, random.Random(f"{seed}-{n}"), over)
            )
            for n in range(CLIENTS)
        ]
        await _inject_all(system, plan(seed, seconds))
        over.set()
        unfinished = await _finish(clients)
        await audit.no_slot_leaked()
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        await audit.read_once()
        sessions = [session for client in clients if client.done() for session in client.result()]
        violations = [
            *unfinished,
            *system.violations,
            *audit.violations,
            *audit.transitions.violations,
            *await check_sessions(sessions, system.stack.data_dir / "sessions"),
        ]
        return ChaosReport(seed, seconds, system.injected, sessions, violations)


async def _inject_all(system: ChaosSystem, faults: list[Fault]) -> None:
    started = time.monotonic()
    async with asyncio.TaskGroup() as injecting:
        for fault in faults:
            await asyncio.sleep(max(0.0, started + fault.at_s - time.monotonic()))
            print(fault, flush=True)  # noqa: T201 - the log of the run
            injecting.create_task(system.inject(fault))


async def _finish(clients: list[asyncio.Task[list[ChaosSession]]]) -> list[str]:
    _, pending = await asyncio.wait(clients, timeout=_FINISH_WITHIN_S)
    for client in pending:
        client.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return [f"{len(pending)} clients have not ended"] if pending else []


def ended_normally(report: ChaosReport) -> int:
    return sum(session.outcome is Outcome.STOPPED for session in report.sessions)
