"""Prometheus metrics of the broker, of the whole system, and of a worker."""

import asyncio
import math
from collections.abc import AsyncIterator

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from redis.asyncio import Redis

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.service.metrics import BrokerMetrics
from antiphon.broker.settings import BrokerSettings
from antiphon.edge.metrics import FleetMetrics
from antiphon.shared_schemas.audio import float_bytes
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import ChunkIn, PreparedOut, PrepareIn, ResultOut, StopIn
from antiphon.shared_schemas.ids import ResumeToken
from antiphon.shared_schemas.states import SessionState
from support.control_plane import AUDIO, CHAT, activate, claim, expire_lease, join, reap, serve
from support.redis_server import RedisServer
from support.scripted_engine import listens, speaks
from support.worker_harness import running_worker, stream_client

pytestmark = pytest.mark.one_redis

CHUNK = ChunkIn(audio=float_bytes(np.zeros(16000, dtype=np.float32)))


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def measured(settings: BrokerSettings, registry: CollectorRegistry) -> AsyncIterator[Broker]:
    """A broker whose metrics are in `registry`."""
    async with open_broker(settings, BrokerMetrics(registry)) as opened:
        yield opened


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(f"antiphon_{name}", labels)
    assert found is not None, f"{name} {labels}"
    return found


async def test_every_script_is_timed_under_its_name(
    measured: Broker, registry: CollectorRegistry
) -> None:
    await join(measured, "a")
    await join(measured, "b")
    assert value(registry, "redis_round_trip_seconds_count", script="enqueue") == 2
    assert 0 < value(registry, "redis_round_trip_seconds_sum", script="enqueue") < 10


async def test_appends_are_timed_by_stream(measured: Broker, registry: CollectorRegistry) -> None:
    ticket = await join(measured, "a")
    writer = await measured.streams.input_writer("a", ticket.number)
    for _ in range(3):
        await writer.append(CHUNK)
    assert value(registry, "stream_append_seconds_count", stream="in") == 3


async def test_unanswered_calls_count_as_failures(
    redis_server: RedisServer, registry: CollectorRegistry
) -> None:
    settings = BrokerSettings(redis_url=redis_server.url)
    async with open_broker(settings, BrokerMetrics(registry)) as broker:
        redis_server.kill()
        with pytest.raises(BrokerUnavailable):
            await broker.queue.snapshot()
    assert value(registry, "redis_failures_total") == 1


async def test_reaped_sessions_are_counted(
    measured: Broker, registry: CollectorRegistry, raw: Redis
) -> None:
    assert value(registry, "reaped_sessions_total", outcome="requeued") == 0
    await measured.registry.edge_beat("edge-1", [])
    await serve(measured)
    await join(measured, "a")
    await claim(measured)
    await expire_lease(measured, raw, "a")
    await reap(measured, raw)
    assert value(registry, "reaped_sessions_total", outcome="requeued") == 1
    assert value(registry, "reaped_sessions_total", outcome="ended") == 0


async def test_a_client_that_does_not_resume_is_counted_apart(
    measured: Broker, registry: CollectorRegistry, raw: Redis
) -> None:
    await measured.registry.edge_beat("edge-1", [])
    token = ResumeToken("a", "secret")
    await measured.queue.join(
        "a", AUDIO, edge="edge-1", recording="r", resume=token, protocol="duplex"
    )
    await raw.hset(measured.keys.session("a"), "seen_at", 1)
    assert await reap(measured, raw) == (0, 1)
    assert value(registry, "reaped_sessions_total", outcome="client_gone") == 1
    assert value(registry, "reaped_sessions_total", outcome="ended") == 0


