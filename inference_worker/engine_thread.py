"""The only bridge from asyncio to the engine: blocking calls on threads, one per session at a time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from antiphon.inference_worker.outlast import outlast

P = ParamSpec("P")
T = TypeVar("T")


class EngineThread:
    """As many threads as sessions, so that an engine may batch the units that are ready together."""

    def __init__(self, slots: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="engine")

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one engine call. It always runs to its end: a caller waits for it, however often cancelled."""
        loop = asyncio.get_running_loop()
        known = copy_context()  # whose session it is, for what is logged on the thread
        return await outlast(
            loop.run_in_executor(self._pool, lambda: known.run(function, *args, **kwargs))
        )

    async def stream(self, pieces: Callable[[], Iterator[T]]) -> AsyncGenerator[T, None]:
        """Run an iterator on one engine thread, and hand its pieces on as they come.

        Closing it early ends the iterator at its next piece, and waits for that.
        """
        loop = asyncio.get_running_loop()
        ready: asyncio.Queue[tuple[T] | None] = asyncio.Queue()
        abandoned = threading.Event()

        def produce() -> None:
            try:
                for piece in pieces():
                    loop.call_soon_threadsafe(ready.put_nowait, (piece,))
                    if abandoned.is_set():
                        return
            finally:
                loop.call_soon_threadsafe(ready.put_nowait, None)

        producing = asyncio.create_task(self.call(produce))
        try:
            while (item := await ready.get()) is not None:
                yield item[0]
            await producing
        finally:
            abandoned.set()
            # What it raised is raised above; whoever closes the stream early does not ask for it.
            with contextlib.suppress(Exception):
                await outlast(producing)

    def close(self) -> None:
        """Let running calls end and give the threads back."""
        self._pool.shutdown(wait=True)
