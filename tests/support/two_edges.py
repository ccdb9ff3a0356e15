"""A stack with two edges, one of which is killed, and the results of its sessions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from antiphon.broker.client import Broker, open_broker
from antiphon.shared_schemas.entries import DeltaOut, ResultOut
from antiphon.shared_schemas.states import EndReason, SessionState
from support.ports import free_port
from support.stack import Service, Stack, until

QUICK = (
    '{"prepare_ms": 10, "prefill_ms": 10, "listen_ms": 10, "speak_ms": 100, "answer_pieces": 40}'
)


@dataclass
class TwoEdges:
    one: Service
    urls: tuple[str, str]

    @property
    def first(self) -> str:
        return self.urls[0]

    @property
    def other(self) -> str:
        return self.urls[1]


def two_edges(stack: Stack, **settings: object) -> TwoEdges:
    ports = free_port(), free_port()
    one, _ = [stack.edge(port=port, **settings) for port in ports]
    return TwoEdges(one, (f"ws://127.0.0.1:{ports[0]}", f"ws://127.0.0.1:{ports[1]}"))


@asynccontextmanager
async def broker_of(stack: Stack) -> AsyncIterator[Broker]:
    async with open_broker(stack.settings) as broker:
        yield broker


async def published_audio(stack: Stack, sid: str) -> bytes:
    """Every sample that the worker has published."""
    async with broker_of(stack) as broker:
        row = await broker.sessions.get(sid)
        assert row is not None
        entries = broker.streams.history(broker.keys.outbound(sid), row.ticket)
        spoken = [e.audio async for _, e in entries if isinstance(e, ResultOut | DeltaOut)]
    return b"".join(spoken)


async def ended(stack: Stack, sid: str) -> EndReason | None:
    async with broker_of(stack) as broker:

        async def over() -> bool:
            row = await broker.sessions.get(sid)
            return row is not None and row.state is SessionState.ENDED

        await until(over)
        row = await broker.sessions.get(sid)
        assert row is not None
        return row.reason
