"""A worker in this process with a scripted engine, and a client that uses the streams directly."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.streams import StreamWriter
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from antiphon.inference_worker.heartbeat import WorkerHeartbeat
from antiphon.inference_worker.pool import SessionPool
from antiphon.inference_worker.sessions.transcripts import UserTranscriber
from antiphon.inference_worker.sessions.worker_context import EngineExecutor, WorkerContext
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.inference_worker.worker import Claimer
from antiphon.shared_schemas.audio import INPUT_RATE, Samples, float_bytes
from antiphon.shared_schemas.entries import ChunkIn, InEntry, OutEntry, StreamPosition
from antiphon.shared_schemas.registry import SessionRow
from antiphon.shared_schemas.states import SessionKind, SessionState
from support.scripted_engine import (
    Answer,
    ScriptedConversation,
    ScriptedProcessor,
    ScriptedView,
    Step,
    listens,
    two_pieces,
)
from support.stack import until

SID = "adx_test"

E = TypeVar("E", bound=OutEntry)


def chunks(audio: Samples, size: int = INPUT_RATE // 5) -> list[ChunkIn]:
    """What a client sends of `audio` (16 kHz), in entries of `size` samples."""
    return [ChunkIn(audio=float_bytes(audio[i : i + size])) for i in range(0, len(audio), size)]


@dataclass
class StreamClient:
    """The client's side of one session, directly on the streams."""

    broker: Broker
    writer: StreamWriter
    ticket: int
    received: asyncio.Queue[tuple[StreamPosition, OutEntry]] = field(default_factory=asyncio.Queue)

    async def send(self, *entries: InEntry) -> None:
        for entry in entries:
            await self.writer.append(entry)

    async def receive(self) -> OutEntry:
        async with asyncio.timeout(60):
            return (await self.received.get())[1]

    async def expect(self, kind: type[E]) -> E:
        entry = await self.receive()
        assert isinstance(entry, kind), entry
        return entry

    async def row(self) -> SessionRow:
        row = await self.broker.sessions.get(SID)
        assert row is not None
        return row

    async def ended(self) -> SessionRow:
        async with asyncio.timeout(60):
            while (row := await self.row()).state is not SessionState.ENDED:
                await asyncio.sleep(0.01)
        return row

    async def receive_until(self, kind: type[E]) -> tuple[list[OutEntry], E]:
        """All entries before the first one of a class, and that entry."""
        before: list[OutEntry] = []
        while not isinstance(entry := await self.receive(), kind):
            before.append(entry)
        return before, entry


@asynccontextmanager
async def stream_client(
    broker: Broker, kind: SessionKind = SessionKind.AUDIO_DUPLEX
) -> AsyncIterator[StreamClient]:
    await broker.registry.edge_beat("edge", [])
    ticket = await broker.queue.join(SID, kind, edge="edge", recording="r")
    writer = await broker.streams.input_writer(SID, ticket.number)
    client = StreamClient(broker, writer, ticket.number)
    start = StreamPosition.before(ticket.number)
    async with broker.reader.subscribe(broker.keys.outbound(SID), start) as subscription:

        async def listen() -> None:
            async for position, entry in subscription:
                client.received.put_nowait((position, entry))

        task = asyncio.create_task(listen())
        yield client
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@dataclass
class RunningWorker:
    """One worker's loops in this process, with a scripted engine."""

    context: WorkerContext
    pool: SessionPool
    processor: ScriptedProcessor

    @property
    def view(self) -> ScriptedView:
        return self.processor.views[-1]

    @property
    def conversation(self) -> ScriptedConversation:
        return self.processor.conversations[-1]

    async def idle(self) -> None:
        await until(lambda: not self.pool, within_s=60)


@asynccontextmanager
async def running_worker(
    broker: Broker,
    settings: BrokerSettings,
    step: Step = listens,
    worker_id: str = "w1",
    *,
    answer: Answer = two_pieces,
    resumes: bool = True,
    transcriber: UserTranscriber | None = None,
    calls_tools: bool = False,
    greets: bool = False,
    takes_texts: bool = False,
    **overrides: object,
) -> AsyncIterator[RunningWorker]:
    processor = ScriptedProcessor(
        step,
        answer,
        resumes=resumes,
        calls_tools=calls_tools,
        greets=greets,
        takes_texts=takes_texts,
    )
    values = {**settings.model_dump(), "slots": 2, **overrides}
    loops = worker_loops(processor, broker, WorkerSettings(**values), worker_id, transcriber)
    async with loops as parts:
        try:
            yield RunningWorker(*parts, processor)
        finally:
            processor.release()  # a test that fails must not wait for its own engine


@asynccontextmanager
async def worker_loops(
    processor: UnifiedProcessor,
    broker: Broker,
    settings: WorkerSettings,
    worker_id: str = "w1",
    transcriber: UserTranscriber | None = None,
) -> AsyncIterator[tuple[WorkerContext, SessionPool]]:
    """One worker's loops in this process, with a loaded engine."""
    engine = EngineExecutor(settings.slots)
    context = WorkerContext(worker_id, broker, processor, engine, settings, transcriber=transcriber)
    pool = SessionPool(context)
    heartbeat = WorkerHeartbeat(context, pool)
    heartbeat.state = None
    await heartbeat.beat()
    claimer = Claimer(context, pool)
    loops = [claimer.listen(), claimer.fill(), heartbeat.run()]
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield context, pool
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await pool.hand_over()
        engine.close()


OpenSession = Callable[..., AbstractAsyncContextManager[tuple[RunningWorker, StreamClient]]]


@asynccontextmanager
async def open_worker_session(
    broker: Broker, settings: BrokerSettings, kind: SessionKind, *args: Any, **options: Any
) -> AsyncIterator[tuple[RunningWorker, StreamClient]]:
    """A worker, with the arguments of `running_worker`, and the client of one session."""
    async with (
        running_worker(broker, settings, *args, **options) as worker,
        stream_client(broker, kind) as client,
    ):
        yield worker, client
