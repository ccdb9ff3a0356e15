"""Clients that do not read, workers and Redis that fail, and operators that shut the edge down."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pybase64
import pytest
from websockets.asyncio.client import connect

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import (
    CancelIn,
    ChunkIn,
    ClearIn,
    ItemIn,
    PreparedOut,
    PrepareIn,
    RespondIn,
    SettingsIn,
    TextAddedOut,
    TextIn,
)
from antiphon.shared_schemas.states import EndReason
from support.constants import variables
from support.edge_harness import (
    WITHIN_S,
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    ended,
    played_worker,
    prepared_session,
    result,
    running_edge,
    unresponsive_client,
)
from support.fork_server import ForkedProcess, fork_server, run_main
from support.ports import free_port
from support.raw_client import Wire
from support.raw_socket import PING, TEXT, frame, raw_socket
from support.redis_server import RedisServer
from support.resuming_client import Resumer

EDGE = "antiphon.edge.__main__"


async def _exchange(client: Wire, session: PlayedSession, text: str) -> None:
    await client.send("audio_chunk", audio=base64_audio(1600))
    await session.answer(text=text)
    assert (await client.expect("result"))["text"] == text


@pytest.mark.edge(ping_interval_s=0.2, ping_timeout_s=0.2)
async def test_f10_a_half_open_client_is_detected(edge: RunningEdge, broker: Broker) -> None:
    """It answers no ping and never closes its side of the connection."""
    async with unresponsive_client(edge, "/ws/duplex/adx_half"):
        assert (await ended(broker, "adx_half")).reason is EndReason.CLIENT_GONE


@pytest.mark.edge(ping_interval_s=0.1, ping_timeout_s=0.1)
async def test_a_long_upload_is_not_taken_for_a_half_open_client(edge: RunningEdge) -> None:
    """A client answers a ping behind what it is sending."""
    async with raw_socket(edge.ws, "/ws/chat") as socket:
        size = 10 * 4096
        await socket.send(frame(TEXT, length=size))
        for _ in range(10):
            await asyncio.sleep(0.05)
            await socket.send(b"x" * (size // 10))
        while (received := await socket.frame())[0] == PING:
            pass
        assert received[0] == TEXT
        assert b"valid JSON" in received[1]


async def test_deflate_is_not_negotiated(edge: RunningEdge) -> None:
    """Compression costs five times as much as the rest of the edge's work."""
    async with connect(f"{edge.ws}/ws/duplex/adx_1") as socket:
        assert socket.response is not None
        assert "Sec-WebSocket-Extensions" not in socket.response.headers
        assert "Server" not in socket.response.headers


