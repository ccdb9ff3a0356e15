"""`antiphon bench`: load from many users at once, on any edge or on a temporary stack."""

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import uvloop
from rich.text import Text

from antiphon.broker.service.listening import free_port
from antiphon.cli.common import BUNDLED_QUESTION, ApiKey, fail, make_report_folder
from antiphon.cli.load.plan import AudioTransport, LoadPlan, UserKind
from antiphon.cli.load.report import report_of, show
from antiphon.cli.load.run import LoadResult, NoUserServed, progress_bar, run_load
from antiphon.cli.load.users import LoadInputs
from antiphon.cli.stack.stack import START_ERRORS, StackPlan, exit_status
from antiphon.cli.stack.stack_file import StackFile
from antiphon.cli.stack.temporary_stack import temporary_stack
from antiphon.cli.stack.usage import ProcessUsage, processes_of, with_generator
from antiphon.cli.terminal import Terminal
from antiphon.client.errors import InvalidAudio
from antiphon.client.options import ClientOptions
from antiphon.client.sound import load_wav
from antiphon.inference_worker.engines.registry import engine_names
from antiphon.inference_worker.engines.simulated import SimulatedOptions
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.config import USUAL_CHUNK_MS
from antiphon.shared_schemas.registry import WorkerRow

Load = Callable[..., Coroutine[Any, Any, LoadResult]]
MeasureUsage = Callable[[], ProcessUsage]

_UNIT_TIMES = ("prefill_ms", "listen_ms", "speak_ms", "finalize_ms")

MAX_OWN_SESSIONS = 256
"""Slots that a worker may have."""


def bench(
    url: Annotated[
        str | None,
        typer.Option("--url", "-u", help="URL of the edge; default: start a temporary stack."),
    ] = None,
    api_key: ApiKey = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            "-e",
            metavar=f"<{'|'.join(engine_names())}>",
            help="Engine of the temporary stack.",
            show_default="simulated",
        ),
    ] = None,
    sessions: Annotated[
        int, typer.Option("--sessions", "-n", help="Number of concurrent users.", min=1)
    ] = 8,
    seconds: Annotated[
        float, typer.Option("--seconds", "-s", help="Duration of the measurement.", min=1)
    ] = 30.0,
    kinds: Annotated[
        str,
        typer.Option(
            help="audio, omni, half-duplex, chat, live, openai: one, or several with commas."
        ),
    ] = "audio",
    speak_ratio: Annotated[
        float,
        typer.Option(
            help="Share of the time users speak (full duplex); a simulated engine takes the rest.",
            min=0,
            max=1,
        ),
    ] = 0.5,
    chunk_ms: Annotated[
        int,
        typer.Option(help="Audio per message (full duplex), in milliseconds.", min=100, max=5000),
    ] = USUAL_CHUNK_MS,
    wav: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="<path>",
            help="A recording to say; may be repeated.",
            show_default="a bundled question",
        ),
    ] = None,
    every: Annotated[
        float,
        typer.Option(help="Seconds between two questions (half-duplex, chat, openai).", min=0.5),
    ] = 10.0,
    form: Annotated[
        AudioTransport, typer.Option(help="Sound as base64 (text), or binary: float32 or 16 bit.")
    ] = AudioTransport.TEXT,
    warm_up: Annotated[
        float, typer.Option(help="Seconds before the measurement starts.", min=0)
    ] = 3.0,
    patience: Annotated[
        float, typer.Option(help="Seconds to wait until every user has a turn.", min=1)
    ] = 120.0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for report.json.")] = Path(
        "bench-report"
    ),
) -> None:
    if url is not None and engine is not None:
        fail("--url names a running edge, --engine starts one: only one of them", status=2)
    if url is None and sessions > MAX_OWN_SESSIONS:
        fail(
            f"one worker serves {MAX_OWN_SESSIONS} sessions at most: name a larger system by --url",
            status=2,
        )
    try:
        chosen = tuple(UserKind(name.strip()) for name in kinds.split(","))
    except ValueError:
        fail(f"--kinds {kinds}: choose from {', '.join(UserKind)}, with commas between", status=2)
    plan = LoadPlan(
        kinds=chosen,
        sessions=sessions,
        seconds=seconds,
        warm_up_s=warm_up,
        patience_s=patience,
        every_s=every,
        speak_ratio=speak_ratio,
        chunk_ms=chunk_ms,
        form=form,
    )
    wavs = wav or [BUNDLED_QUESTION]
    raise typer.Exit(run_bench(plan, url, engine or "simulated", wavs, out, api_key))


