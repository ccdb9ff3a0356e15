"""The run of `antiphon bench`: against an edge, or over a stack that lives only for it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import uvloop
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from antiphon.broker.embedded import EmbeddedRedisError, free_port
from antiphon.cli.load.material import Material
from antiphon.cli.load.plan import Form, LoadPlan
from antiphon.cli.load.plot import plot
from antiphon.cli.load.report import report_of, show
from antiphon.cli.load.run import NobodyServed, Outcome, run_load
from antiphon.cli.load.usage import Usage, processes_of, with_generator
from antiphon.cli.log_files import LogFiles
from antiphon.cli.processes import ServiceFailed
from antiphon.cli.readiness import NotReady, wait_until_ready
from antiphon.cli.run_file import RunFile
from antiphon.cli.stack import Stack, StackPlan, private_redis, unless_failed
from antiphon.cli.wav import UnusableAudio, load_speech
from antiphon.client.link import Connecting
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.audio import PcmFormat

READY_TIMEOUT_S = 180.0


def run_bench(
    plan: LoadPlan, url: str | None, engine: str, wavs: list[Path], out: Path, api_key: str | None
) -> int:
    """Exit status: 0 when everyone was served and measured."""
    console = Console(highlight=False, soft_wrap=True)
    with ExitStack() as kept:
        try:
            recordings = [load_speech(path) for path in wavs]
            material = Material.of(recordings, plan.speak_ratio)
            how = connecting(plan.form, api_key)
            if url is not None:
                about = {"url": url, "engine": None}
                outcome = uvloop.run(_load_running(url, how, plan, material))
            else:
                about = {"url": None, "engine": engine}
                folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-")))
                outcome = _load_own(kept, folder, engine, how, plan, material, console)
        except (
            EmbeddedRedisError,
            NobodyServed,
            NotReady,
            ServiceFailed,
            UnusableAudio,
            ValidationError,
        ) as error:
            console.print(Text(f"\nNothing was measured: {error}", style="bold red"))
            return 1
    tell(outcome, about, out, console)
    return 1 if outcome.unserved else 0


def connecting(form: Form, api_key: str | None = None) -> Connecting:
    """How users connect for sound to travel in this form."""
    if form is Form.TEXT:
        return Connecting(api_key=api_key)
    return Connecting(api_key=api_key, binary=True, pcm=PcmFormat(form))


def tell(outcome: Outcome, about: dict[str, Any], out: Path, console: Console) -> None:
    """On the terminal, and as files in `out`."""
    report = report_of(outcome, about)
    show(report, console)
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2) + b"\n")
    title = f"{outcome.plan.sessions} sessions of {', '.join(outcome.plan.kinds)}, {report['at']}"
    (out / "latency.svg").write_text(plot(outcome.moments, title))
    console.print(f"\nin full: {out / 'report.json'}, {out / 'latency.svg'}")


async def _load_running(url: str, how: Connecting, plan: LoadPlan, material: Material) -> Outcome:
    """An edge that runs already; its processes are known if an `antiphon up` in this folder has it."""
    stack = RunFile.read(RecorderSettings().data_dir)
    own = stack is not None and stack.edge_url == url
    pids = processes_of(stack.pid) if stack is not None and own else {}
    return await run_load(url, how, plan, material, lambda: Usage.of(with_generator(pids)))


def _load_own(
    kept: ExitStack,
    folder: Path,
    engine: str,
    how: Connecting,
    plan: LoadPlan,
    material: Material,
    console: Console,
) -> Outcome:
    """A whole stack on free ports, forgotten afterwards."""
    wanted = stack_plan(folder, engine, plan)
    logs = kept.enter_context(LogFiles(folder / "logs"))
    stack = Stack(wanted, kept.enter_context(private_redis(wanted)), logs.take)
    console.print(f"Starting Redis, edge, worker ({engine}), recorder and cleanup …")
    return uvloop.run(_run_over(stack, how, plan, material))


async def _run_over(stack: Stack, how: Connecting, plan: LoadPlan, material: Material) -> Outcome:
    async def work() -> Outcome:
        await wait_until_ready(stack, lambda _service, _what: None, READY_TIMEOUT_S)
        pids = {name: pid for name, pid in _pids(stack).items() if pid is not None}
        usage = with_generator(pids)
        return await run_load(stack.plan.edge_url, how, plan, material, lambda: Usage.of(usage))

    async with stack.running() as guard:
        return await unless_failed(guard, work())


def _pids(stack: Stack) -> Mapping[str, int | None]:
    return {name: one.pid for name, one in stack.services.items()} | {"redis": stack.redis_pid}


def stack_plan(folder: Path, engine: str, plan: LoadPlan) -> StackPlan:
    """A slot for each user; a simulated engine speaks while users do not."""
    options = {"speak_ratio": round(1 - plan.speak_ratio, 3)} if engine == "simulated" else {}
    return StackPlan(
        data_dir=folder,
        host="127.0.0.1",
        port=free_port(),
        engine=engine,
        slots=plan.sessions,
        redis_dir=folder / "redis",
        engine_options=options,
    )
