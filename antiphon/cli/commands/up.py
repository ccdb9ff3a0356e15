"""`antiphon up`: the whole pipeline on this machine, until Ctrl-C."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from antiphon.broker.redis_server.embedded import EmbeddedRedisError
from antiphon.broker.service.listening import CannotListen, free_port
from antiphon.broker.service.logs import hide_in_text
from antiphon.broker.settings import PRIVATE_FOLDER, SESSIONS_FOLDER
from antiphon.cli.commands.background import KILL_SIGNAL
from antiphon.cli.common import (
    DEFAULT_URL,
    ERROR_PREFIX,
    DataDir,
    command,
    fail,
    given,
    plain_table,
    print_table,
)
from antiphon.cli.settings import (
    Engine,
    Host,
    Language,
    LlmKeyFile,
    LlmModel,
    LlmUrl,
    ModelPath,
    Port,
    Quantize,
    Slots,
    Voice,
    check_client_key,
    check_setting_names,
    setting_option,
)
from antiphon.cli.stack.logs import (
    LOGS_FOLDER,
    UP_LOG,
    LogFiles,
    LogTail,
    fresh_log,
    prefix,
    render,
)
from antiphon.cli.stack.processes import ServiceFailed
from antiphon.cli.stack.stack import (
    NotReady,
    Stack,
    StackPlan,
    StackSettings,
    configured_redis,
    exit_status,
    make_data_folder,
    open_stack,
    run_guarded,
)
from antiphon.cli.stack.stack_file import StackFile, StackRuns, default_edge_url, publish_stack
from antiphon.cli.terminal import Terminal, echo_json
from antiphon.edge.access.guards import AccessPolicy
from antiphon.inference_worker.engines.types import EngineLoadError
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.interrupts import INTERRUPTED
from antiphon.shared_schemas.registry import WorkerRow

_POLL_S = 0.1


def up(
    host: Host = None,
    port: Port = None,
    engine: Engine = None,
    slots: Slots = None,
    model_path: ModelPath = None,
    quantize: Quantize = None,
    language: Language = None,
    voice: Voice = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_key_file: LlmKeyFile = None,
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
            help="Port for other programs of this machine, without a password; 0: Unix socket only.",
            min=0,
            max=65535,
        ),
    ] = 0,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", "-d", help="Run in the background; `antiphon down` stops everything."
        ),
    ] = False,
    in_background: Annotated[bool, typer.Option("--in-background", hidden=True)] = False,
) -> None:
    flags = given(host=host, port=port, engine=engine, slots=slots, model_path=model_path)
    flags |= given(
        language=language,
        quantize=quantize,
        voice=voice,
        health_port=health_port,
        data_dir=data_dir,
    )
    flags |= given(llm_url=llm_url, llm_model=llm_model, llm_key_file=llm_key_file)
    try:
        plan = plan_from(redis_url, redis_port, **flags)
        if not plan.port:  # the services and the greeting need the number
            plan = replace(plan, port=free_port())
        if detach and not in_background:
            start_in_background(plan)
            return
        status = run_stack(plan, in_background=in_background)
    except (EmbeddedRedisError, EngineLoadError, CannotListen, StackRuns) as error:
        fail(str(error), exit_status(error))
    except (ServiceFailed, NotReady) as error:
        fail(f"{error}; `{command('logs', data_dir)}` shows more", exit_status(error))
    raise typer.Exit(status)


def plan_from(redis_url: str | None, redis_port: int, **flags: Any) -> StackPlan:
    """Flags, then `ANTIPHON_*`, then `antiphon.toml`. Raises InvalidSettings."""
    check_setting_names()
    settings = StackSettings.of(**flags, **given(redis_url=redis_url))
    edge = settings.edge
    check_client_key(edge)
    AccessPolicy(edge, edge.host)
    return StackPlan.of(settings, redis_url=configured_redis(edge), redis_port=redis_port)


def check_folder_is_free(plan: StackPlan) -> None:
    """Raises StackRuns if the folder has a running stack."""
    running = StackFile.read(plan.data_dir)
    if running is not None:
        raise StackRuns(
            f"`antiphon up` runs in this folder already, at {running.http_url} (process "
            f"{running.pid}): talk to it with `{_talk(running.edge_url)}`, stop it with "
            f"`{command('down', plan.data_dir)}`, or choose another --data-dir"
        )


def start_in_background(plan: StackPlan) -> None:
    """Start this command again in a separate process, and wait until it is ready.

    Raises StackRuns, InvalidSettings.
    """
    check_folder_is_free(plan)
    make_data_folder(plan.data_dir)
    folder = plan.data_dir / LOGS_FOLDER
    folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
    with fresh_log(folder, UP_LOG) as output:
        child = subprocess.Popen(
            # The port again: if any was asked for, this process has chosen it.
            [
                *(sys.executable, "-P", "-m", "antiphon", *sys.argv[1:], "--in-background"),
                *("--port", str(plan.port)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    console, last = Terminal(soft_wrap=True), ""
    tail = LogTail(folder, UP_LOG)
    try:
        while True:
            ended = child.poll()
            for _, line in tail.fresh():
                if not line.startswith(ERROR_PREFIX):
                    console.print(render(UP_LOG, line))
                last = line
            stack = StackFile.read(plan.data_dir)
            if stack is not None and stack.pid == child.pid and stack.ready:
                break
            if ended is not None:
                more = command("logs", plan.data_dir)
                failed = f"it ended while it started; `{more}` shows more"
                reason = last.removeprefix(ERROR_PREFIX) if ERROR_PREFIX in last else failed
                fail(reason, max(ended, 1))
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise typer.Exit(INTERRUPTED) from None
    console.print(addresses(plan, detached=True))


def run_stack(plan: StackPlan, *, in_background: bool = False) -> int:
    """Run until a signal, or until a service fails too often; returns the exit status.

    Raises EmbeddedRedisError, EngineLoadError, CannotListen, StackRuns; in the background also
    ServiceFailed and NotReady.
    """
    check_folder_is_free(plan)
    for address in plan.addresses:
        address.check()
    make_data_folder(plan.data_dir)
    view = BackgroundView() if in_background else TerminalView()
    folder = plan.data_dir / LOGS_FOLDER
    with publish_stack(plan.data_dir) as publish, LogFiles(folder) as logs:
        if not in_background:
            (folder / f"{UP_LOG}.log").unlink(missing_ok=True)

        def take(service: str, line: str) -> None:
            logs.take(service, line)
            view.take(service, line)

        file = StackFile(pid=os.getpid(), redis_url="", edge_url=plan.edge_url)
        publish(file)
        with open_stack(plan, take) as stack:
            file = replace(file, redis_url=stack.redis_url)
            publish(file)
            run = _Run(stack, view, lambda: publish(replace(file, ready=True)))
            status = asyncio.run(run.run())
            view.close()
            return status


def _on_signals(handlers: Mapping[signal.Signals, Callable[[], None]]) -> None:
    """Those of a terminal stay ignored if they are, as under nohup and in the background of a script.

    Such a script ignores SIGQUIT too, which is the signal of `down --now`.
    """
    for number, handler in handlers.items():
        of_terminal = number in (signal.SIGINT, signal.SIGHUP)
        if not of_terminal or signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, handler)


class TerminalView:
    """Shows everything on the terminal, which may be a file or a pipe."""

    def __init__(self) -> None:
        self._console = Terminal(soft_wrap=True)

    def take(self, service: str, line: str) -> None:
        with self._printing():
            self._console.print(render(service, line))

    def say(self, text: str) -> None:
        with self._printing():
            self._console.print(prefix(UP_LOG).append(text, style="bold"))

    def stage(self, service: str, stage: str) -> None:
        """The log of the service is on the terminal already."""

    def failed(self, error: Exception) -> None:
        with self._printing():
            self._console.print(prefix(UP_LOG).append(str(error), style="bold red"))

    def greet(self, stack: Stack, worker: WorkerRow) -> None:
        with self._printing():
            print_table(status_table(stack, worker))
            self._console.print(addresses(stack.plan))

    def close(self) -> None:
        """Drop what a full disk has not taken: at exit it would be an error."""
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    @contextmanager
    def _printing(self) -> Iterator[None]:
        """A full disk does not end the stack. A reader that has ended stops it, like a closed terminal."""
        try:
            yield
        except SystemExit:  # of rich, which has replaced the pipe with /dev/null
            signal.raise_signal(signal.SIGHUP)
        except OSError:
            self._console = Terminal(soft_wrap=True)  # the other one would print its lines again


class BackgroundView(TerminalView):
    """Writes what concerns the whole stack as log entries to stdout, which is a file."""

    def take(self, service: str, line: str) -> None:
        """The files have it."""

    def say(self, text: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with suppress(OSError):  # a full disk does not end the stack
            echo_json({"timestamp": now, "event": text})

    def stage(self, service: str, stage: str) -> None:
        self.say(f"{service}: {stage}")

    def failed(self, error: Exception) -> None:
        """The last line of the log says why, after everything has stopped."""

    def greet(self, stack: Stack, worker: WorkerRow) -> None:
        """The process that waits for this one prints the addresses."""


class _Run:
    """One run of the stack until it is stopped."""

    def __init__(self, stack: Stack, view: TerminalView, on_ready: Callable[[], None]) -> None:
        self._stack = stack
        self._view = view
        self._on_ready = on_ready
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Raises ServiceFailed and NotReady in the background."""
        stop = self._stop.set
        _on_signals(
            {
                signal.SIGINT: self._interrupt,
                signal.SIGTERM: stop,
                signal.SIGHUP: stop,
                KILL_SIGNAL: self._kill,
            }
        )
        self._view.say(f"starting; recordings go to {self._stack.plan.data_dir}")
        failure: ServiceFailed | NotReady | None = None
        async with self._stack.running() as guard:
            greeting = asyncio.create_task(self._greet())
            try:
                await run_guarded(guard, run_guarded(greeting, self._stop.wait()))
            except (ServiceFailed, NotReady) as error:
                self._view.failed(error)
                failure = error
            greeting.cancel()
            self._view.say("stopping in order (Ctrl-C again: at once)")
        self._view.say("everything has stopped")
        if failure is None:
            return 0
        if isinstance(self._view, BackgroundView):
            raise failure
        return exit_status(failure)

    def _interrupt(self) -> None:
        if self._stop.is_set():
            self._kill()
        self._stop.set()

    def _kill(self) -> None:
        self._stop.set()
        self._stack.kill()

    async def _greet(self) -> None:
        worker = await self._stack.wait_until_ready(self._view.stage)
        self._view.greet(self._stack, worker)
        self._on_ready()


