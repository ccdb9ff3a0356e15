"""An edge in this process, and a scripted worker that uses the broker."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
import numpy as np
import pybase64
from msgspec.structs import replace
from PIL import Image

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.broker.stream_reader import Subscription
from antiphon.broker.streams import StreamWriter
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.service import serving
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.entries import (
    ChunkIn,
    Entry,
    HalfDuplexPrepareIn,
    OutEntry,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StreamPosition,
)
from antiphon.shared_schemas.registry import Claim, SessionRow, WorkerReport
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState, WorkerState
from antiphon.shared_schemas.unit_result import UnitResult
from support.raw_client import Wire, open_path
from support.raw_socket import raw_socket

WITHIN_S = 120.0
"""Longest wait; only a failing test reaches it."""


async def no_uploaded_voices(_voice_id: str) -> bytes | None:
    """For decoders: nothing was uploaded."""
    return None


def base64_audio(samples: int = 16_000, value: float = 0.0) -> str:
    return pybase64.b64encode_as_string(np.full(samples, value, dtype="<f4").tobytes())


def picture(kind: str = "JPEG", size: tuple[int, int] = (16, 12)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, kind)
    return buffer.getvalue()


@dataclass
class RunningEdge:
    edge: EdgeContext
    url: str

    @property
    def ws(self) -> str:
        return "ws" + self.url.removeprefix("http")

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=WITHIN_S)

    def status(self) -> httpx.AsyncClient:
        """A client of the port with /health and /metrics."""
        return httpx.AsyncClient(base_url=f"http://{self.edge.status_address}", timeout=WITHIN_S)

    def open(self, path: str, **options: Any) -> AbstractAsyncContextManager[Wire]:
        return open_path(self.ws, path, **options)

    def client(
        self, sid: str, query: str = "", **options: Any
    ) -> AbstractAsyncContextManager[Wire]:
        return self.open(f"/ws/duplex/{sid}{query}", **options)


@asynccontextmanager
async def running_edge(settings: BrokerSettings, **overrides: Any) -> AsyncIterator[RunningEdge]:
    patient = {"no_worker_grace_s": WITHIN_S}  # tests start workers late
    own = EdgeSettings(
        **{**settings.model_dump(), "port": 0, "edge_health_port": 0, **patient, **overrides}
    )
    async with serving(own) as (edge, url):
        yield RunningEdge(edge, url)


@dataclass
class PlayedSession:
    broker: Broker
    worker_id: str
    claim: Claim
    writer: StreamWriter
    inputs: AsyncIterator[tuple[StreamPosition, Entry]]

    async def read(self) -> tuple[StreamPosition, Entry]:
        async with asyncio.timeout(WITHIN_S):
            return await anext(self.inputs)

    async def expect(self, kind: type[Any]) -> Any:
        _, entry = await self.read()
        assert type(entry) is kind, entry
        return entry

    async def publish(self, entry: OutEntry) -> None:
        await self.writer.append(entry)

    async def move(self, state: SessionState) -> None:
        assert await self.broker.leases.move(
            self.claim.sid, self.worker_id, self.claim.epoch, state
        )

    async def prepare(self) -> PrepareIn:
        entry: PrepareIn = await self.expect(PrepareIn)
        await self._accept(entry)
        return entry

    async def prepare_half_duplex(self) -> HalfDuplexPrepareIn:
        entry: HalfDuplexPrepareIn = await self.expect(HalfDuplexPrepareIn)
        await self._accept(entry)
        return entry

    async def _accept(self, prepare: PrepareIn | HalfDuplexPrepareIn) -> None:
        await self.move(SessionState.PREPARING)
        claim = self.claim
        past = await self.broker.streams.past_writer(claim.sid, claim.ticket, claim.epoch)
        await past.append(replace(prepare, input_n=1))
        await self.publish(PreparedOut(input_n=1, prompt_length=42))
        await self.move(SessionState.ACTIVE)

    async def answer(self, *, speak: bool = True, text: str = "hi") -> ChunkIn:
        """Answers the next chunk with a second of speech or a listening unit."""
        position, entry = await self.read()
        assert isinstance(entry, ChunkIn), entry
        await self.publish(result(position.n, entry.at, speak=speak, text=text))
        return entry

    async def end(self, reason: EndReason) -> None:
        claim = self.claim
        await self.broker.sessions.end(claim.sid, reason, epoch=claim.epoch, ticket=claim.ticket)

    async def row(self) -> SessionRow:
        row = await self.broker.sessions.get(self.claim.sid)
        assert row is not None
        return row


SPEECH = np.linspace(-0.5, 0.5, 24_000, dtype=np.float32)


def result(n: int, received_at: float = 0.0, *, speak: bool = True, text: str = "hi") -> ResultOut:
    unit = UnitResult(
        is_listen=not speak,
        text=text if speak else "",
        audio=SPEECH if speak else SPEECH[:0],
        current_time=1000 * n,
        cost_llm_ms=1.5,
        n_tokens=3,
    )
    stamps = {"received_at": received_at, "read_at": received_at + 1.0}
    return ResultOut.of(unit, input_n=n, **stamps, prefill_ms=0.5, wall_clock_ms=2.0)


@dataclass
class PlayedWorker:
    """A worker's registry row and claims; the test decides its answers."""

    broker: Broker
    id: str
    slots: int
    kinds: frozenset[SessionKind]
    held: dict[str, int] = field(default_factory=dict)
    subscriptions: list[Any] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        await self._beat()
        self._upkeep = asyncio.create_task(self._renew_leases())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._upkeep.cancel()
        await asyncio.wait([self._upkeep])
        for subscription in self.subscriptions:
            await subscription.__aexit__(None, None, None)

    async def claim(self) -> PlayedSession:
        async with asyncio.timeout(WITHIN_S):
            while (claim := await self.broker.leases.claim(self.id)) is None:
                await asyncio.sleep(0.01)
        return await self._open(claim)

    async def serve(self) -> PlayedSession:
        """Claims a session and answers its `prepare`."""
        session = await self.claim()
        await session.prepare()
        return session

    def stop_heartbeat(self) -> None:
        """Stops heartbeats and renewals, as `kill -9` does."""
        self._upkeep.cancel()

    async def _open(self, claim: Claim) -> PlayedSession:
        self.held[claim.sid] = claim.epoch
        streams, keys = self.broker.streams, self.broker.keys
        writer = await streams.output_writer(claim.sid, claim.ticket, claim.epoch)
        opened = self.broker.reader.subscribe(
            keys.inbound(claim.sid), StreamPosition.before(claim.ticket)
        )
        subscription: Subscription = await opened.__aenter__()
        self.subscriptions.append(opened)
        return PlayedSession(self.broker, self.id, claim, writer, aiter(subscription))

    async def _beat(self) -> None:
        report = WorkerReport(
            engine="played",
            model="none",
            kinds=self.kinds,
            slots=self.slots,
            state=WorkerState.IDLE,
            device="cpu",
            address="127.0.0.1:9",
            open=True,
        )
        await self.broker.registry.worker_beat(self.id, report)

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            await self._beat()
            for sid in await self.broker.leases.renew(self.id, self.held):
                del self.held[sid]


