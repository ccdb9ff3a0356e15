"""`antiphon replay`: plays a recorded session again, to a running stack, and shows the differences."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from antiphon.cli.common import (
    PATIENCE_S,
    ApiKey,
    AsJson,
    CannotLoad,
    DataDir,
    EdgeUrl,
    Patience,
    RecordingName,
    Row,
    fail,
    print_table,
    rows_table,
)
from antiphon.cli.local_recordings import LocalRecordings
from antiphon.cli.replay.compare import Comparison, OutcomePair, ReplayOutcome, Tolerance, compare
from antiphon.cli.replay.plan import plan_replay
from antiphon.cli.replay.play import ReplayFailed, ReplayOptions, play
from antiphon.cli.stack.stack_file import default_edge_url
from antiphon.cli.terminal import Terminal, echo_json
from antiphon.client.errors import ClientError

_CANNOT = 2


def replay(
    session: RecordingName,
    url: EdgeUrl = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Send each second as soon as the last one is answered.")
    ] = False,
    decisions: Annotated[
        float,
        typer.Option(help="Share of listen-or-speak decisions that must agree.", min=0, max=1),
    ] = 0.9,
    text: Annotated[
        float, typer.Option(help="Share of words that must agree.", min=0, max=1)
    ] = 0.8,
    slower: Annotated[
        float, typer.Option(help="Allowed factor for the median duration of a unit.", min=0)
    ] = 2.0,
    every: Annotated[bool, typer.Option("--all", help="Also show units that agree.")] = False,
    as_json: AsJson = False,
    patience: Patience = PATIENCE_S,
    api_key: ApiKey = None,
    data_dir: DataDir = None,
) -> None:
    """Send a recorded session to an edge again; compare decisions, words and latency.

    Exit status: 0 if all is within the tolerances, 1 if not, 2 if it cannot be played.
    """
    tolerance = Tolerance(decisions=decisions, text=text, slower=slower)
    url = url or default_edge_url(data_dir)
    try:
        recording = LocalRecordings(data_dir).load(session)
        plan = plan_replay(recording)
        options = ReplayOptions(url=url, fast=fast, patience_s=patience, api_key=api_key)
        pairs = asyncio.run(play(plan, options))
    except (CannotLoad, ClientError, ReplayFailed) as error:
        fail(str(error), status=_CANNOT)
    comparison = compare(pairs, tolerance)
    if as_json:
        _print_json(recording.meta.recording_id, url, pairs, comparison)
    else:
        _print_table(pairs, comparison, every=every)
    raise typer.Exit(1 if comparison.differs else 0)


def _print_table(pairs: Sequence[OutcomePair], comparison: Comparison, *, every: bool) -> None:
    """Rows where a run spoke or the two disagree (`every`: all rows), then the figures."""
    rows = [_row(pair) for pair in pairs if every or _is_notable(pair)]
    if rows:
        print_table(rows_table(rows, prose=("said then", "says now")))
    console = Terminal()
    for line in (
        f"decisions {comparison.decisions:.0%} the same over {comparison.units} units",
        f"text      {comparison.text:.0%} the same",
        f"latency   recorded {comparison.before or '-'}; now {comparison.after or '-'}",
    ):
        console.print(Text(line))
    for reason in comparison.reasons:
        console.print(Text(f"differs   {reason}", style="bold red"))


def _print_json(
    recording: str, url: str, pairs: Sequence[OutcomePair], comparison: Comparison
) -> None:
    document = {
        "recording": recording,
        "url": url,
        "differs": comparison.differs,
        **asdict(comparison),
        "rows": [asdict(pair) | {"agrees": pair.agrees} for pair in pairs],
    }
    echo_json(document, indent=True)


def _is_notable(pair: OutcomePair) -> bool:
    spoke = any(unit is not None and unit.speaks for unit in (pair.before, pair.after))
    return spoke or (pair.before is not None and not pair.agrees)


def _row(pair: OutcomePair) -> Row:
    return {
        "s": round(pair.at_s, 1),
        "unit": pair.index,
        "": "" if pair.agrees or pair.before is None else "≠",
        "recorded": _decision(pair.before),
        "now": _decision(pair.after),
        "ms then": _ms(pair.before),
        "ms now": _ms(pair.after),
        "said then": pair.before.text.strip() if pair.before else None,
        "says now": pair.after.text.strip() if pair.after else None,
    }


def _decision(unit: ReplayOutcome | None) -> str:
    if unit is None:
        return "no answer"
    return "speaking" if unit.speaks else "listening"


def _ms(unit: ReplayOutcome | None) -> float | None:
    return None if unit is None or unit.ms is None else round(unit.ms, 1)
