"""What sessions leave in a worker. Objects are counted: the size of a process depends on its allocator."""

import gc
from collections import Counter

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker.engines.simulated import SimulatedOptions, SimulatedProcessor
from antiphon.inference_worker.engines.types import PastUnit
from antiphon.inference_worker.sessions.recovery import RecoveredSession, StreamHistory
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart, flatten
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    ChunkIn,
    HalfDuplexPrepareIn,
    InEntry,
    OutEntry,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StopIn,
    StoppedOut,
    TurnDoneOut,
)
from antiphon.shared_schemas.states import SessionKind
from support.stack import until
from support.worker_harness import stream_client, worker_loops

OPTIONS = SimulatedOptions(
    **dict.fromkeys(["prepare_ms", "prefill_ms", "listen_ms", "speak_ms", "finalize_ms"], 0.0)
)
SECOND = ChunkIn(audio=bytes(4 * INPUT_RATE))
PREPARE = PrepareIn(system_prompt="", config=DuplexConfig())
CONTENT, BLOBS = flatten([ConversationMessage(Role.USER, (TextPart("hello"),))])
GREETING = HalfDuplexConfig(greeting="Hi")
TALKS: dict[SessionKind, list[tuple[InEntry, type[OutEntry]]]] = {
    SessionKind.AUDIO_DUPLEX: [
        (PREPARE, PreparedOut),
        *[(SECOND, ResultOut)] * 12,
        (StopIn(), StoppedOut),
    ],
    SessionKind.HALF_DUPLEX: [
        (HalfDuplexPrepareIn(content=CONTENT, blobs=BLOBS, config=GREETING), TurnDoneOut),
        (StopIn(), StoppedOut),
    ],
    SessionKind.CHAT: [
        (ChatIn(content=CONTENT, blobs=BLOBS, options=ChatOptions()), ChatDoneOut),
    ],
}


def worker_settings(settings: BrokerSettings) -> WorkerSettings:
    return WorkerSettings(**{**settings.model_dump(), "slots": 2})


def living() -> Counter[str]:
    """The objects of this project's classes, tasks and futures, by class."""
    gc.collect()
    names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    return Counter(name for name in names if name.startswith(("antiphon.", "_asyncio.")))


async def talk(broker: Broker, kind: SessionKind) -> None:
    async with stream_client(broker, kind) as client:
        for sent, answer in TALKS[kind]:
            await client.send(sent)
            await client.receive_until(answer)
        await client.ended()


async def test_sessions_leave_no_objects(broker: Broker, settings: BrokerSettings) -> None:
    own = worker_settings(settings)
    async with worker_loops(SimulatedProcessor(OPTIONS), broker, own) as (context, pool):
        counts = []
        for _ in range(3):
            for _ in range(4):
                for kind in TALKS:
                    await talk(broker, kind)
            await until(lambda: not pool)
            counts.append(living())
        assert context.counters.sessions == 36
    left = counts[-1] - counts[0]
    assert {name: count for name, count in left.items() if count >= 12} == {}


async def test_a_recovered_session_does_not_keep_its_past(
    broker: Broker, settings: BrokerSettings
) -> None:
    own = worker_settings(settings)
    async with stream_client(broker) as client:
        async with worker_loops(SimulatedProcessor(OPTIONS), broker, own, "w1"):
            await client.send(PREPARE)
            await client.expect(PreparedOut)
            for _ in range(20):
                await client.send(SECOND)
                await client.expect(ResultOut)
        async with worker_loops(SimulatedProcessor(OPTIONS), broker, own, "w2"):
            await client.send(SECOND)
            await client.expect(ResultOut)
            gc.collect()
            kept = [e for e in gc.get_objects() if isinstance(e, StreamHistory | RecoveredSession)]
            assert kept == []
            units = [e for e in gc.get_objects() if isinstance(e, PastUnit)]
            assert units
            assert all(unit.audio is None for unit in units)
            await client.send(StopIn())
            await client.expect(StoppedOut)
