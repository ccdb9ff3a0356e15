"""`antiphon queue|sessions|workers`: what the live keys say, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.talk import fail

if TYPE_CHECKING:
    from broker.client import Broker

Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]
RedisUrl = Annotated[
    str | None,
    typer.Option(help="Where Redis is; by default the configured one, or that of `antiphon up`."),
]
Rows = list[dict[str, Any]]


def queue(as_json: Json = False, redis_url: RedisUrl = None) -> None:
    """Who waits, in which place, and for how long yet."""
    from ops.live_rows import queue_rows

    show("nobody waits", queue_rows, redis_url, as_json=as_json)


def sessions(as_json: Json = False, redis_url: RedisUrl = None) -> None:
    """Conversations that run or wait."""
    from ops.live_rows import session_rows

    show("no session is live", session_rows, redis_url, as_json=as_json)


def workers(as_json: Json = False, redis_url: RedisUrl = None) -> None:
    """Workers that are alive, what they serve and how busy they are."""
    from ops.live_rows import worker_rows

    show("no worker is alive", worker_rows, redis_url, as_json=as_json)


def show(
    empty: str,
    rows_of: Callable[[Broker], Awaitable[Rows]],
    redis_url: str | None,
    *,
    as_json: bool,
) -> None:
    """Fetch rows and print them; ends with status 1 when Redis does not answer."""
    import asyncio

    import orjson

    from broker.errors import BrokerError
    from ops.live_rows import fetch
    from ops.tables import print_table, rows_table

    try:
        rows = asyncio.run(fetch(rows_of, redis_url))
    except BrokerError as error:
        fail(f"{error}\nIs `antiphon up` running in this folder? --redis-url names another Redis.")
    if as_json:
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
    elif rows:
        print_table(rows_table(rows))
    else:
        typer.echo(empty)
