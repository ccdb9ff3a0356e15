"""`antiphon demo` and `make demo`: the whole pipeline, two spoken questions, their answers."""

import asyncio
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from antiphon.broker.service.listening import free_port
from antiphon.broker.settings import SESSIONS_FOLDER
from antiphon.cli.common import BUNDLED_QUESTION, PATIENCE_S, SECOND_QUESTION, ApiKey, command
from antiphon.cli.conversation.conversation import ConversationResult
from antiphon.cli.conversation.dialogue import Call, ConversationPrinter, ask_files
from antiphon.cli.conversation.sound import UnusableAudio
from antiphon.cli.settings import check_setting_names
from antiphon.cli.stack.logs import LogFiles, prefix
from antiphon.cli.stack.stack import (
    START_ERRORS,
    Stack,
    StackPlan,
    exit_status,
    make_data_folder,
    open_stack,
    run_guarded,
)
from antiphon.cli.terminal import Terminal
from antiphon.client.errors import ClientError
from antiphon.client.sound import load_wav
from antiphon.interrupts import INTERRUPTED
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.recording import RecordingState

GREEDY = DuplexConfig(temperature=0.0)
"""Greedy decoding: the same question gets the same answer."""

RECORDED_TIMEOUT_S = 20.0
_POLL_S = 0.1
_KB = 1000


class DemoFailed(Exception):
    """The demo got no answer; the message says why."""


def demo(
    question: Annotated[
        Path | None,
        typer.Option(help="A sound file with the question.", show_default="two bundled ones"),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Folder for the reply, the recordings and the logs.")
    ] = Path("data/demo"),
    api_key: ApiKey = None,
) -> None:
    questions = [BUNDLED_QUESTION, SECOND_QUESTION] if question is None else [question]
    raise typer.Exit(run_demo(questions, data_dir, api_key))


def run_demo(questions: Sequence[Path], data_dir: Path, api_key: str | None) -> int:
    """Exit status: 0 if the questions were answered, spoken, saved and recorded."""
    console = Terminal(soft_wrap=True)
    began = time.monotonic()
    make_data_folder(data_dir)
    with ExitStack() as resources:
        logs = resources.enter_context(LogFiles(data_dir / "logs"))
        try:
            for question in questions:
                load_wav(question)  # fails before anything is started
            folder = tempfile.TemporaryDirectory(prefix="antiphon-")
            plan = _plan(data_dir, Path(resources.enter_context(folder)))
            stack = resources.enter_context(open_stack(plan, logs.take))
            asyncio.run(_run(stack, questions, console, api_key))
        except (DemoFailed, ClientError, UnusableAudio, *START_ERRORS) as error:
            console.print(Text(f"\nThe demo failed: {error}", style="bold red"))
            logs.show_tail(console)
            return exit_status(error)
        except (KeyboardInterrupt, asyncio.CancelledError):
            console.print("\ninterrupted")
            return INTERRUPTED
    console.print(f"\nDone in {time.monotonic() - began:.0f} s; every process has stopped.")
    console.print(
        f"Next: `{command('up')}` starts all services until Ctrl-C, with pages for browsers."
    )
    return 0


def _plan(data_dir: Path, redis_dir: Path) -> StackPlan:
    """Uses a free port and a private, temporary Redis, so that it runs beside anything else."""
    check_setting_names()
    return StackPlan(
        data_dir=data_dir.resolve(),
        host="127.0.0.1",
        port=free_port(),
        redis_dir=redis_dir,
    )


async def _run(
    stack: Stack, questions: Sequence[Path], console: Terminal, api_key: str | None
) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    console.print("Starting Redis, edge, worker, recorder and cleanup …")
    async with stack.running() as guard:
        result = await run_guarded(guard, _converse(stack, questions, console, api_key))
        folder = await run_guarded(guard, _recorded(stack.plan.data_dir / SESSIONS_FOLDER, result))
        console.print("\nThe session was recorded in")
        console.print(folder_tree(folder))


async def _converse(
    stack: Stack, questions: Sequence[Path], console: Terminal, api_key: str | None
) -> ConversationResult:
    await stack.wait_until_ready(
        lambda service, stage: console.print(prefix(service).append(stage))
    )
    console.print()
    plan = stack.plan
    reply = plan.data_dir / "reply.wav"
    call = Call(url=plan.edge_url, out=reply, api_key=api_key, config=GREEDY)
    result = await ask_files(call, questions, PATIENCE_S, ConversationPrinter(console))
    if not result.answered:
        raise DemoFailed(f"no complete answer within {PATIENCE_S:.0f} s after the question")
    return result


async def _recorded(sessions: Path, result: ConversationResult) -> Path:
    """The folder of the recording, once it is complete. Raises DemoFailed."""
    from antiphon.recorder_service.manifest.meta import read_meta

    if result.recording is None:
        raise DemoFailed("the session was not recorded")
    folder = sessions / result.recording
    deadline = time.monotonic() + RECORDED_TIMEOUT_S
    while (meta := read_meta(folder)) is None or meta.is_busy:
        if time.monotonic() > deadline:
            raise DemoFailed(f"the recording in {folder} was not completed")
        await asyncio.sleep(_POLL_S)
    if meta.state is not RecordingState.COMPLETE:
        raise DemoFailed(f"the recording in {folder} was interrupted")
    return folder


def folder_tree(folder: Path) -> str:
    """A folder as a tree of text. A folder in it is shown with the number of its files; an empty one is not."""
    return "\n".join([f"{folder}/", *_branches(folder)])


def _branches(folder: Path) -> Iterator[str]:
    entries = sorted(folder.iterdir(), key=lambda path: (path.is_file(), path.name))
    shown = [(path, _content(path)) for path in entries]
    shown = [(path, content) for path, content in shown if content]
    for number, (path, content) in enumerate(shown, start=1):
        corner = "└── " if number == len(shown) else "├── "
        yield f"{corner}{path.name}{'/' if path.is_dir() else ''}  {content}"


def _content(path: Path) -> str:
    if not path.is_dir():
        return _size(path.stat().st_size)
    count = sum(1 for _ in path.iterdir())
    return f"{count} file{'' if count == 1 else 's'}" if count else ""


def _size(count: int) -> str:
    return f"{count} B" if count < _KB else f"{count / _KB:.1f} kB"
