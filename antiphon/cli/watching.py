"""Rows on the terminal: once, or again every second in place of the last ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import orjson
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.logs import configure_logging
from antiphon.cli.live_rows import broker_settings
from antiphon.cli.tables import print_table, rows_table

PERIOD_S = 1.0

Rows = list[dict[str, Any]]
RowsOf = Callable[[Broker], Awaitable[Rows]]


def print_rows(empty: str, rows: Rows, *, as_json: bool) -> None:
    """A table, or JSON; `empty` is what to say of no rows."""
    if as_json:
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
    elif rows:
        print_table(rows_table(rows))
    else:
        typer.echo(empty)


async def watch_rows(empty: str, rows_of: RowsOf, redis_url: str | None, *, as_json: bool) -> None:
    """Until interrupted: a screen that renews itself, or a line of JSON a second.

    An outage is shown and waited out. Raises BrokerError when Redis does not answer at the start.
    """
    configure_logging("antiphon")  # on stderr: rows are for other programs
    async with open_broker(broker_settings(redis_url)) as broker:
        if as_json:
            while True:
                typer.echo(orjson.dumps(await rows_of(broker)))
                await asyncio.sleep(PERIOD_S)
        with Live(console=Console(), screen=Console().is_terminal, auto_refresh=False) as screen:
            while True:
                screen.update(await _view(empty, rows_of, broker), refresh=True)
                await asyncio.sleep(PERIOD_S)


async def _view(empty: str, rows_of: RowsOf, broker: Broker) -> RenderableType:
    clock = f"{datetime.now().astimezone():%H:%M:%S}"
    try:
        rows = await rows_of(broker)
    except BrokerUnavailable as error:
        return Text(f"{clock}  {error}", style="red")
    table = rows_table(rows) if rows else Text(empty)
    return Group(Text(f"{clock}  every {PERIOD_S:g} s, Ctrl-C ends", style="dim"), table)
