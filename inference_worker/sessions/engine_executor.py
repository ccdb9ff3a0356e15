"""Runs blocking engine calls on threads. It is the only bridge from asyncio to an engine."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def finish_despite_cancel(work: asyncio.Future[T]) -> T:
    """Await `work` even if the caller is cancelled; raise the cancellation after `work` is done."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return work.result()
    if not work.cancelled():
        work.exception()  # marks it as retrieved, so that asyncio does not report it
    raise cancelled


class EngineExecutor:
    """One thread per session, so that an engine can batch units that are ready together."""

    def __init__(self, slots: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="engine")

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one engine call. The call always completes, even if the caller is cancelled."""
        loop = asyncio.get_running_loop()
        context = copy_context()  # log lines of the thread keep the session's variables
        run = functools.partial(context.run, function, *args, **kwargs)
        return await finish_despite_cancel(loop.run_in_executor(self._pool, run))

    async def stream(self, pieces: Callable[[], Iterator[T]]) -> AsyncGenerator[T, None]:
        """Run an iterator on one engine thread and yield its items as they arrive.

        Closing the generator early stops the iterator at its next item, and waits for that.
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
            # An error was already raised above; a caller that closes the stream does not need it.
            with contextlib.suppress(Exception):
                await finish_despite_cancel(producing)

    def close(self) -> None:
        """Wait for running calls and stop the threads."""
        self._pool.shutdown(wait=True)
