"""`antiphon up`: the whole pipeline on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from antiphon.broker.redis_server.programs import EmbeddedRedisError
from antiphon.broker.service.listening import CannotListen, check_bind
from antiphon.broker.service.logs import hide_in_text
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cli.common import (
    DEFAULT_URL,
    DataDir,
    fail,
    given,
    plain_table,
    print_table,
)
from antiphon.cli.setting_names import check_client_key, check_setting_names
from antiphon.cli.setting_options import Engine, Host, ModelPath, Port, Slots, setting_option
from antiphon.cli.stack.logs import prefix, render
from antiphon.cli.stack.processes import ServiceFailed
from antiphon.cli.stack.stack import (
    DRAIN_S,
    NotReady,
    Stack,
    StackPlan,
    exit_status,
    make_data_folder,
    opened_stack,
    run_guarded,
)
from antiphon.cli.stack.stack_file import StackFile
from antiphon.edge.access.guards import AccessPolicy
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.registry import WorkerRow


def up(
    host: Host = None,
    port: Port = None,
    engine: Engine = None,
    slots: Slots = None,
    model_path: ModelPath = None,
    health_port: Annotated[
        int | None,
        setting_option(
            WorkerSettings,
            "health_port",
            "Port of the worker's health page; 0: any free port for every service.",
        ),
    ] = None,
    data_dir: DataDir = None,
    redis_url: Annotated[
        str | None,
        typer.Option(help=r"Use this Redis instead of a private one. \[env: ANTIPHON_REDIS_URL]"),
    ] = None,
    redis_port: Annotated[
        int,
        typer.Option(
            help="Port for other programs of this machine, without a password; 0: Unix socket only."
        ),
    ] = 0,
) -> None:
    flags = given(host=host, port=port, engine=engine, slots=slots, model_path=model_path)
    flags |= given(health_port=health_port, data_dir=data_dir)
    try:
        status = run_stack(plan_from(redis_url, redis_port, **flags))
    except (EmbeddedRedisError, EngineLoadError, CannotListen) as error:
        fail(str(error), exit_status(error))
    raise typer.Exit(status)


def plan_from(redis_url: str | None, redis_port: int, **flags: Any) -> StackPlan:
    """Flags, then `ANTIPHON_*`, then `antiphon.toml`. Raises InvalidSettings."""
    check_setting_names()
    edge, worker = EdgeSettings(**flags, **given(redis_url=redis_url)), WorkerSettings(**flags)
    recorder, cleanup = RecorderSettings(**flags), CleanupSettings(**flags)
    check_client_key(edge)
    AccessPolicy(edge, edge.host)
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
        redis_url=configured,
        redis_port=redis_port,
        drain_s=worker.drain_s if "drain_s" in worker.model_fields_set else DRAIN_S,
        stop_grace_s=worker.stop_grace_s,
        engine_options=worker.engine_options,
    )


def run_stack(plan: StackPlan) -> int:
    """Run until a signal, or until a service fails too often; returns the exit status.

    Raises EmbeddedRedisError, EngineLoadError, CannotListen.
    """
    stack_here = StackFile.read(plan.data_dir)
    if stack_here is not None and stack_here.edge_url == plan.edge_url:
        fail(
            f"`antiphon up` runs in this folder already, at {plan.http_url} (process "
            f"{stack_here.pid}): talk to it with `antiphon talk{_url_flag(plan)}`"
        )
    for name, host, port in (
        ("the edge (--host, --port)", plan.host, plan.port),
        ("the worker's health page (--health-port)", "127.0.0.1", plan.health_port),
        ("the recorder's health page", "127.0.0.1", plan.recorder_health_port),
        ("the cleanup job's health page", "127.0.0.1", plan.cleanup_health_port),
    ):
        check_bind(name, host, port)
    make_data_folder(plan.data_dir)
    console = Console(highlight=False, soft_wrap=True)
    with opened_stack(plan, lambda name, line: console.print(render(name, line))) as stack:
        stack_file = StackFile(pid=os.getpid(), redis_url=stack.redis_url, edge_url=plan.edge_url)
        with stack_file.published(plan.data_dir):
            return asyncio.run(_Foreground(stack, console).run())


def _on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` on SIGINT, SIGTERM and SIGHUP. An ignored signal stays ignored, as under nohup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop)


class _Foreground:
    """One run of the stack in a terminal."""

    def __init__(self, stack: Stack, console: Console) -> None:
        self._stack = stack
        self._console = console
        self._stop = asyncio.Event()

    async def run(self) -> int:
        _on_signals(self._request_stop)
        self._print(f"starting; recordings go to {self._stack.plan.data_dir}")
        status = 0
        async with self._stack.running() as guard:
            greeting = asyncio.create_task(self._greet())
            try:
                await run_guarded(guard, run_guarded(greeting, self._stop.wait()))
            except (ServiceFailed, NotReady) as error:
                self._print(str(error), style="bold red")
                status = exit_status(error)
            greeting.cancel()
            self._print("stopping in order (Ctrl-C again: at once)")
        self._print("everything has stopped")
        return status

    def _request_stop(self) -> None:
        if self._stop.is_set():
            self._stack.kill()
        self._stop.set()

    async def _greet(self) -> None:
        worker = await self._stack.wait_until_ready()  # its log is on the terminal already
        print_table(status_table(self._stack, worker))
        self._console.print(addresses(self._stack.plan))

    def _print(self, text: str, style: str = "bold") -> None:
        self._console.print(prefix("up").append(text, style=style))


def status_table(stack: Stack, worker: WorkerRow) -> Table:
    plan = stack.plan
    about = {
        "redis": hide_in_text(stack.redis_url),
        "edge": plan.edge_url,
        "worker": f"engine {worker.engine}, {worker.model}, {worker.slots} slots, {worker.device}",
        "recorder": str(plan.data_dir / "sessions"),
        "cleanup": "keeps the recordings in bounds",
    }
    table = plain_table("service", "process", "")
    for name, text in about.items():
        table.add_row(prefix(name), str(stack.pids[name] or "not ours"), text)
    return table


def addresses(plan: StackPlan) -> str:
    return (
        f"\nOpen in a browser:   {plan.http_url}\n"
        f"Talk to it:          antiphon talk{_url_flag(plan)}\n"
        f"API reference:       {plan.http_url}/docs\n"
        "Inspect it:          antiphon queue | sessions | workers | edges | events\n"
        "Stop it:             Ctrl-C\n"
    )


def _url_flag(plan: StackPlan) -> str:
    return "" if plan.edge_url == DEFAULT_URL else f" --url {plan.edge_url}"
