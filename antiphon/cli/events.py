"""`antiphon events`: what becomes of sessions, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.inspection import NO_REDIS, RedisUrl
from antiphon.cli.talk import fail

if TYPE_CHECKING:
    from antiphon.shared_schemas.lifecycle import SessionEvent

Take = Callable[["SessionEvent"], None]

_DETAILS = ("reason", "ask", "attempt", "worker", "edge")


def events(
    last: Annotated[int, typer.Option(help="How many to begin with.", min=0, max=100_000)] = 20,
    session: Annotated[str | None, typer.Option(help="Only those of this session.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on with new ones.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object per line.")] = False,
    redis_url: RedisUrl = None,
) -> None:
    """Transitions of sessions, oldest first."""
    import asyncio

    from antiphon.broker.errors import BrokerError

    def take(event: SessionEvent) -> None:
        if session is None or event.sid == session:
            typer.echo(_json(event) if as_json else line(event))

    try:
        asyncio.run(_tail(last, watch, redis_url, take))
    except BrokerError as error:
        fail(f"{error}\n{NO_REDIS}")
    except KeyboardInterrupt:
        raise typer.Exit from None


async def _tail(last: int, watch: bool, redis_url: str | None, take: Take) -> None:
    from antiphon.broker.client import open_broker
    from antiphon.broker.lifecycle import follow
    from antiphon.broker.logs import configure_logging
    from antiphon.cli.live_rows import broker_settings

    configure_logging("antiphon")  # on stderr: lines are for other programs
    async with open_broker(broker_settings(redis_url)) as broker:
        past = await broker.recent_events(max(last, 1))
        for event in past[len(past) - min(last, len(past)) :]:
            take(event)
        if watch:
            watched = await broker.watch_events(past[-1].id if past else "0-0")
            async for fresh in follow(watched):
                for event in fresh:
                    take(event)


def line(event: SessionEvent) -> str:
    """One transition for people: when, which session, where it stands now, and why."""
    from datetime import datetime

    clock = datetime.fromtimestamp(event.at / 1000).astimezone()
    row = _row(event)
    details = [f"{name}={row[name]}" for name in _DETAILS if row[name] not in (None, "")]
    head = f"{clock:%H:%M:%S}.{event.at % 1000:03}  {event.sid:<24} {event.kind:<17}"
    return f"{head} {event.state:<10} {' '.join(details)}"


def _json(event: SessionEvent) -> bytes:
    import orjson

    return orjson.dumps(_row(event))


def _row(event: SessionEvent) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(event)
