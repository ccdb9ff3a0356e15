"""Counts the functions of this repository on the path of one audio chunk and its result.

    python bench/hops.py [--list] [--resume]

Runs a private Redis, an edge and a worker with engine `simulated` in this process, with a plain
full-duplex session over JSON. Counts every call from the chunk's arrival to the end of its unit.
Tasks that ran before the session, and those that they start, are not counted: they are heartbeats and
checks of the services. A function counts if all chunks but one run through it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pybase64
import structlog
from websockets.asyncio.client import ClientConnection, connect

from antiphon.edge.service import serving
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.inference_worker.worker import run as run_worker
from processes import private_redis

ROOT = Path(__file__).resolve().parents[1]
CHUNKS = 12
_COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")
AUDIO = pybase64.b64encode_as_string(bytes(4 * 16_000))


class CallRecorder:
    """Records the calls of this repository's functions in all threads, with their times."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, CodeType]] = []
        self.background: set[asyncio.Task[Any]] = set()
        """Tasks whose calls are not recorded."""
        self._known: dict[str, bool] = {}
        self.on = False

    def install(self) -> None:
        """Record this thread and those that start later."""
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def create_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> asyncio.Task[Any]:
        """The task factory: what a task in the background starts is in the background, too."""
        task = asyncio.Task(coroutine, loop=loop, **options)
        if self.on and asyncio.current_task() in self.background:
            self.background.add(task)
        return task

    def _event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self.on and event == "call" and self._is_here(frame.f_code.co_filename):
            try:
                task = asyncio.current_task()
            except RuntimeError:  # on an engine's thread
                task = None
            if task not in self.background:
                self.calls.append((time.perf_counter(), frame.f_code))

    def _is_here(self, file: str) -> bool:
        if file not in self._known:
            path = Path(file).resolve()
            self._known[file] = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in (
                "antiphon",
                "broker",
                "edge",
                "inference_worker",
                "shared_schemas",
            )
        return self._known[file]


async def receive(socket: ClientConnection, type_: str) -> dict[str, Any]:
    """The next message of this type."""
    while (message := json.loads(await socket.recv()))["type"] != type_:
        pass
    return message  # type: ignore[no-any-return]


async def measure(recorder: CallRecorder, url: str, query: str) -> list[list[CodeType]]:
    """The calls of each chunk."""
    chunk = json.dumps({"type": "audio_chunk", "audio": AUDIO})
    runs: list[list[CodeType]] = []
    await asyncio.sleep(2.0)  # the services have started their tasks
    recorder.background = asyncio.all_tasks()
    asyncio.get_running_loop().set_task_factory(recorder.create_task)
    async with connect(f"{url}/ws/duplex/adx_hops{query}", max_size=None) as socket:
        await receive(socket, "queue_done")
        await socket.send(json.dumps({"type": "prepare", "prefix_system_prompt": "Be brief."}))
        await receive(socket, "prepared")
        for _ in range(CHUNKS):
            recorder.calls.clear()
            recorder.on = True
            await socket.send(chunk)
            await receive(socket, "result")
            await asyncio.sleep(random.uniform(0.5, 0.9))  # not in step with periodic work
            recorder.on = False
            runs.append([code for _, code in sorted(recorder.calls, key=lambda call: call[0])])
    return runs


def common(runs: list[list[CodeType]]) -> list[CodeType]:
    """The calls of the shortest run, of the functions that are in all runs but one."""
    presence = Counter(code for run in runs for code in set(run))
    return [code for code in min(runs, key=len) if presence[code] >= len(runs) - 1]


async def run(query: str) -> list[list[CodeType]]:
    """Start the services, measure, and stop them."""
    recorder = CallRecorder()
    recorder.install()
    stop = asyncio.Event()
    with private_redis() as (redis, _):
        async with serving(EdgeSettings(redis_url=redis, port=0, edge_health_port=0)) as (
            _edge,
            url,
        ):
            worker = WorkerSettings(redis_url=redis, engine="simulated", slots=1, health_port=0)
            task = asyncio.create_task(run_worker(worker, stop))
            try:
                return await measure(recorder, "ws" + url.removeprefix("http"), query)
            finally:
                stop.set()
                await task


def place(code: CodeType) -> tuple[str, str]:
    """File and function of a code object; a comprehension is part of its function."""
    name = code.co_qualname
    while name.endswith(_COMPREHENSIONS):
        name = name.rpartition(".<locals>.")[0] or "<module>"
    return Path(code.co_filename).resolve().relative_to(ROOT).as_posix(), name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the calls in order")
    parser.add_argument("--resume", action="store_true", help="measure a resumable session")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    runs = asyncio.run(run("?resume=1" if options.resume else ""))
    calls = common(runs)
    places = [place(code) for code in calls]
    if options.list:
        for code, (file, name) in zip(calls, places, strict=True):
            print(f"{file}:{code.co_firstlineno} {name}")
    functions = Counter(places)
    files = Counter(file for file, _ in functions)
    packages = Counter(file.partition("/")[0] for file, _ in functions)
    print(f"{'file':44} functions  entries")
    for file in sorted(files):
        entries = sum(count for (each, _), count in functions.items() if each == file)
        print(f"{file:44} {files[file]:9} {entries:8}")
    print(f"functions by package: {dict(packages)}")
    print(f"{len(calls)} entries, {len(functions)} functions, {len(files)} files")
    others = {place(code) for each in runs for code in each} - set(places)
    print(
        f"not counted, because several of the {CHUNKS} chunks do not run through them: {len(others)}"
    )


if __name__ == "__main__":
    main()
