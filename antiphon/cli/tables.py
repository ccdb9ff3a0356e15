"""Tables on the terminal, never cut to its width."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_ENDLESS = 1000


def plain_table(*columns: str) -> Table:
    """An empty table without lines."""
    return Table(*columns, box=None, header_style="dim", padding=(0, 2, 0, 0))


def rows_table(rows: list[dict[str, Any]]) -> Table:
    """One line per row. Dicts are left to the JSON; so is what is empty in every row."""
    first = rows[0]
    columns = [name for name in first if any(_cell(row[name]) for row in rows)]
    shown = plain_table(*columns)
    for row in rows:
        shown.add_row(*(Text(_cell(row[name])) for name in columns))  # never as markup
    return shown


def _cell(value: Any) -> str:
    if value is None or isinstance(value, dict):
        return ""
    return ", ".join(value) if isinstance(value, list) else str(value)


def print_table(table: Table) -> None:
    """Print at the table's natural width; a narrow terminal wraps its lines."""
    wide = Console(width=_ENDLESS)
    width = Measurement.get(wide, wide.options, table).maximum
    Console(width=max(width, Console().width), highlight=False).print(table)
