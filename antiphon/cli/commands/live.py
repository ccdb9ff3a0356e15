"""`antiphon queue|sessions|workers|edges|events`: what happens in a running system now."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.settings import BrokerSettings
from antiphon.cli.broker_access import broker_settings, call_broker, command_there
from antiphon.cli.commands.admin import cancel
from antiphon.cli.common import (
    UNLIMITED_WIDTH,
    AsJson,
    RedisUrl,
    Row,
    StackDir,
    Wide,
    command_group,
    print_table,
    rows_table,
)
from antiphon.cli.terminal import Terminal, echo, echo_json
from antiphon.shared_schemas.registry import SessionEvent, SessionRow

Watch = Annotated[
    bool,
    typer.Option(
        "--watch", "-w", help="Refresh every second until Ctrl-C (with --json: a line each)."
    ),
]
ReadRows = Callable[[Broker], Awaitable[list[Row]]]
ViewRows = Callable[[list[Row]], RenderableType]

_DETAILS = ("reason", "ask", "attempt", "worker", "edge")
PERIOD_S = 1.0


def live_table(
    empty: str, read_rows: ReadRows, *shown: str, service: str = ""
) -> Callable[..., None]:
    """A command that prints rows, or `empty` if there are none, and how to start the `service`.

    Without --wide it prints the columns `shown`, which fit into 80 columns; none: it prints all.
    """

    def show(
        context: typer.Context,
        as_json: AsJson = False,
        watch: Watch = False,
        wide: Wide = False,
        redis_url: RedisUrl = None,
        data_dir: StackDir = None,
    ) -> None:
        if context.invoked_subcommand is not None:
            return
        only = () if wide else shown

        def said_if_empty() -> str:
            return empty if not service else _start(empty, service, redis_url, data_dir)

        def view(rows: list[Row]) -> RenderableType:
            return rows_table(rows, only) if rows else Text(said_if_empty())

        if watch:
            watching = partial(_watch, view, read_rows, as_json=as_json)
            call_broker(watching, redis_url, data_dir)
            return
        rows = call_broker(read_rows, redis_url, data_dir)
        if as_json:
            echo_json(rows, indent=True)
        elif rows:
            print_table(rows_table(rows, only))
        else:
            echo(said_if_empty())

    return show


def _start(empty: str, service: str, redis_url: str | None, data_dir: Path | None) -> str:
    """With the command that starts the service at the same Redis."""
    url = broker_settings(redis_url, data_dir).redis_url
    there = None if url == BrokerSettings().redis_url else url
    return f"{empty}; start one with `{command_there(service, there, None)}`"


async def _watch(view: ViewRows, read_rows: ReadRows, broker: Broker, *, as_json: bool) -> None:
    """Until interrupted: every second a line of JSON, or the rows, on a terminal as a screen that is redrawn.

    The lines of JSON end with BrokerError if Redis does not answer; the rows show the outage.
    """
    if as_json:
        while True:
            echo_json(await read_rows(broker))
            await asyncio.sleep(PERIOD_S)
    if not Terminal().is_terminal:
        console = Terminal(width=UNLIMITED_WIDTH)
        while True:
            console.print(await _view(view, read_rows, broker))
            await asyncio.sleep(PERIOD_S)
    with Live(console=Terminal(), screen=True, auto_refresh=False) as screen:
        while True:
            screen.update(await _view(view, read_rows, broker), refresh=True)
            await asyncio.sleep(PERIOD_S)


async def _view(view: ViewRows, read_rows: ReadRows, broker: Broker) -> RenderableType:
    clock = f"{datetime.now().astimezone():%H:%M:%S}"
    try:
        rows = await read_rows(broker)
    except BrokerUnavailable as error:
        return Text(f"{clock}  {error}", style="red")
    return Group(Text(f"{clock}  every {PERIOD_S:g} s, Ctrl-C ends", style="dim"), view(rows))


async def queue_rows(broker: Broker) -> list[Row]:
    """Waiting sessions in the order of the queue."""
    snapshot = await broker.queue.snapshot()
    return [
        {
            "position": one.position,
            "session": one.sid,
            "kind": one.kind,
            "state": one.state,
            "ticket": one.ticket,
            "waited_s": _seconds(snapshot.at - one.queued_at),
            "eta_s": None if one.eta_s is None else round(one.eta_s, 1),
            "reason": one.reason,
        }
        for one in snapshot.waiting
    ]


async def session_rows(broker: Broker) -> list[Row]:
    """Running sessions, then waiting ones."""
    snapshot = await broker.queue.snapshot()
    live = [one.sid for one in snapshot.running] + [one.sid for one in snapshot.waiting]
    rows = [await broker.sessions.get(sid) for sid in live]
    return [_session_row(row, snapshot.at) for row in rows if row is not None]


def _session_row(row: SessionRow, now: int) -> Row:
    return {
        "session": row.sid,
        "kind": row.kind,
        "state": row.state,
        "worker": row.worker or None,
        "edge": row.edge,
        "attempt": row.attempt,
        "epoch": row.epoch,
        "waited_s": _seconds((row.assigned_at or now) - row.queued_at),
        "running_s": _seconds(now - row.assigned_at) if row.assigned_at else None,
        "recording": row.recording,
    }


async def worker_rows(broker: Broker) -> list[Row]:
    snapshot = await broker.queue.snapshot()
    return [
        {
            "worker": row.id,
            **{name: getattr(row, name) for name in ("state", "engine", "model", "slots", "used")},
            "kinds": sorted(row.kinds),
            "device": row.device,
            "address": row.address,
            "silent_s": _seconds(snapshot.at - row.beat_at),
            "detail": row.detail,
            "counters": row.counters,
        }
        for row in snapshot.workers
    ]


async def edge_rows(broker: Broker) -> list[Row]:
    snapshot = await broker.registry.edges()
    return [
        {"edge": row.id, "sessions": row.sessions, "silent_s": _seconds(snapshot.at - row.beat_at)}
        for row in snapshot.edges
    ]


def _seconds(ms: int) -> float:
    return round(max(0, ms) / 1000, 1)


queue = command_group(
    live_table(
        *("no session waits", queue_rows),
        *("position", "session", "kind", "waited_s", "eta_s", "reason"),
    ),
    cancel,
)
sessions = live_table(
    *("no session waits or runs", session_rows),
    *("session", "kind", "state", "waited_s", "running_s"),
)
workers = live_table(
    *("no worker is connected", worker_rows),
    *("worker", "state", "engine", "slots", "used", "silent_s", "detail"),
    service="worker",
)
edges = live_table("no edge is connected", edge_rows, service="edge")


def events(
    last: Annotated[
        int,
        typer.Option(
            "--last", "-n", help="Number of past events to show first.", min=0, max=100_000
        ),
    ] = 20,
    session: Annotated[str | None, typer.Option(help="Show only this session.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", "--follow", "-f", help="Continue with new events.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per line.")] = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="Show milliseconds, worker, edge and attempt.")
    ] = False,
    redis_url: RedisUrl = None,
    data_dir: StackDir = None,
) -> None:
    shown = 0

    def take(event: SessionEvent) -> None:
        nonlocal shown
        if session is None or event.sid == session:
            shown += 1
            if as_json:
                echo_json(asdict(event))
            else:
                echo(event_line(event, wide=wide))

    async def read(broker: Broker) -> None:
        past = await broker.events.recent(max(last, 1), session)
        for event in past[len(past) - min(last, len(past)) :]:
            take(event)
        if watch:
            async for fresh in broker.events.follow(past[-1].id if past else "0-0"):
                for event in fresh:
                    take(event)

    call_broker(read, redis_url, data_dir)
    if not shown and not as_json:
        echo(f"no event of session {session}" if session else "no events")


def event_line(event: SessionEvent, *, wide: bool = False) -> str:
    """Time, session, kind, new state, and reason or command; with `wide`, all details."""
    clock = f"{datetime.fromtimestamp(event.at / 1000).astimezone():%H:%M:%S}"
    details = event.reason or event.ask or ""
    if wide:
        row = asdict(event)
        clock += f".{event.at % 1000:03}"
        details = " ".join(
            f"{name}={row[name]}" for name in _DETAILS if row[name] not in (None, "")
        )
    return f"{clock} {event.sid:<24} {event.kind:<17} {event.state:<10} {details}".rstrip()