async def test_the_whole_system_at_one_instant(broker: Broker, registry: CollectorRegistry) -> None:
    await serve(broker, "w1", slots=2)
    await serve(broker, "closing", slots=3, is_open=False)
    for sid in ("a", "b"):
        await join(broker, sid)
    await activate(broker, await claim(broker))
    await claim(broker)
    await join(broker, "c", CHAT)
    workers = FleetMetrics()
    registry.register(workers)
    assert value(registry, "redis_up") == 0
    await workers.refresh(broker)
    assert value(registry, "redis_up") == 1
    assert value(registry, "queue_length") == 1
    assert value(registry, "queue_oldest_wait_seconds") < 60
    assert value(registry, "queue_estimated_wait_seconds") > 0
    sessions = {
        (kind, state): value(registry, "sessions", kind=kind, state=state)
        for kind in ("chat", "audio_duplex")
        for state in ("queued", "assigned", "active", "paused")
    }
    assert {key for key, count in sessions.items() if count} == {
        ("chat", "queued"),
        ("audio_duplex", "assigned"),
        ("audio_duplex", "active"),
    }
    assert value(registry, "slots", engine="test") == 2
    assert value(registry, "slots_used", engine="test") == 2
    assert value(registry, "slots_free", engine="test") == 0
    assert value(registry, "workers", state="idle") == 2
    assert value(registry, "edges") == 1


async def test_there_is_no_estimate_without_a_worker(
    broker: Broker, registry: CollectorRegistry
) -> None:
    await join(broker, "a")
    workers = FleetMetrics()
    registry.register(workers)
    await workers.refresh(broker)
    assert math.isnan(value(registry, "queue_estimated_wait_seconds"))
    await serve(broker)
    await workers.refresh(broker)
    assert value(registry, "queue_estimated_wait_seconds") == 0


async def test_without_redis_only_the_outage_is_exported(
    redis_server: RedisServer, registry: CollectorRegistry
) -> None:
    workers = FleetMetrics()
    registry.register(workers)
    async with open_broker(BrokerSettings(redis_url=redis_server.url)) as broker:
        await workers.refresh(broker)
        redis_server.kill()
        await workers.refresh(broker)
    assert value(registry, "redis_up") == 0
    assert registry.get_sample_value("antiphon_queue_length") is None


async def test_a_worker_measures_every_hop_of_a_unit(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with running_worker(broker, settings, speaks) as worker, stream_client(broker) as client:
        registry = worker.context.metrics.registry
        worker.context.metrics.show(worker.context.counters, 2, lambda: len(worker.pool))
        await client.send(PrepareIn(system_prompt="x", config=DuplexConfig()), CHUNK, CHUNK)
        assert isinstance(await client.receive(), PreparedOut)
        results = [await client.receive() for _ in range(2)]
        assert value(registry, "worker_slots_used") == 1
        await client.send(StopIn())
        await client.ended()
        await worker.idle()
    assert value(registry, "worker_slots") == 2
    assert value(registry, "worker_slots_used") == 0
    assert value(registry, "worker_claims_total", kind="audio_duplex") == 1
    assert value(registry, "worker_claims_total", kind="chat") == 0
    assert value(registry, "worker_units_total", did="speak") == 2
    for hop in ("stream_wait", "unit"):
        assert value(registry, f"worker_{hop}_seconds_count") == 2
    for stage in ("prefill", "all", "finalize"):
        assert value(registry, "worker_engine_seconds_count", stage=stage) == 2
    waits = [r.read_at - r.received_at for r in results if isinstance(r, ResultOut)]
    assert value(registry, "worker_stream_wait_seconds_sum") == pytest.approx(sum(waits) / 1000)


async def test_a_recovered_session_counts_for_its_new_worker(
    broker: Broker, settings: BrokerSettings
) -> None:
    async with stream_client(broker) as client:
        async with running_worker(broker, settings, listens, "w1"):
            await client.send(PrepareIn(system_prompt="x", config=DuplexConfig()), CHUNK)
            for _ in range(2):
                await client.receive()
        async with running_worker(broker, settings, listens, "w2") as second:
            metrics = second.context.metrics
            metrics.show(second.context.counters, 2, lambda: len(second.pool))
            async with asyncio.timeout(60):
                while (await client.row()).state is not SessionState.ACTIVE:
                    await asyncio.sleep(0.01)
                while value(metrics.registry, "worker_recovered_sessions_total") != 1:
                    await asyncio.sleep(0.01)
