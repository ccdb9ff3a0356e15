"""`antiphon down|status|logs`: the stack that `antiphon up` runs in a folder."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from antiphon.cli.broker_access import call_broker, running_stack
from antiphon.cli.common import AsJson, DataDir, Row, command, fail, print_table, rows_table
from antiphon.cli.stack.logs import COLOURS, LOGS_FOLDER, UP_LOG, LogTail, render
from antiphon.cli.stack.stack_file import StackFile
from antiphon.cli.stack.usage import processes_of
from antiphon.cli.terminal import Terminal, echo, echo_json
from antiphon.interrupts import INTERRUPTED
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.registry import QueueSnapshot

KILL_SIGNAL = signal.SIGQUIT
"""Ends `antiphon up` and its services at once."""

SERVICES = ("redis", "edge", "worker", "recorder", "cleanup")
_LOGS = (*COLOURS, UP_LOG)
_POLL_S = 0.2


def down(
    now: Annotated[
        bool, typer.Option("--now", help="End at once, without time for running sessions.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    folder = _folder(data_dir)
    stack = running_stack(folder)
    os.kill(stack.pid, KILL_SIGNAL if now else signal.SIGTERM)
    echo(f"stopping {stack.http_url} (process {stack.pid})")
    try:
        while (still := StackFile.read(folder)) is not None and still.pid == stack.pid:
            time.sleep(_POLL_S)
            if now:
                with suppress(ProcessLookupError):
                    os.kill(stack.pid, KILL_SIGNAL)
    except KeyboardInterrupt:
        echo(f"it is still stopping; `{command('down --now', folder)}` ends it at once")
        raise typer.Exit(INTERRUPTED) from None
    echo("everything has stopped")


def status(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    folder = _folder(data_dir)
    stack = running_stack(folder)
    snapshot = None
    if stack.redis_url:
        snapshot = call_broker(lambda broker: broker.queue.snapshot(), stack.redis_url)
    document = {
        "address": stack.http_url,
        "state": "ready" if stack.ready else "starting",
        "process": stack.pid,
        "data": str(folder),
    }
    services = _services(stack)
    if as_json:
        live = {} if snapshot is None else _live_state(snapshot)
        echo_json({**document, **live, "services": services}, indent=True)
        return
    for name, value in (document | _live_words(snapshot)).items():
        echo(f"{name:<10}{value}")
    echo()
    print_table(rows_table(services))


def logs(
    service: Annotated[
        str | None,
        typer.Argument(
            metavar="<log>",
            help=f"Only this log: {', '.join(_LOGS)}.",
            show_default="all",
            autocompletion=lambda incomplete: [one for one in _LOGS if one.startswith(incomplete)],
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until everything has stopped.")
    ] = False,
    last: Annotated[int, typer.Option("--last", "-n", help="Number of past lines.", min=0)] = 100,
    data_dir: DataDir = None,
) -> None:
    if service is not None and service not in _LOGS:
        fail(f"there is no service {service!r}; choose one of: {', '.join(_LOGS)}", status=2)
    folder = _folder(data_dir)
    tail = LogTail(folder / LOGS_FOLDER, service)
    lines = tail.fresh()
    if not lines and not follow:
        fail(f"there are no logs in {folder / LOGS_FOLDER}; --data-dir names another folder")
    console = Terminal(soft_wrap=True)
    lines = lines[max(0, len(lines) - last) :]
    while True:
        for line in lines:
            console.print(render(*line))
        if not follow:
            return
        runs = StackFile.read(folder) is not None
        lines = tail.fresh()
        if not runs and not lines:
            return
        time.sleep(_POLL_S)


def _folder(data_dir: Path | None) -> Path:
    return data_dir or RecorderSettings().data_dir


def _live_state(snapshot: QueueSnapshot) -> dict[str, Any]:
    """The engines and the number of sessions, for other programs."""
    fields = ("engine", "model", "state", "slots", "used")
    return {
        "workers": [{name: getattr(one, name) for name in fields} for one in snapshot.workers],
        "running": len(snapshot.running),
        "waiting": len(snapshot.waiting),
    }


def _live_words(snapshot: QueueSnapshot | None) -> dict[str, str]:
    if snapshot is None:
        return {"engine": "waits for Redis, which loads its data", "sessions": "none"}
    engines = [f"{one.engine} ({one.model}), {one.state}" for one in snapshot.workers]
    slots = sum(one.slots for one in snapshot.workers)
    return {
        "engine": "; ".join(engines) or "no worker is alive",
        "sessions": f"{len(snapshot.running)} of {slots} slots, {len(snapshot.waiting)} waiting",
    }


def _services(stack: StackFile) -> list[Row]:
    pids = processes_of(stack.pid)
    return [_service_row(name, pids.get(name)) for name in SERVICES]


def _service_row(name: str, pid: int | None) -> Row:
    row: Row = {"service": name, "process": pid, "state": "not here", "up_s": None, "MiB": None}
    with suppress(psutil.Error):
        if pid is not None:
            process = psutil.Process(pid)
            up_s = round(time.time() - process.create_time())
            row |= {"state": "runs", "up_s": up_s}
            row["MiB"] = round(process.memory_info().rss / 2**20, 1)
    return row