def status_table(stack: Stack, worker: WorkerRow) -> Table:
    plan = stack.plan
    about = {
        "redis": hide_in_text(stack.redis_url),
        "edge": plan.edge_url,
        "worker": f"engine {worker.engine}, {worker.model}, {worker.slots} slots, {worker.device}",
        "recorder": str(plan.data_dir / SESSIONS_FOLDER),
        "cleanup": "keeps the recordings in bounds",
    }
    table = plain_table("service", "process", "")
    for name, text in about.items():
        table.add_row(prefix(name), str(stack.pids[name] or "not ours"), text)
    return table


def addresses(plan: StackPlan, *, detached: bool = False) -> str:
    """Where the stack is, and what one can do with it: each command works as it is printed."""

    def lines(*commands: str) -> str:
        return f"\n{'':21}".join(command(words, plan.data_dir) for words in commands)

    watch = f"Watch it:            {lines('status', 'logs -f')}\n" if detached else ""
    return (
        f"\nOpen in a browser:   {plan.http_url}\n"
        f"Talk to it:          {_talk(plan.edge_url)}\n"
        f"API reference:       {plan.http_url}/docs\n"
        f"{watch}"
        f"Inspect it:          {lines('queue', 'sessions', 'workers', 'edges', 'events')}\n"
        f"Stop it:             {lines('down') if detached else 'Ctrl-C'}\n"
    )


def _talk(url: str) -> str:
    """Without the URL only where `talk` finds this edge by itself."""
    return command("talk" if url == default_edge_url() == DEFAULT_URL else f"talk --url {url}")
