"""A replay beside its recording, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson
import typer
from rich.console import Console
from rich.text import Text

from antiphon.cli.comparison import Pair, Said, Verdict
from antiphon.cli.tables import print_table, rows_table


def print_comparison(pairs: Sequence[Pair], verdict: Verdict, *, every: bool) -> None:
    """Rows where either run spoke or the two disagree (`every`: all), then the figures."""
    rows = [_row(pair) for pair in pairs if every or _is_of_note(pair)]
    if rows:
        print_table(rows_table(rows))
    console = Console(highlight=False)
    for line in summary(verdict):
        console.print(Text(line))
    for reason in verdict.reasons:
        console.print(Text(f"differs   {reason}", style="bold red"))


def summary(verdict: Verdict) -> list[str]:
    """What the comparison came to."""
    return [
        f"decisions {verdict.decisions:.0%} the same over {verdict.units} units",
        f"text      {verdict.text:.0%} the same",
        f"latency   recorded {verdict.before or '-'}; now {verdict.after or '-'}",
    ]


def print_json(recording: str, url: str, pairs: Sequence[Pair], verdict: Verdict) -> None:
    """All of it, for other programs."""
    told = {
        "recording": recording,
        "url": url,
        "differs": verdict.differs,
        **asdict(verdict),
        "rows": [asdict(pair) | {"agrees": pair.agrees} for pair in pairs],
    }
    typer.echo(orjson.dumps(told, option=orjson.OPT_INDENT_2))


def _is_of_note(pair: Pair) -> bool:
    spoke = any(said is not None and said.speaks for said in (pair.before, pair.after))
    return spoke or (pair.before is not None and not pair.agrees)


def _row(pair: Pair) -> dict[str, Any]:
    return {
        "s": round(pair.at_s, 1),
        "unit": pair.index,
        "": "" if pair.agrees or pair.before is None else "≠",
        "recorded": _doing(pair.before),
        "now": _doing(pair.after),
        "ms recorded": _ms(pair.before),
        "ms now": _ms(pair.after),
        "said then": pair.before.text.strip() if pair.before else None,
        "says now": pair.after.text.strip() if pair.after else None,
    }


def _doing(said: Said | None) -> str:
    if said is None:
        return "no answer"
    return "speaking" if said.speaks else "listening"


def _ms(said: Said | None) -> float | None:
    return None if said is None or said.ms is None else round(said.ms, 1)
