"""The stack in the foreground of a terminal: status, addresses, logs, an orderly end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cli.log_lines import prefix, render
from antiphon.cli.processes import ServiceFailed
from antiphon.cli.readiness import NotReady, wait_until_ready
from antiphon.cli.run_file import RunFile
from antiphon.cli.stack import DRAIN_S, Stack, StackPlan, private_redis
from antiphon.cli.tables import plain_table, print_table
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.registry import WorkerRow

READY_TIMEOUT_S = 180.0


class CannotRun(Exception):
    """The stack cannot run here; the message says why."""


def plan_from(redis_url: str | None, redis_port: int, **flags: Any) -> StackPlan:
    """Flags over `ANTIPHON_*` over `antiphon.toml`. Raises pydantic's ValidationError."""
    given = {name: value for name, value in flags.items() if value is not None}
    edge, worker = EdgeSettings(**given), WorkerSettings(**given)
    recorder, cleanup = RecorderSettings(**given), CleanupSettings(**given)
    any_port = worker.health_port == 0
    configured = edge.redis_url if "redis_url" in edge.model_fields_set else None
    return StackPlan(
        data_dir=recorder.data_dir.resolve(),
        host=edge.host,
        port=edge.port,
        engine=worker.engine,
        slots=worker.slots,
        model_path=worker.model_path,
        health_port=worker.health_port,
        recorder_health_port=0 if any_port else recorder.recorder_health_port,
        cleanup_health_port=0 if any_port else cleanup.cleanup_health_port,
        redis_url=redis_url or configured,
        redis_port=redis_port,
        drain_s=worker.drain_s if "drain_s" in worker.model_fields_set else DRAIN_S,
    )


def run_stack(plan: StackPlan) -> int:
    """Run until a signal or until a service is given up; returns the exit status.

    Raises CannotRun, EmbeddedRedisError.
    """
    for name, host, port in (
        ("edge", plan.host, plan.port),
        ("worker's health page", "127.0.0.1", plan.health_port),
        ("recorder's health page", "127.0.0.1", plan.recorder_health_port),
        ("cleanup's health page", "127.0.0.1", plan.cleanup_health_port),
    ):
        _check_port(name, host, port)
    plan.data_dir.mkdir(parents=True, exist_ok=True)
    console = Console(highlight=False, soft_wrap=True)
    with private_redis(plan) as redis:
        stack = Stack(plan, redis, lambda name, line: console.print(render(name, line)))
        run_file = RunFile(pid=os.getpid(), redis_url=stack.redis_url, edge_url=plan.edge_url)
        with run_file.published(plan.data_dir):
            return asyncio.run(_Foreground(stack, console).run())


def _check_port(name: str, host: str, port: int) -> None:
    if port == 0:
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CannotRun(
                f"port {port} for the {name} cannot be used ({error.strerror}); choose another"
            ) from error


class _Foreground:
    """One run of the stack under a terminal."""

    def __init__(self, stack: Stack, console: Console) -> None:
        self._stack = stack
        self._console = console
        self._stop = asyncio.Event()

    async def run(self) -> int:
        _on_signals(self._asked_to_stop)
        self._say(f"starting; recordings go to {self._stack.plan.data_dir}")
        status = 0
        async with self._stack.running() as guard:
            stopping = asyncio.create_task(self._stop.wait())
            greeting = asyncio.create_task(self._greet())
            await asyncio.wait({guard, stopping, greeting}, return_when=asyncio.FIRST_COMPLETED)
            if greeting.done() and not greeting.exception():
                await asyncio.wait({guard, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (greeting, guard):
                status |= self._complain(task)
            greeting.cancel()
            stopping.cancel()
            self._say("stopping in order (Ctrl-C again: at once)")
        self._say("everything has stopped")
        return status

    def _asked_to_stop(self) -> None:
        if self._stop.is_set():
            self._stack.kill()
        self._stop.set()

    async def _greet(self) -> None:
        worker = await wait_until_ready(self._stack, _in_the_log, READY_TIMEOUT_S)
        print_table(status_table(self._stack, worker))
        self._console.print(addresses(self._stack.plan))

    def _complain(self, task: asyncio.Task[None]) -> int:
        if not task.done() or task.cancelled():
            return 0
        error = task.exception()
        if isinstance(error, ServiceFailed | NotReady):
            self._say(str(error), style="bold red")
            return 1
        if error is not None:
            raise error
        return 0

    def _say(self, text: str, style: str = "bold") -> None:
        self._console.print(prefix("up").append(text, style=style))


def _in_the_log(_service: str, _what: str) -> None:
    """Progress needs no lines of its own where the services' logs are shown."""


def status_table(stack: Stack, worker: WorkerRow) -> Table:
    """What runs, as which process, and what it is there for."""
    plan = stack.plan
    about = {
        "redis": stack.redis_url,
        "edge": plan.edge_url,
        "worker": f"engine {worker.engine}, {worker.model}, {worker.slots} slots, {worker.device}",
        "recorder": str(plan.data_dir / "sessions"),
        "cleanup": "keeps the recordings in bounds",
    }
    pids = {name: service.pid for name, service in stack.services.items()}
    pids["redis"] = stack.redis_pid
    table = plain_table("service", "process", "")
    for name, text in about.items():
        table.add_row(prefix(name), str(pids[name] or "not ours"), text)
    return table


def addresses(plan: StackPlan) -> str:
    """What to do with a running stack."""
    return (
        f"\nTalk to it:      antiphon talk question.wav --url {plan.edge_url}\n"
        f"Its API:         {plan.http_url}/docs\n"
        "Look inside:     antiphon queue | sessions | workers | edges | events\n"
        "Stop it:         Ctrl-C\n"
    )


def _on_signals(act: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            loop.add_signal_handler(number, act)
