"""`antiphon queue cancel` and `antiphon worker drain`: what an operator does to a running system."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from antiphon.cli.inspection import NO_REDIS, RedisUrl
from antiphon.cli.talk import fail

if TYPE_CHECKING:
    from antiphon.broker.client import Broker

T = TypeVar("T")

_LEAVING_POLL_S = 0.2


def cancel(
    context: typer.Context,
    session: Annotated[str, typer.Argument(help="Id or ticket number, as `antiphon queue` shows.")],
    redis_url: RedisUrl = None,
) -> None:
    """Take a waiting session out of the queue; its client is told. One that runs is left alone."""
    if not act(lambda broker: cancel_waiting(broker, session), _url(context, redis_url)):
        fail(f"{session} does not wait: it runs, has ended, or never was")
    typer.echo(f"{session} is out of the queue")


def drain(
    context: typer.Context,
    worker: Annotated[str, typer.Argument(help="Id, as `antiphon workers` shows it.")],
    wait: Annotated[bool, typer.Option("--wait", help="Return only when it has left.")] = False,
    redis_url: RedisUrl = None,
) -> None:
    """Let a worker take no new session, finish or hand on those it has, and end.

    It is what SIGTERM does, from anywhere. Whatever restarts ended workers will start a fresh one.
    """
    url = _url(context, redis_url)
    known = act(lambda broker: ask_to_drain(broker, worker, wait=wait), url)
    if known is not None:
        fail(f"there is no worker {worker}; alive are: {', '.join(known) or 'none'}")
    typer.echo(f"{worker} has left" if wait else f"{worker} drains")


async def cancel_waiting(broker: Broker, session: str) -> bool:
    """False when nobody waits under this id or ticket number."""
    for row in (await broker.queue.snapshot()).waiting:
        if session in (row.sid, str(row.ticket)):
            return await broker.sessions.cancel(row.sid, row.ticket)
    return False


async def ask_to_drain(broker: Broker, worker: str, *, wait: bool) -> list[str] | None:
    """None when the worker was asked (and, with `wait`, has left); else the ids of those alive."""
    import asyncio

    from antiphon.shared_schemas.lifecycle import WorkerAsk

    if not await broker.registry.ask_worker(worker, WorkerAsk.DRAIN):
        return await _alive(broker)
    while wait:
        if worker not in await _alive(broker):
            break
        await asyncio.sleep(_LEAVING_POLL_S)
    return None


async def _alive(broker: Broker) -> list[str]:
    return [row.id for row in (await broker.queue.snapshot()).workers]


def _url(context: typer.Context, redis_url: str | None) -> str | None:
    """The flag may stand before the action as well: `antiphon queue --redis-url URL cancel ID`."""
    return redis_url or (context.parent.params.get("redis_url") if context.parent else None)


def act(what: Callable[[Broker], Awaitable[T]], redis_url: str | None) -> T:
    """Do one thing over a connection of its own; ends with status 1 when Redis does not answer."""
    import asyncio

    from antiphon.broker.errors import BrokerError
    from antiphon.cli.live_rows import fetch

    try:
        return asyncio.run(fetch(what, redis_url))
    except BrokerError as error:
        fail(f"{error}\n{NO_REDIS}")
