"""`antiphon events`: state changes of sessions, as they happen."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import orjson
import typer

from antiphon.broker.client import Broker
from antiphon.broker.events import follow
from antiphon.cli.broker_access import call_broker
from antiphon.cli.common import RedisUrl
from antiphon.shared_schemas.events import SessionEvent

_DETAILS = ("reason", "ask", "attempt", "worker", "edge")


def events(
    last: Annotated[
        int, typer.Option(help="Number of past events to show first.", min=0, max=100_000)
    ] = 20,
    session: Annotated[str | None, typer.Option(help="Show only this session.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Continue with new events.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per line.")] = False,
    redis_url: RedisUrl = None,
) -> None:

    def take(event: SessionEvent) -> None:
        if session is None or event.sid == session:
            typer.echo(orjson.dumps(asdict(event)) if as_json else event_line(event))

    async def read(broker: Broker) -> None:
        past = await broker.events.recent(max(last, 1))
        for event in past[len(past) - min(last, len(past)) :]:
            take(event)
        if watch:
            watched = await broker.events.watch(past[-1].id if past else "0-0")
            async for fresh in follow(watched):
                for event in fresh:
                    take(event)

    call_broker(read, redis_url)


def event_line(event: SessionEvent) -> str:
    """Time, session, kind, new state and details of one event."""
    clock = datetime.fromtimestamp(event.at / 1000).astimezone()
    row = asdict(event)
    details = [f"{name}={row[name]}" for name in _DETAILS if row[name] not in (None, "")]
    head = f"{clock:%H:%M:%S}.{event.at % 1000:03}  {event.sid:<24} {event.kind:<17}"
    return f"{head} {event.state:<10} {' '.join(details)}"
