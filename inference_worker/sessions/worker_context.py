"""What all sessions of one worker share: the engine, whose calls block and run on threads, metrics, traces."""

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import NamedTuple, ParamSpec, TypeVar

from prometheus_client import CollectorRegistry

from antiphon.broker.client import Broker
from antiphon.broker.clock import RedisClock
from antiphon.broker.service.tracing import Tracing
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.metrics import WorkerCounters, WorkerMetrics
from antiphon.inference_worker.sessions.transcripts import UserTranscriber
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.entries import ResultOut
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.unit_result import FirstAudio

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
            iterator: Iterator[T] | None = None
            try:
                iterator = pieces()
                for piece in iterator:
                    loop.call_soon_threadsafe(ready.put_nowait, (piece,))
                    if abandoned.is_set():
                        return
            finally:
                # Here, and not where its last reference ends: it may wait for the engine.
                if isinstance(iterator, Generator):
                    iterator.close()
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


class TraceContext(NamedTuple):
    """The trace of the input that an answer is for, and when that input was written (ms)."""

    trace: bytes = b""
    at: float = 0.0


class SessionTracer:
    """Records spans after the work is done, from the measured times."""

    def __init__(self, tracing: Tracing, clock: RedisClock) -> None:
        self._tracing = tracing
        self._clock = clock

    def record_unit(self, result: ResultOut, published_at: float) -> None:
        """`published_at`: when the publishing of the result began (ms)."""
        if not result.trace:
            return
        began_at = published_at - result.cost_all_ms
        about = {"antiphon.listen": result.is_listen, "antiphon.tokens": result.n_tokens}
        self._tracing.record("worker.wait", result.trace, result.received_at, began_at)
        self._tracing.record("engine", result.trace, began_at, published_at, **about)
        self._tracing.record("publish", result.trace, published_at, self._clock.now_ms())

    def record_answer(self, context: TraceContext, took_s: float, tokens: int) -> None:
        """A turn's or a chat's answer that has just been published."""
        if context.trace:
            now_ms = self._clock.now_ms()
            began_at = now_ms - took_s * 1000
            self._tracing.record("worker.wait", context.trace, context.at, began_at)
            about = {"antiphon.tokens": tokens}
            self._tracing.record("engine", context.trace, began_at, now_ms, **about)


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The worker's identity, engine, Redis client, settings and counters."""

    worker_id: str
    broker: Broker
    processor: UnifiedProcessor
    engine: EngineExecutor
    settings: WorkerSettings
    counters: WorkerCounters = field(default_factory=WorkerCounters)
    contended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while every slot is taken and sessions wait that this worker could serve."""
    tracer: SessionTracer | None = None
    transcriber: UserTranscriber | None = None
    metrics: WorkerMetrics = field(default_factory=lambda: WorkerMetrics(CollectorRegistry()))

    @property
    def interim_transcripts(self) -> bool:
        """Whether sessions may have the user's words while the user speaks."""
        return self.transcriber is not None or self.processor.info.interim_transcripts

    def first_audio(self, kind: SessionKind, asked_at: float | None) -> FirstAudio | None:
        """Mark an entry as the first audio for what a user asked then; None: it answers nothing."""
        if asked_at is None:
            return None
        return FirstAudio(asked_at=asked_at, kind=kind, engine=self.processor.info.name)
