"""A client that takes answers slowly gets all of them, though the recorder discards the stream meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.streams import StreamWriter
from antiphon.edge.edge_context import EdgeContext, open_edge
from antiphon.edge.session import output_reader
from antiphon.edge.session.admission import ConnectOptions, SessionRequest, admit
from antiphon.edge.session.output_reader import OutputReader
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.entries import ChatDoneOut, DeltaOut, OutEntry, StreamPosition
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.control_plane import report
from support.stack import until

SID, WORKER, WITHIN_S = "chat_1", "w-1", 60.0
PARTS = 150
"""Of an answer: more than two pages of the history."""


@pytest.fixture
async def edge(settings: BrokerSettings) -> AsyncIterator[EdgeContext]:
    async with open_edge(EdgeSettings(**settings.model_dump(), edge_health_port=0)) as opened:
        yield opened


@pytest.fixture(autouse=True)
def last_entry_s(monkeypatch: pytest.MonkeyPatch) -> float:
    wait_s = 0.1
    monkeypatch.setattr(output_reader, "_LAST_ENTRY_S", wait_s)
    return wait_s


class SlowClient:
    """Takes nothing until it `reads`, and each entry slowly then."""

    def __init__(self, edge: EdgeContext, worker: StreamWriter, reader: OutputReader) -> None:
        self.edge = edge
        self.worker = worker
        self.reader = reader
        self.reads = asyncio.Event()
        self.begun = asyncio.Event()
        self.complete = asyncio.Event()
        self.taken: list[str] = []

    async def take(self, _position: StreamPosition, entry: OutEntry, _now_ms: float) -> None:
        self.begun.set()
        await self.reads.wait()
        await asyncio.sleep(0.003)
        if isinstance(entry, DeltaOut):
            self.taken.append(entry.text_delta)
        else:
            self.complete.set()

    async def answer(self) -> None:
        """The worker writes the whole answer."""
        for n in range(PARTS):
            await self.worker.append(DeltaOut(text_delta=str(n)))
        await self.worker.append(
            ChatDoneOut(text="", generated_tokens=PARTS, input_tokens=1, duration_ms=1.0)
        )

    async def discard(self) -> None:
        """As the recorder does, once it has everything."""
        await self.edge.broker.streams.discard(SID, self.worker.last.ticket)

    async def takes_the_rest(self, finishing: asyncio.Task[None]) -> None:
        """The session fails if the reader is finished earlier."""
        self.reads.set()
        async with asyncio.timeout(WITHIN_S):
            await finishing
        assert self.complete.is_set()
        assert self.taken == [str(n) for n in range(PARTS)]


@asynccontextmanager
async def served(edge: EdgeContext) -> AsyncIterator[SlowClient]:
    broker = edge.broker
    await broker.registry.worker_beat(WORKER, report(SessionKind.CHAT, slots=1))
    wanted = SessionRequest(SessionKind.CHAT, "test", [SID])
    async with admit(edge, wanted, ConnectOptions()) as admitted:
        claim = await broker.leases.claim(WORKER)
        assert claim is not None
        worker = await broker.streams.output_writer(SID, claim.ticket, claim.epoch)
        reader = OutputReader(edge, admitted, 2 * PARTS, lambda *given: client.take(*given))
        client = SlowClient(edge, worker, reader)
        yield client
    await broker.sessions.end(SID, EndReason.STOPPED)


def _unread(edge: EdgeContext) -> int:
    """Entries that the edge has in memory for its clients."""
    streams = [each for read in edge.broker.reader._reads for each in read.streams.values()]
    return sum(each.unread for stream in streams for each in stream.subscriptions)


async def test_what_has_been_read_is_delivered_after_the_stream_is_discarded(
    edge: EdgeContext, last_entry_s: float
) -> None:
    async with served(edge) as client, asyncio.TaskGroup() as tasks:
        following = tasks.create_task(client.reader.follow())
        await client.answer()
        await client.begun.wait()
        await until(lambda: _unread(edge) == PARTS)
        finishing = tasks.create_task(client.reader.finish(EndReason.STOPPED, client.complete))
        await asyncio.sleep(5 * last_entry_s)
        await client.discard()
        await client.takes_the_rest(finishing)
        following.cancel()


@pytest.mark.parametrize("reason", [EndReason.STOPPED, EndReason.CANCELLED])
async def test_what_has_not_been_read_is_read_before_the_client_takes_it(
    edge: EdgeContext, broker: Broker, reason: EndReason
) -> None:
    """After an outage, `follow` may have nothing."""
    async with served(edge) as client, asyncio.TaskGroup() as tasks:
        await client.answer()
        finishing = tasks.create_task(client.reader.finish(reason, client.complete))
        await client.begun.wait()
        await client.discard()
        await client.takes_the_rest(finishing)