async def test_a_session_that_ends_before_its_client(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    for reason, code, close in (
        (EndReason.WORKER_LOST, "worker_lost", 1013),
        (EndReason.CONTEXT_FULL, "context_full", 1011),
    ):
        async with prepared_session(edge, worker, f"adx_{code}") as (client, session):
            await session.end(reason)
            error = await client.expect_error(code)
            assert error["retryable"] is (code != "context_full")
            assert await client.close_code() == close
            assert (await ended(broker, f"adx_{code}")).reason is reason


async def test_the_edge_sends_the_final_message_that_the_worker_did_not(
    edge: RunningEdge, worker: PlayedWorker
) -> None:
    for reason, message in ((EndReason.STOPPED, "stopped"), (EndReason.PAUSE_TIMEOUT, "timeout")):
        async with prepared_session(edge, worker, f"adx_{message}") as (client, session):
            await session.end(reason)
            await client.expect(message)
            assert await client.close_code() == 1000


@pytest.mark.parametrize("reason", [EndReason.STOPPED, EndReason.WORKER_LOST])
async def test_f6_no_answer_is_lost_when_the_end_arrives_before_it(
    edge: RunningEdge,
    worker: PlayedWorker,
    monkeypatch: pytest.MonkeyPatch,
    reason: EndReason,
) -> None:
    """After an outage, the edge may read the event of the end first, and the answers much later."""
    reader = edge.edge.broker.reader
    monkeypatch.setattr(reader, "subscribe", _late(reader.subscribe, after=2))
    async with prepared_session(edge, worker) as (client, session):
        await _exchange(client, session, "in time")
        for number in (2, 3):
            await session.publish(result(number, text=f"late {number}"))
        await session.end(reason)
        assert [(await client.expect("result"))["text"] for _ in range(2)] == ["late 2", "late 3"]
        await client.expect("stopped" if reason is EndReason.STOPPED else "error")


def _late(subscribe: Callable[..., Any], after: int) -> Callable[..., Any]:
    """A subscription that delivers nothing after a number of entries."""

    @asynccontextmanager
    async def opened(*args: Any, **options: Any) -> AsyncIterator[AsyncIterator[Any]]:
        async with subscribe(*args, **options) as entries:

            async def delivered() -> AsyncIterator[Any]:
                for _ in range(after):
                    yield await anext(entries)
                await asyncio.Event().wait()

            yield delivered()

    return opened


async def test_a_session_whose_row_is_lost_ends_in_an_error(
    edge: RunningEdge, broker: Broker
) -> None:
    """There is no event for it; the heartbeat detects it."""
    async with edge.client("adx_1") as client:
        await client.expect("queued")
        await broker._redis.call("DEL", broker.keys.session("adx_1"))
        error = await client.expect("error", skip=("queue_update",))
        assert error["code"] == "broker_unavailable"
        assert await client.close_code() == 1013


async def test_an_endless_outage_of_redis(redis_server: RedisServer) -> None:
    settings = BrokerSettings(redis_url=redis_server.url, key_prefix="t-outage")
    async with (
        open_broker(settings) as broker,
        running_edge(settings, broker_patience_s=1.0) as edge,
        played_worker(broker) as worker,
        prepared_session(edge, worker) as (client, session),
    ):
        worker.stop_heartbeat()
        redis_server.stop()
        await client.send("audio_chunk", audio=base64_audio())
        error = await client.expect_error("broker_unavailable")
        assert error["retryable"] is True
        assert await client.close_code() == 1013
        async with edge.http() as http:
            assert (await http.get("/health")).json()["redis"] == "unavailable"
        redis_server.start()
        assert (await ended(broker, session.claim.sid)).reason is EndReason.ERROR


async def test_a_resumable_client_is_closed_when_the_outage_of_redis_does_not_end(
    redis_server: RedisServer,
) -> None:
    settings = BrokerSettings(redis_url=redis_server.url, key_prefix="t-outage")
    client = Resumer("/ws/duplex/adx_1")
    async with (
        open_broker(settings) as broker,
        running_edge(settings, broker_patience_s=1.0) as edge,
        played_worker(broker) as worker,
    ):
        async with client.connected(edge.ws):
            session = await worker.claim()
            await client.expect("queue_done", skip=("queued", "queue_update"))
            await client.send("prepare")
            await session.prepare()
            await client.expect("prepared")
            redis_server.stop()
            await client.send("audio_chunk", audio=base64_audio(1600))
            assert await client.close_code() == 1012
        redis_server.start()
        async with client.back(edge.ws):
            await client.send("audio_chunk", audio=base64_audio(1600))
            await session.answer(text="still here")
            assert (await client.expect("result"))["text"] == "still here"
            await client.send("stop")


async def test_input_during_an_outage_is_bounded(redis_server: RedisServer) -> None:
    settings = BrokerSettings(redis_url=redis_server.url, key_prefix="t-outage")
    async with (
        open_broker(settings) as broker,
        running_edge(settings) as edge,
        played_worker(broker) as worker,
        prepared_session(edge, worker) as (client, session),
    ):
        redis_server.freeze()
        sent = 60
        for _ in range(sent):
            await client.send("audio_chunk", audio=base64_audio(160))
        await client.expect_error("input_backpressure", "type")
        redis_server.thaw()
        await client.send("stop")
        taken = 0
        while isinstance((await session.read())[1], ChunkIn):
            taken += 1
        assert 32 <= taken < sent
        await client.abort()


@dataclass
class Outage:
    """A session whose Redis stops at times."""

    redis: RedisServer
    client: Wire
    worker: PlayedWorker

    async def fill(self, type_: str) -> None:
        """Sends silence while Redis does not answer, until the edge refuses more."""
        self.redis.freeze()
        for _ in range(50):
            await self.append(type_)
        await self.client.expect("error")

    async def append(self, type_: str, ms: int = 100) -> None:
        silence = pybase64.b64encode_as_string(bytes(48 * ms))
        await self.client.send(type_, audio=silence)


@pytest.fixture
async def outage(
    redis_server: RedisServer, request: pytest.FixtureRequest
) -> AsyncIterator[Outage]:
    settings = BrokerSettings(
        redis_url=redis_server.url, key_prefix="t-outage", redis_timeout_s=30.0
    )
    async with (
        open_broker(settings) as broker,
        running_edge(settings) as edge,
        played_worker(broker) as worker,
        edge.open(request.param) as client,
    ):
        yield Outage(redis_server, client, worker)
        await client.abort()


@pytest.mark.parametrize("outage", ["/v1/live/sessions"], indirect=True)
async def test_acknowledgements_after_sound_that_was_refused(outage: Outage) -> None:
    client = outage.client
    await client.send("session.start", session={"model": "m"}, event_id="start")
    session = await outage.worker.claim()
    await session.expect(PrepareIn)
    await session.publish(PreparedOut(input_n=1, prompt_length=1, chunk_ms=100))
    assert (await client.expect("session.started"))["client_event_id"] == "start"
    await outage.fill("session.input_audio.append")
    outage.redis.thaw()
    await client.send(
        "session.commentary.append", content="Hello.", delegation_id=None, event_id="text"
    )
    while not isinstance((read := await session.read())[1], TextIn):
        assert isinstance(read[1], ChunkIn)
    await session.publish(TextAddedOut(text_n=read[0].n))
    assert (await client.expect("session.commentary.appended"))["client_event_id"] == "text"


APPEND = "input_audio_buffer.append"


async def _granted_realtime(outage: Outage) -> PlayedSession:
    await outage.client.expect("session.created")
    session = await outage.worker.claim()
    await _clear(outage.client)
    await session.expect(SettingsIn)
    await session.expect(ClearIn)
    return session


async def _clear(client: Wire) -> None:
    await client.send("input_audio_buffer.clear")
    await client.expect("input_audio_buffer.cleared")


@pytest.mark.parametrize("outage", ["/v1/realtime?model=any"], indirect=True)
async def test_commands_behind_sound_that_is_refused(outage: Outage) -> None:
    """The edge holds back less than 100 ms of sound until the next command."""
    client, session = outage.client, await _granted_realtime(outage)
    await outage.fill(APPEND)
    await outage.append(APPEND, ms=10)
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    await client.send("conversation.item.create", item=item)
    await client.expect("conversation.item.added")
    await client.expect("conversation.item.done")
    await outage.append(APPEND, ms=10)
    await client.send("response.create", event_id="ask")
    await client.send("response.cancel")
    outage.redis.thaw()
    while isinstance((entry := (await session.read())[1]), ChunkIn):
        pass
    assert isinstance(entry, ItemIn)
    assert (await session.expect(RespondIn)).event_id == "ask"
    await session.expect(CancelIn)
    await _clear(client)


@pytest.mark.parametrize("outage", ["/v1/realtime?model=any"], indirect=True)
async def test_a_refused_command_behind_sound_that_is_refused(outage: Outage) -> None:
    client = outage.client
    await _granted_realtime(outage)
    await outage.fill(APPEND)
    await outage.append(APPEND, ms=10)
    await client.send("response.cancel", event_id="cancel")
    error = (await client.expect("error"))["error"]
    assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "cancel")
    outage.redis.thaw()
    await _clear(client)


