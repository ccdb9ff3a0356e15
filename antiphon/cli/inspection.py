"""`antiphon queue|sessions|workers|edges`: what the live keys say, once or again every second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.talk import fail

if TYPE_CHECKING:
    from antiphon.broker.client import Broker

Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
Watch = Annotated[
    bool,
    typer.Option("--watch", help="Show it again every second, until Ctrl-C (JSON: a line each)."),
]
RedisUrl = Annotated[
    str | None,
    typer.Option(help="Where Redis is; by default the configured one, or that of `antiphon up`."),
]
Rows = list[dict[str, Any]]
RowsOf = Callable[["Broker"], Awaitable[Rows]]

NO_REDIS = "Is `antiphon up` running in this folder? --redis-url names another Redis."


def queue(
    context: typer.Context, as_json: Json = False, watch: Watch = False, redis_url: RedisUrl = None
) -> None:
    """Who waits, in which place, and for how long yet."""
    if context.invoked_subcommand is None:
        from antiphon.cli.live_rows import queue_rows

        show("nobody waits", queue_rows, redis_url, as_json=as_json, watch=watch)


def sessions(
    context: typer.Context, as_json: Json = False, watch: Watch = False, redis_url: RedisUrl = None
) -> None:
    """Conversations that run or wait."""
    if context.invoked_subcommand is None:
        from antiphon.cli.live_rows import session_rows

        show("no session is live", session_rows, redis_url, as_json=as_json, watch=watch)


def workers(as_json: Json = False, watch: Watch = False, redis_url: RedisUrl = None) -> None:
    """Workers that are alive, what they serve and how busy they are."""
    from antiphon.cli.live_rows import worker_rows

    show("no worker is alive", worker_rows, redis_url, as_json=as_json, watch=watch)


def edges(as_json: Json = False, watch: Watch = False, redis_url: RedisUrl = None) -> None:
    """Edges that are alive, and how many sessions' clients each of them serves."""
    from antiphon.cli.live_rows import edge_rows

    show("no edge is alive", edge_rows, redis_url, as_json=as_json, watch=watch)


def show(empty: str, rows_of: RowsOf, redis_url: str | None, *, as_json: bool, watch: bool) -> None:
    """Fetch rows and print them; ends with status 1 when Redis does not answer."""
    import asyncio

    from antiphon.broker.errors import BrokerError
    from antiphon.cli.live_rows import fetch
    from antiphon.cli.watching import print_rows, watch_rows

    try:
        if watch:
            asyncio.run(watch_rows(empty, rows_of, redis_url, as_json=as_json))
        else:
            print_rows(empty, asyncio.run(fetch(rows_of, redis_url)), as_json=as_json)
    except BrokerError as error:
        fail(f"{error}\n{NO_REDIS}")
    except KeyboardInterrupt:
        raise typer.Exit from None
