"""`antiphon evaluate`: how well an edge takes turns, in scripted calls in real time."""

import asyncio
from collections.abc import Callable, Coroutine
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from antiphon.broker.service.listening import free_port
from antiphon.cli.common import (
    ApiKey,
    fail,
    given,
    make_report_folder,
    plain_table,
    print_table,
)
from antiphon.cli.evaluate.page import write_page
from antiphon.cli.evaluate.plan import FULL_CASES, QUICK_CASES, Script, calls, duration_s, scripts
from antiphon.cli.evaluate.report import (
    ANCHOR_COLUMNS,
    MEASURE_COLUMNS,
    Report,
    anchor_rows,
    markdown,
    measure_rows,
    worst,
)
from antiphon.cli.evaluate.run import CallFailed, Evaluation, Line
from antiphon.cli.evaluate.run import evaluate as run_evaluation
from antiphon.cli.evaluate.tracks import Kind
from antiphon.cli.load.run import progress_bar
from antiphon.cli.settings import Engine, ModelPath, check_setting_names
from antiphon.cli.stack.stack import START_ERRORS, StackPlan, StackSettings, exit_status
from antiphon.cli.stack.temporary_stack import temporary_stack
from antiphon.cli.terminal import Terminal, echo, echo_json
from antiphon.client.errors import ClientError
from antiphon.client.options import ClientOptions
from antiphon.shared_schemas.registry import WorkerRow

_WORST_SHOWN = 10


class Format(StrEnum):
    """How the result is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


def evaluate(
    url: Annotated[
        str | None,
        typer.Option("--url", "-u", help="URL of the edge; default: start a temporary stack."),
    ] = None,
    api_key: ApiKey = None,
    engine: Engine = None,
    model_path: ModelPath = None,
    calls_at_once: Annotated[
        int, typer.Option("--calls", "-n", help="Calls at once.", min=1, max=64)
    ] = 2,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"{QUICK_CASES} cases of each main kind: three minutes.")
    ] = False,
    cases: Annotated[
        int | None,
        typer.Option(
            help="Cases of each main kind.", min=1, max=1000, show_default=str(FULL_CASES)
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="KINDS", help=f"With commas: {', '.join(Kind)}.")
    ] = None,
    chunk_ms: Annotated[
        int | None,
        typer.Option(
            help="Length of a chunk, in milliseconds.",
            min=100,
            max=5000,
            show_default="what suits the engine",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for report.json and report.html.")
    ] = Path("evaluation"),
    form: Annotated[Format, typer.Option("--format", help="What is printed.")] = Format.TABLE,
) -> None:
    if url is not None and (engine is not None or model_path is not None):
        fail("--url names a running edge, --engine and --model-path start one: not both", status=2)
    if quick and cases is not None:
        fail("--quick chooses the number of cases: give it or --cases", status=2)
    chosen = _kinds(only)
    plan = scripts(cases or (QUICK_CASES if quick else FULL_CASES), chosen)
    flags = given(engine=engine, model_path=model_path)
    how = ClientOptions(api_key=api_key)
    raise typer.Exit(run_evaluate(plan, calls_at_once, url, flags, how, chunk_ms, out, form))


def _kinds(only: str | None) -> tuple[Kind, ...]:
    if only is None:
        return tuple(Kind)
    try:
        return tuple(Kind(name.strip()) for name in only.split(","))
    except ValueError:
        fail(f"--only {only}: choose from {', '.join(Kind)}, with commas between", status=2)


def run_evaluate(
    plan: list[Script],
    at_once: int,
    url: str | None,
    flags: dict[str, Any],
    how: ClientOptions,
    chunk_ms: int | None,
    out: Path,
    form: Format,
) -> int:
    """Exit status: 0 if all cases were tried."""
    console = Terminal(stderr=True, soft_wrap=True)
    make_report_folder(out)
    about: dict[str, Any] = {"url": url, "engine": None, "calls": at_once}
    minutes = duration_s(plan) / at_once / 60
    console.print(f"{len(plan)} cases, {at_once} calls at once: about {minutes:.0f} minutes")
    try:
        with progress_bar() as report:

            async def measure(address: str) -> Evaluation:
                line = Line(url=address, how=how, chunk_ms=chunk_ms)
                return await run_evaluation(line, calls(plan), at_once, report)

            if url is not None:
                result = asyncio.run(measure(url))
            else:
                result = _with_own_stack(measure, flags, at_once, about)
    except (ClientError, CallFailed, *START_ERRORS) as error:
        console.print(Text(f"\nNothing was evaluated: {error}", style="bold red"))
        return exit_status(error)
    finished = Report.of(result, about)
    document = orjson.dumps(finished.as_json(), option=orjson.OPT_INDENT_2) + b"\n"
    (out / "report.json").write_bytes(document)
    write_page(finished, out / "report.html")
    _show(finished, document, form)
    for warning in finished.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    console.print(f"\nin full: {out / 'report.json'}; to listen to: {out / 'report.html'}")
    return 0


def _show(report: Report, document: bytes, form: Format) -> None:
    if form is Format.JSON:
        echo_json(document)
    elif form is Format.MARKDOWN:
        echo(markdown(report).rstrip())
    else:
        _show_tables(report)


def _show_tables(report: Report) -> None:
    table = plain_table(*MEASURE_COLUMNS, prose=("meaning",))
    for row in measure_rows(report):
        table.add_row(*map(Text, row))
    print_table(table)
    echo("\nPublished systems (tau-voice):")
    table = plain_table(*ANCHOR_COLUMNS)
    for row in anchor_rows(report):
        table.add_row(*map(Text, row))
    print_table(table)
    echo(f"\n{len(report.failed)} of {len(report.results)} cases have a fault. The worst:")
    sound = "sound"
    table = plain_table("kind", sound, "fault", prose=(sound, "fault"))
    for result in worst(report, _WORST_SHOWN):
        if result.faults:
            case = result.case
            table.add_row(Text(case.kind), Text(case.text), Text("; ".join(result.faults)))
    print_table(table)


def _with_own_stack(
    measure: Callable[[str], Coroutine[Any, Any, Evaluation]],
    flags: dict[str, Any],
    at_once: int,
    about: dict[str, Any],
) -> Evaluation:
    """On free ports, with settings as of `antiphon up`, and a slot for each call."""

    with temporary_stack(partial(stack_plan, flags=flags, at_once=at_once)) as stack:

        def measure_worker(worker: WorkerRow) -> Coroutine[Any, Any, Evaluation]:
            about["engine"], about["model"] = worker.engine, worker.model
            return measure(stack.plan.edge_url)

        return asyncio.run(stack.run(measure_worker))


def stack_plan(folder: Path, flags: dict[str, Any], at_once: int) -> StackPlan:
    """With a private Redis: its recorder would take sessions from a shared one.

    Raises InvalidSettings.
    """
    check_setting_names()
    settings = StackSettings.of(
        **flags,
        host="127.0.0.1",
        port=free_port(),
        data_dir=folder,
        slots=at_once,
        health_port=0,
    )
    return StackPlan.of(settings, redis_url=None)