def played_worker(broker: Broker, *, id_: str = "w1", slots: int = 1) -> PlayedWorker:
    return PlayedWorker(broker, id_, slots, frozenset(SessionKind))


@asynccontextmanager
async def prepared_session(
    edge: RunningEdge, worker: PlayedWorker, sid: str = "adx_1", **options: Any
) -> AsyncIterator[tuple[Wire, PlayedSession]]:
    """A client and its claimed session, ready for audio."""
    async with edge.client(sid, **options) as client:
        session = await worker.claim()
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", prefix_system_prompt="Be brief.")
        await session.prepare()
        await client.expect("prepared")
        yield client, session


async def ended(broker: Broker, sid: str, *, within_s: float = WITHIN_S) -> SessionRow:
    """The session's row once it has ended.

    `within_s` counts pauses of 10 ms: a busy machine makes them longer, as it does with the work.
    """
    for _ in range(round(within_s * 100)):
        row = await broker.sessions.get(sid)
        if row is not None and row.state is SessionState.ENDED:
            return row
        await asyncio.sleep(0.01)
    raise TimeoutError(f"the session {sid} has not ended")


@asynccontextmanager
async def unresponsive_client(edge: RunningEdge, path: str) -> AsyncIterator[asyncio.StreamReader]:
    """Performs the handshake by hand; it answers no ping and never closes its side."""
    async with raw_socket(edge.ws, path) as socket:
        yield socket.reader