@pytest.mark.edge(drain_s=3)
async def test_a_drained_edge_notifies_its_clients_and_refuses_connections(
    edge: RunningEdge, worker: PlayedWorker, http: httpx.AsyncClient, broker: Broker
) -> None:
    """So a load balancer sends newcomers elsewhere, by new connections and by those that it keeps."""
    async with prepared_session(edge, worker) as (client, session):
        assert (await http.get("/health")).status_code == 200
        draining = asyncio.create_task(edge.edge.drain())
        await asyncio.sleep(0)
        with pytest.raises(httpx.TransportError):  # it may not know yet that the kept one is closed
            await http.get("/health")
        with pytest.raises(httpx.ConnectError):
            await http.get("/health")
        with pytest.raises(ConnectionRefusedError):
            async with edge.client("adx_late"):
                pass
        await _exchange(client, session, "a last word")
        error = await client.expect_error("server_shutdown")
        assert error["retryable"] is True
        assert await client.close_code() == 1012
        await draining
        assert (await ended(broker, "adx_1")).reason is EndReason.SERVER_SHUTDOWN


async def test_f5_sigterm_drains_an_edge_and_it_exits_0(
    settings: BrokerSettings, broker: Broker, tmp_path: Path
) -> None:
    port = free_port()
    process = await _start_edge(settings, port, tmp_path, drain_s=0.2)
    try:
        async with connect(f"ws://127.0.0.1:{port}/ws/duplex/adx_1") as socket:
            client = Wire(socket)
            await client.expect("queued")
            process.send_signal(signal.SIGTERM)
            await client.expect("error", skip=("queue_update",))
            assert await client.close_code() == 1012
        assert await asyncio.to_thread(process.wait, timeout=WITHIN_S) == 0
        assert (await ended(broker, "adx_1")).reason is EndReason.SERVER_SHUTDOWN
    finally:
        process.kill()


async def test_an_edge_that_cannot_start_reports_why(
    settings: BrokerSettings, tmp_path: Path
) -> None:
    nowhere = settings.model_copy(update={"redis_url": f"redis://127.0.0.1:{free_port()}/0"})
    environment = _environment(nowhere, free_port())
    done = await asyncio.to_thread(run_main, EDGE, folder=tmp_path, environment=environment)
    assert done.returncode == 1
    assert "edge_cannot_start" in done.stderr
    assert "Traceback" not in done.stderr


async def _start_edge(
    settings: BrokerSettings, port: int, folder: Path, **own: float
) -> ForkedProcess:
    process = await asyncio.to_thread(
        fork_server().start,
        EDGE,
        folder=folder,
        environment=_environment(settings, port, **own),
        output=folder / "log",
    )
    async with asyncio.timeout(90), httpx.AsyncClient() as http:
        while True:
            try:
                await http.get(f"http://127.0.0.1:{port}/health")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return process


def _environment(settings: BrokerSettings, port: int, **own: float) -> dict[str, str]:
    values: dict[str, object] = {
        "redis_url": settings.redis_url,
        "key_prefix": settings.key_prefix,
        "port": port,
        "edge_health_port": 0,
        **own,
    }
    return {**os.environ, **variables(values)}