def run_bench(
    plan: LoadPlan, url: str | None, engine: str, wavs: list[Path], out: Path, api_key: str | None
) -> int:
    """Exit status: 0 if every user was served and measured, and one of the requests was answered."""
    console = Terminal(soft_wrap=True)
    make_report_folder(out)
    try:
        recordings = [load_wav(path) for path in wavs]
        inputs = LoadInputs.of(recordings, plan.speak_ratio, plan.chunk_ms)
        load = partial(run_load, how=client_options(plan.form, api_key), plan=plan, inputs=inputs)
        if url is None:
            console.print(f"Starting Redis, edge, worker ({engine}), recorder and cleanup …")
        with progress_bar() as report:
            load = partial(load, report=report)
            if url is not None:
                result = uvloop.run(load(url, usage=_usage_of_running(url)))
            else:
                result = _load_temporary_stack(load, engine, plan)
    except (NoUserServed, InvalidAudio, *START_ERRORS) as error:
        console.print(Text(f"\nNothing was measured: {error}", style="bold red"))
        return exit_status(error)
    about = {"url": url, "engine": None if url else engine}
    write_report(result, about, out, console)
    return 1 if result.unserved or result.is_unanswered else 0


def client_options(transport: AudioTransport, api_key: str | None = None) -> ClientOptions:
    if transport is AudioTransport.TEXT:
        return ClientOptions(api_key=api_key)
    return ClientOptions(api_key=api_key, binary=True, pcm=PcmFormat(transport))


def write_report(result: LoadResult, about: dict[str, Any], out: Path, console: Terminal) -> None:
    """Print the report, and write it to `report.json` in `out`."""
    report = report_of(result, about)
    show(report, console)
    (out / "report.json").write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2) + b"\n")
    console.print(f"\nin full: {out / 'report.json'}")


def _usage_of_running(url: str) -> MeasureUsage:
    """The processes of an edge are known if it belongs to an `antiphon up` in this folder."""
    stack = StackFile.readable(RecorderSettings().data_dir)
    pids = processes_of(stack.pid) if stack is not None and stack.edge_url == url else {}
    return partial(ProcessUsage.of, with_generator(pids))


def _load_temporary_stack(load: Load, engine: str, plan: LoadPlan) -> LoadResult:
    with temporary_stack(partial(stack_plan, engine=engine, plan=plan)) as stack:

        def measure(_: WorkerRow) -> Coroutine[Any, Any, LoadResult]:
            pids = {name: pid for name, pid in stack.pids.items() if pid is not None}
            usage = partial(ProcessUsage.of, with_generator(pids))
            return load(stack.plan.edge_url, usage=usage)

        return uvloop.run(stack.run(measure))


def _simulated(plan: LoadPlan) -> dict[str, float]:
    """Its times and cycles are those of seconds. A unit of other length takes its part of them."""
    usual, share = SimulatedOptions(), plan.chunk_ms / USUAL_CHUNK_MS
    return {
        "speak_ratio": round(1 - plan.speak_ratio, 3),
        "cycle_units": round(usual.cycle_units / share),
        **{name: getattr(usual, name) * share for name in _UNIT_TIMES},
    }


def stack_plan(folder: Path, engine: str, plan: LoadPlan) -> StackPlan:
    """One slot per user; a simulated engine speaks while users do not."""
    options = _simulated(plan) if engine == "simulated" else {}
    return StackPlan(
        data_dir=folder,
        host="127.0.0.1",
        port=free_port(),
        engine=engine,
        slots=plan.sessions,
        engine_options=options,
    )
