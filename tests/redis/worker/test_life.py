"""The life of a worker: Redis outage during loading, a claim in flight during the drain."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.sessions import Leases
from antiphon.broker.settings import BrokerSettings
from antiphon.inference_worker import worker
from antiphon.inference_worker.engines.types import LoadProgress
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.shared_schemas.registry import Claim
from antiphon.shared_schemas.states import SessionState
from support.control_plane import join
from support.redis_server import RedisServer
from support.scripted_engine import ScriptedProcessor
from support.stack import until


class SlowToLoad(ScriptedProcessor):
    """An engine that loads until the test releases it."""

    trouble = ""

    def __init__(self) -> None:
        super().__init__()
        self.loading = threading.Event()
        self.may_load = threading.Event()

    def load(self, report: LoadProgress) -> None:
        self.loading.set()
        assert self.may_load.wait(90)


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> SlowToLoad:
    """The engine of the next worker."""
    processor = SlowToLoad()
    monkeypatch.setattr(worker, "build_processor", lambda *_, **__: processor)
    return processor


@asynccontextmanager
async def worker_process(
    settings: BrokerSettings, **overrides: object
) -> AsyncIterator[asyncio.Event]:
    """A worker in this process. It drains when the event is set, or at the end."""
    values = {**settings.model_dump(), "health_port": 0, "drain_s": 0, **overrides}
    stop = asyncio.Event()
    life = asyncio.create_task(worker.run(WorkerSettings(**values), stop))
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(90):
            await life


async def test_the_heap_is_frozen_between_the_load_and_the_first_session(
    settings: BrokerSettings, processor: SlowToLoad, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[set[str]] = []
    with capture_logs() as logs:

        def freeze_heap() -> None:
            before.append({entry["event"] for entry in logs})

        monkeypatch.setattr(worker, "freeze_heap", freeze_heap)
        async with worker_process(settings):
            await until(processor.loading.is_set, within_s=90)
            assert not before
            processor.may_load.set()
            await until(lambda: bool(before), within_s=90)
    (events,) = before
    assert "engine_loading" in events
    assert "worker_ready" not in events


@pytest.mark.parametrize("returns", [True, False])
async def test_a_redis_outage_when_the_model_is_ready_is_waited_for(
    redis_server: RedisServer, processor: SlowToLoad, *, returns: bool
) -> None:
    settings = BrokerSettings(redis_url=redis_server.url)
    with capture_logs() as logs:
        async with worker_process(settings):
            await until(processor.loading.is_set, within_s=90)
            redis_server.stop()
            processor.may_load.set()
            waiting = {"watch events", "report that the worker is ready"}
            await until(lambda: waiting <= {entry.get("waiting_to") for entry in logs})
            if returns:
                redis_server.start()
                await until(lambda: "worker_ready" in {entry["event"] for entry in logs})
                async with open_broker(settings) as broker:
                    assert [one.open for one in (await broker.queue.snapshot()).workers] == [True]
    assert logs[-1]["event"] == "worker_stopped"


async def test_a_claim_that_arrives_during_the_drain_is_released(
    broker: Broker, settings: BrokerSettings, processor: SlowToLoad, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed, may_answer = asyncio.Event(), asyncio.Event()
    ask = Leases.claim

    async def answer_late(leases: Leases, worker_id: str) -> Claim | None:
        claim = await ask(leases, worker_id)
        if claim is not None:
            claimed.set()
            await may_answer.wait()
        return claim

    monkeypatch.setattr(Leases, "claim", answer_late)
    processor.may_load.set()
    with capture_logs() as logs:
        async with worker_process(settings) as stop:
            await join(broker, "s")
            async with asyncio.timeout(90):
                await claimed.wait()
            stop.set()
            await asyncio.sleep(0.05)
            may_answer.set()
            await until(lambda: "worker_draining" in {entry["event"] for entry in logs})
    row = await broker.sessions.get("s")
    assert row is not None
    assert (row.state, row.attempt) == (SessionState.RECOVERING, 1)


async def test_what_troubles_the_engine_is_shown_while_the_worker_serves(
    broker: Broker, settings: BrokerSettings, processor: SlowToLoad
) -> None:
    processor.may_load.set()

    async def details() -> list[tuple[bool, str]]:
        return [(one.open, one.detail) for one in (await broker.queue.snapshot()).workers]

    async def shown(detail: str) -> None:
        async with asyncio.timeout(90):
            while await details() != [(True, detail)]:
                await asyncio.sleep(0.05)

    async with worker_process(settings):
        await shown("")
        processor.trouble = "its server is away"
        await shown("its server is away")
        processor.trouble = ""
        await shown("")
