"""The demo's run: a stack of its own, a conversation, a look at what was recorded."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from antiphon.broker.embedded import EmbeddedRedisError, free_port
from antiphon.cli.conversation import Heard
from antiphon.cli.dialogue import ask_file
from antiphon.cli.folder_tree import folder_tree
from antiphon.cli.log_files import LogFiles
from antiphon.cli.log_lines import prefix
from antiphon.cli.processes import ServiceFailed
from antiphon.cli.readiness import NotReady, wait_until_ready
from antiphon.cli.stack import Stack, StackPlan, private_redis, unless_failed
from antiphon.cli.talk import PATIENCE_S
from antiphon.cli.transcript import Transcript
from antiphon.cli.wav import UnusableAudio, load_speech
from antiphon.client.errors import ClientError
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.recording import META_FILE, Meta, RecordingState, parse_meta

PROMPT = "You are a helpful assistant."
STEADY = DuplexConfig(temperature=0.0)
"""Greedy: the same question gets the same answer."""

READY_TIMEOUT_S = 180.0
RECORDED_TIMEOUT_S = 20.0
_POLL_S = 0.1


class DemoFailed(Exception):
    """The demo did not get its answer; the message says why."""


def run_demo(question: Path, data_dir: Path, api_key: str | None = None) -> int:
    """Exit status: 0 when the question was answered, spoken, saved and recorded."""
    console = Console(highlight=False, soft_wrap=True)
    began = time.monotonic()
    with ExitStack() as kept:
        logs = kept.enter_context(LogFiles(data_dir / "logs"))
        try:
            load_speech(question)  # before anything is started for it
            redis_dir = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="antiphon-")))
            plan = _plan(data_dir, redis_dir)
            stack = Stack(plan, kept.enter_context(private_redis(plan)), logs.take)
            demo = _Demo(stack, question, console, api_key)
            asyncio.run(_until_sigterm(demo.run()))
        except (
            DemoFailed,
            ClientError,
            EmbeddedRedisError,
            NotReady,
            ServiceFailed,
            UnusableAudio,
            ValidationError,
        ) as error:
            console.print(Text(f"\nThe demo failed: {error}", style="bold red"))
            logs.show_tail(console)
            return 1
        except (KeyboardInterrupt, asyncio.CancelledError):
            console.print("\ninterrupted")
            return 130
    console.print(f"\nDone in {time.monotonic() - began:.0f} s; every process has stopped.")
    return 0


def _plan(data_dir: Path, redis_dir: Path) -> StackPlan:
    """Free ports, so that it runs beside anything else; Redis's data is forgotten afterwards."""
    settings = EdgeSettings()
    configured = settings.redis_url if "redis_url" in settings.model_fields_set else None
    return StackPlan(
        data_dir=data_dir.resolve(),
        host="127.0.0.1",
        port=free_port(),
        redis_url=configured,
        redis_dir=redis_dir,
    )


class _Demo:
    """One run over a stack that is not started yet."""

    def __init__(self, stack: Stack, question: Path, console: Console, api_key: str | None) -> None:
        self._stack = stack
        self._question = question
        self._console = console
        self._api_key = api_key
        self._data_dir = stack.plan.data_dir

    async def run(self) -> None:
        self._console.print("Starting Redis, edge, worker, recorder and cleanup …")
        async with self._stack.running() as guard:
            await unless_failed(guard, self._converse())

    async def _converse(self) -> None:
        await wait_until_ready(self._stack, self._progress, READY_TIMEOUT_S)
        self._console.print()
        heard = await ask_file(
            self._stack.plan.edge_url,
            self._question,
            PROMPT,
            PATIENCE_S,
            self._data_dir / "reply.wav",
            Transcript(self._console),
            STEADY,
            api_key=self._api_key,
        )
        if not heard.answered:
            raise DemoFailed(f"no complete answer within {PATIENCE_S:.0f} s after the question")
        await self._show_recording(heard)

    def _progress(self, service: str, what: str) -> None:
        self._console.print(prefix(service).append(what))

    async def _show_recording(self, heard: Heard) -> None:
        if heard.recording is None:
            raise DemoFailed("the session was not recorded")
        folder = self._data_dir / "sessions" / heard.recording
        deadline = time.monotonic() + RECORDED_TIMEOUT_S
        while (meta := _meta(folder)) is None or meta.is_busy:
            if time.monotonic() > deadline:
                raise DemoFailed(f"the recording in {folder} was not completed")
            await asyncio.sleep(_POLL_S)
        if meta.state is not RecordingState.COMPLETE:
            raise DemoFailed(f"the recording in {folder} was interrupted")
        self._console.print("\nThe session was recorded in")
        self._console.print(folder_tree(folder), markup=False)


def _meta(folder: Path) -> Meta | None:
    path = folder / META_FILE
    return parse_meta(path.read_bytes()) if path.exists() else None


async def _until_sigterm(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await work
