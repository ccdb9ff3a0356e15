"""The progress of a load, as a bar on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

ReportStage = Callable[[str, float, float], None]
"""Called with the stage, how much of it is done, and all of it."""

_FRAMES_PER_S = 2
"""Few: the bar shares a CPU with the users that are measured."""


@contextmanager
def progress_bar() -> Iterator[ReportStage]:
    """Bars on stderr until the block ends; nothing if stderr is no terminal."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description:<18}"), BarColumn(), TextColumn("{task.fields[count]}")
    with Progress(
        *columns,
        console=console,
        transient=True,
        refresh_per_second=_FRAMES_PER_S,
        disable=not console.is_terminal,
    ) as bars:
        bar = bars.add_task("connecting", total=None, count="")

        def report(stage: str, done: float, total: float) -> None:
            count = f"{done:.0f} of {total:.0f}"
            bars.update(bar, description=stage, completed=done, total=total, count=count)

        yield report
