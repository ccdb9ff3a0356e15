"""Counts the functions and files that one audio chunk and its result pass through.

    python bench/chunk_path.py [--list]

An edge and a worker with the simulated engine run in this process, with a private Redis. A profiler
records every function of the product that is entered between a chunk and its result. Periodic work,
such as heartbeats, adds functions to some rounds, so the round with the fewest functions counts.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import threading
from collections import Counter
from types import CodeType, FrameType
from typing import Any

import numpy as np
import orjson
import pybase64
import structlog
from websockets.asyncio.client import ClientConnection, connect

from antiphon.edge.service import serving
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.inference_worker.worker import run
from antiphon.shared_schemas.audio import INPUT_RATE
from processes import ROOT, private_redis

_ROUNDS = 20
_ENGINE = "inference_worker/engines/"
_INLINE = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")
_INSTANT = dict.fromkeys(("prepare_ms", "prefill_ms", "listen_ms", "speak_ms", "finalize_ms"), 0.0)


class _CallRecorder:
    """Counts entered functions of the product while `active`, on all threads."""

    def __init__(self) -> None:
        self.active = False
        self.calls: Counter[CodeType] = Counter()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if self.active and event == "call" and code.co_name not in _INLINE and _place(code):
            self.calls[code] += 1


def _place(code: CodeType) -> str:
    """The file of a product function, relative to the repository; empty for other functions."""
    path = code.co_filename.removeprefix(f"{ROOT}/").removeprefix("antiphon/")
    packages = ("edge/", "inference_worker/", "broker/", "shared_schemas/")
    return path if path.startswith(packages) else ""


async def _message(socket: ClientConnection, kind: str) -> dict[str, Any]:
    while (message := orjson.loads(await socket.recv()))["type"] != kind:
        pass
    return dict(message)


async def _rounds(url: str, recorder: _CallRecorder) -> list[Counter[CodeType]]:
    audio = pybase64.b64encode_as_string(np.zeros(INPUT_RATE, "<f4").tobytes())
    chunk = orjson.dumps({"type": "audio_chunk", "audio": audio}).decode()
    found = []
    async with connect(f"ws{url.removeprefix('http')}/ws/duplex/adx_path") as socket:
        await socket.send(orjson.dumps({"type": "prepare"}).decode())
        await _message(socket, "prepared")
        for _ in range(_ROUNDS):
            recorder.calls = Counter()
            recorder.active = True
            await socket.send(chunk)
            await _message(socket, "result")
            recorder.active = False
            found.append(recorder.calls)
            await asyncio.sleep(0.1)  # the finalize step of the unit is not counted
    return found


async def _measure(redis_url: str, recorder: _CallRecorder) -> Counter[CodeType]:
    stop = asyncio.Event()
    options = {**_INSTANT, "speak_ratio": 1.0}
    settings = WorkerSettings(
        redis_url=redis_url, engine="simulated", engine_options=options, health_port=0
    )
    worker = asyncio.create_task(run(settings, stop))
    async with serving(EdgeSettings(redis_url=redis_url, port=0)) as (_, url):
        found = await _rounds(url, recorder)
        stop.set()
        await worker
    return min(found, key=len)


def _report(title: str, calls: Counter[CodeType]) -> None:
    files = {_place(code) for code in calls}
    entries = calls.total()
    print(f"{title:<8} {entries:5} entries {len(calls):5} functions {len(files):4} files")


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the functions that one chunk passes.")
    parser.add_argument("--list", action="store_true", help="print every function")
    listed = parser.parse_args().list
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    recorder = _CallRecorder()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    with private_redis() as (url, _):
        calls = asyncio.run(_measure(url, recorder))
    sys.setprofile(None)
    engine = Counter({c: n for c, n in calls.items() if _place(c).startswith(_ENGINE)})
    _report("engine", engine)
    _report("path", calls - engine)
    if listed:
        for code, count in calls.items():
            print(f"{count:5} {_place(code)}:{code.co_firstlineno} {code.co_qualname}")


if __name__ == "__main__":
    main()
