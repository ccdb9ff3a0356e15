"""`/metrics` of an edge, on its status port: its measurements of clients."""

from collections.abc import AsyncIterator

import pytest
import structlog
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from antiphon.broker.client import Broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.unit_result import FirstAudio
from support.edge_harness import (
    RunningEdge,
    base64_audio,
    played_worker,
    prepared_session,
    result,
    running_edge,
)

TOKEN = "an-admin-token-of-the-test"


@pytest.fixture
async def edge(settings: BrokerSettings) -> AsyncIterator[RunningEdge]:
    async with running_edge(settings, max_queue_size=1) as running:
        yield running


class Scrape:
    def __init__(self, text: str) -> None:
        self._samples = {
            (sample.name.removeprefix("antiphon_"), *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float:
        return float(self._samples[(name, *sorted(labels.items()))])


async def scrape(edge: RunningEdge) -> Scrape:
    async with edge.status() as http:
        answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return Scrape(answer.text)


async def test_every_hop_of_a_conversation_is_measured(edge: RunningEdge, broker: Broker) -> None:
    async with (
        played_worker(broker, slots=1) as worker,
        prepared_session(edge, worker) as (client, session),
    ):
        for _ in range(3):
            await client.send("audio_chunk", audio=base64_audio())
            await session.answer()
            await client.expect("result")
        during = await scrape(edge)
        assert during.value("edge_connections") == 1
        assert during.value("sessions", kind="audio_duplex", state="active") == 1
        assert during.value("slots_used", engine="played") == 1
        assert during.value("slots_free", engine="played") == 0
        for hop, at_least in (("parse", 4), ("append", 4), ("out_wait", 4), ("send", 5)):
            assert during.value("edge_hop_seconds_count", hop=hop) >= at_least
            assert 0 < during.value("edge_hop_seconds_sum", hop=hop) < 60
        assert during.value("edge_queue_wait_seconds_count") == 1
        await client.send("audio_chunk", audio="?")
        await client.expect("error")
        await client.abort()
        while (after := await scrape(edge)).value("edge_connections"):
            pass
    assert after.value("edge_sessions_started_total", kind="audio_duplex") == 1
    assert after.value("edge_sessions_ended_total", reason="client_gone") == 1
    assert after.value("edge_input_refused_total", reason="invalid_field") == 1


async def test_the_wait_for_the_first_audio_of_an_answer_is_measured(
    edge: RunningEdge, broker: Broker
) -> None:
    async with (
        played_worker(broker, slots=1) as worker,
        prepared_session(edge, worker) as (client, session),
    ):
        for asked_ms_ago in (700, None):
            await client.send("audio_chunk", audio=base64_audio())
            position, chunk = await session.read()
            answer = result(position.n, chunk.at)
            if asked_ms_ago is not None:
                first = FirstAudio(
                    asked_at=chunk.at - asked_ms_ago, kind=SessionKind.AUDIO_DUPLEX, engine="played"
                )
                answer = replace(answer, first_audio=first)
            await session.publish(answer)
            await client.expect("result")
        seen = await scrape(edge)
    labels = {"kind": "audio_duplex", "engine": "played"}
    assert seen.value("edge_first_audio_seconds_count", **labels) == 1
    assert 0.7 <= seen.value("edge_first_audio_seconds_sum", **labels) < 60


async def test_rejected_clients_are_counted_by_reason(edge: RunningEdge) -> None:
    async with edge.client("adx_1") as first:
        await first.expect("queued")
        async with edge.client("adx_2") as second:
            await second.expect_error("queue_full")
        seen = await scrape(edge)
        assert seen.value("queue_length") == 1
        assert seen.value("edge_rejections_total", reason="queue_full") == 1
        assert seen.value("edge_rejections_total", reason="unauthorized") == 0
    for bad in ("bad.id", "worse!"):
        async with edge.client(bad) as client:
            await client.expect_error("invalid_session_id", "session_id")
            assert await client.close_code() == 1008
    assert (await scrape(edge)).value("edge_rejections_total", reason="invalid_session_id") == 2


async def test_process_metrics(edge: RunningEdge) -> None:
    seen = await scrape(edge)
    assert seen.value("process_resident_memory_bytes") > 0
    assert seen.value("redis_up") == 1
    assert seen.value("redis_round_trip_seconds_count", script="edge_beat") >= 1


async def test_the_port_of_clients_has_no_metrics(settings: BrokerSettings) -> None:
    async with running_edge(settings, admin_token=TOKEN) as edge, edge.http() as http:
        for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}):
            answer = await http.get("/metrics", headers=headers)
            assert answer.status_code == 404
            assert "antiphon_" not in answer.text


async def test_the_status_port_says_that_the_edge_drains(edge: RunningEdge) -> None:
    async with edge.status() as http:
        ready = await http.get("/ready")
        assert (ready.status_code, ready.json()["edge_id"]) == (200, edge.edge.id)
        edge.edge.draining = True
        assert [(await http.get(path)).status_code for path in ("/ready", "/health")] == [503, 200]


async def test_every_log_line_of_a_session_contains_its_id(
    edge: RunningEdge, broker: Broker
) -> None:
    with structlog.testing.capture_logs(
        processors=[structlog.contextvars.merge_contextvars]
    ) as logs:
        async with played_worker(broker, slots=1) as worker:
            async with prepared_session(edge, worker, "adx_mine") as (client, _):
                await client.send("stop")
            await edge.edge.events.wait_until_empty()
    mine = {line["event"] for line in logs if line.get("session") == "adx_mine"}
    assert {"session_joined", "session_closed"} <= mine
    assert all(line["instance"] == edge.edge.id for line in logs if "session" in line)
