"""Clients that resume, with real edges and a real Redis; the test plays the worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.settings import BrokerSettings
from antiphon.edge.session.resume import MissedMessages
from antiphon.shared_schemas.entries import (
    PreparedOut,
)
from antiphon.shared_schemas.states import EndReason
from support.edge_harness import (
    PlayedSession,
    PlayedWorker,
    RunningEdge,
    base64_audio,
    ended,
    result,
    running_edge,
    unresponsive_client,
)
from support.resuming_client import Resumer
from support.stack import until


@asynccontextmanager
async def edges(settings: BrokerSettings) -> AsyncIterator[tuple[RunningEdge, RunningEdge]]:
    async with running_edge(settings) as one, running_edge(settings) as other:
        yield one, other


@asynccontextmanager
async def begun(
    edge: RunningEdge, worker: PlayedWorker
) -> AsyncIterator[tuple[Resumer, PlayedSession]]:
    """A prepared session whose client may resume."""
    client = Resumer("/ws/duplex/adx_1")
    async with client.connected(edge.ws):
        session = await worker.claim()
        await client.expect("queue_done", skip=("queued", "queue_update"))
        await client.send("prepare", prefix_system_prompt="Be brief.")
        await session.prepare()
        assert (await client.expect("prepared"))["resume_token"] == client.token
        yield client, session


async def ask(client: Resumer) -> None:
    await client.send("audio_chunk", audio=base64_audio(1600))


@pytest.mark.parametrize("resumes", [False, True])
async def test_no_number_is_sent_twice_when_a_failover_loses_results(
    settings: BrokerSettings, worker: PlayedWorker, broker: Broker, raw: Redis, resumes: bool
) -> None:
    """The worker is lost as well, and the next one answers the same seconds again, with other words."""
    async with edges(settings) as (one, other), begun(one, worker) as (client, session):
        for text in ("one", "two", "three"):
            await ask(client)
            await session.answer(text=text)
            await client.expect("result")
        sid, ticket, epoch = session.claim.sid, session.claim.ticket, session.claim.epoch
        await raw.delete(broker.keys.outbound(sid))
        kept = await broker.streams.output_writer(sid, ticket, epoch)
        await kept.append(PreparedOut(input_n=1, prompt_length=42))
        await kept.append(result(2, text="one"))
        if resumes:
            await client.abort()
        successor = await broker.streams.output_writer(sid, ticket, epoch + 1)
        for n, text in ((3, "second"), (4, "third"), (5, "fourth")):
            await successor.append(result(n, text=text))
        async with client.back(other.ws) if resumes else nullcontext():
            assert (await client.expect("result"))["text"] == "fourth"
        if not resumes:
            await client.abort()
        async with client.back(one.ws):
            await successor.append(result(6, text="fifth"))
            assert (await client.expect("result"))["text"] == "fifth"


@pytest.mark.parametrize("stored_by", ["heartbeat", "disconnect"])
async def test_a_client_resumes_with_a_token_that_a_failover_has_lost(
    settings: BrokerSettings, worker: PlayedWorker, broker: Broker, raw: Redis, stored_by: str
) -> None:
    async with edges(settings) as (one, other), begun(one, worker) as (client, session):
        key = broker.keys.session(session.claim.sid)
        before = await raw.hgetall(key)
        await client.abort()
        async with client.back(other.ws):
            await ask(client)
            await session.answer(text="one")
            await client.expect("result")
            await raw.hset(key, mapping=before)

            async def is_stored() -> bool:
                return await raw.hget(key, "connection") == b"2"

            if stored_by == "heartbeat":
                await until(is_stored)
            await client.abort()
            await until(is_stored)
        async with client.back(one.ws):
            await ask(client)
            await session.answer(text="two")
            assert (await client.expect("result"))["text"] == "two"


async def test_a_queued_client_that_disconnects_keeps_its_place(
    settings: BrokerSettings, worker: PlayedWorker, broker: Broker
) -> None:
    """The held prepare survives, too, although its edge no longer serves the session."""
    async with edges(settings) as (one, other), one.client("adx_busy") as busy:
        session = await worker.claim()
        client, second = Resumer("/ws/duplex/adx_1"), Resumer("/ws/duplex/adx_2")
        async with client.connected(one.ws):
            queued = await client.expect("queued")
            assert queued["resume_token"] == client.token
        async with client.back(one.ws), second.connected(one.ws):
            assert (await second.expect("queued", skip=("queue_update",)))["position"] == 2
            await client.send("prepare", prefix_system_prompt="Be kept.")
            await client.send("prepare")
            await client.expect("error", skip=("queue_update",))
            await client.abort()
            async with client.back(other.ws):
                place = await client.expect("queue_update")
                assert (place["ticket_id"], place["position"]) == (queued["ticket_id"], 1)
                await busy.send("stop")
                await session.end(EndReason.STOPPED)
                mine = await worker.claim()
                assert mine.claim.sid == "adx_1"
                await client.expect("queue_done", skip=("queue_update",))
                assert (await mine.prepare()).system_prompt == "Be kept."
                await client.expect("prepared")


async def refused(edge: RunningEdge, path: str) -> tuple[int | None, str]:
    async with edge.open(path) as client:
        return await client.close_code(), client.socket.close_reason or ""


EXPIRED = (4410, "resume_expired")


async def test_invalid_tokens_are_rejected(
    settings: BrokerSettings, worker: PlayedWorker, broker: Broker
) -> None:
    async with edges(settings) as (one, other), begun(one, worker) as (client, session):
        sid, good = "adx_1", client.token
        assert good.startswith(f"{sid}.")
        assert len(good) > 36
        for token in ("", "x", sid, f"{sid}.", f"{good}x", good[:-1], f"adx_2{good[5:]}", "é.é"):
            path = f"/ws/duplex/{sid}?resume_token={token}&seq=1"
            assert await refused(other, path) == EXPIRED, token
        for path in (
            f"/ws/duplex/adx_2?resume_token={good}&seq=1",
            f"/ws/half_duplex/{sid}?resume_token={good}&seq=1",
            f"/ws/chat?resume_token={good}&seq=1",
            f"/v1/realtime?mode=audio&resume_token={good}&seq=1",
        ):
            assert await refused(other, path) == EXPIRED, path
        await ask(client)
        await session.answer(text="unnoticed")
        assert (await client.expect("result"))["text"] == "unnoticed"
        async with client.back(other.ws):
            path = f"/ws/duplex/{sid}?resume_token={good}&seq=1"
            assert await refused(one, path) == EXPIRED
            await client.abort()
        await until(lambda: not other.edge.events.serving())
        assert await refused(one, path) == EXPIRED
        async with client.back(one.ws):
            pass
        raw = await one.edge.broker._redis.call("HGETALL", broker.keys.session(sid))
        assert good.encode() not in b"".join(part for pair in raw.items() for part in pair)


async def test_a_token_that_never_arrived_is_not_needed(
    settings: BrokerSettings, worker: PlayedWorker
) -> None:
    """The connection broke before `resumed` arrived, so the client only has the earlier token."""
    async with edges(settings) as (one, other), begun(one, worker) as (client, session):
        token = client.token
        await client.abort()
        await until(lambda: not one.edge.events.serving())
        async with unresponsive_client(other, f"/ws/duplex/adx_1?resume_token={token}&seq=16"):
            await until(lambda: len(other.edge.events.serving()) == 1)
        await until(lambda: not other.edge.events.serving())
        await other.edge.terminator.wait_until_done(1)
        async with client.back(one.ws, token=token):
            await ask(client)
            await session.answer(text="at last")
            assert (await client.expect("result"))["text"] == "at last"


async def test_f6_an_outage_during_a_resume_costs_an_attempt(
    settings: BrokerSettings, worker: PlayedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_edge(settings) as edge, begun(edge, worker) as (client, session):
        await client.abort()
        await until(lambda: not edge.edge.events.serving())
        with monkeypatch.context() as outage:
            outage.setattr(MissedMessages, "actions", _unavailable)
            path = f"/ws/duplex/adx_1?resume_token={client.token}&seq={client.last}&attempt=1"
            assert (await refused(edge, path))[0] == 1012
        await until(lambda: not edge.edge.events.serving())
        async with client.back(edge.ws, attempt=2):
            await ask(client)
            await session.answer(text="still here")
            assert (await client.expect("result"))["text"] == "still here"


async def _unavailable(*_: object, granted: bool) -> AsyncIterator[Any]:
    raise BrokerUnavailable("Redis does not answer")
    yield


async def test_f21_a_number_that_was_never_sent_is_refused(
    settings: BrokerSettings, worker: PlayedWorker
) -> None:
    """The attempt changes nothing: the client may resume with the right number."""
    async with running_edge(settings) as edge, begun(edge, worker) as (client, session):
        await ask(client)
        await session.answer(text="one")
        await client.expect("result")
        await client.abort()
        for beyond in (client.last + 1, 10**15 - 1):
            query = {"resume": 1, "resume_token": client.token, "seq": beyond}
            async with client._open(client._url(edge.ws, **query)):
                assert await client.close_code() == 4410
                assert client.socket.close_reason == "resume_expired"
        resumes = edge.edge.metrics.resumes
        counts = [resumes.labels(outcome)._value.get() for outcome in ("resumed", "expired")]
        assert counts == [0, 2]
        async with client.back(edge.ws):
            await ask(client)
            await session.answer(text="two")
            assert (await client.expect("result"))["text"] == "two"


async def test_an_invalid_number_is_refused(settings: BrokerSettings, worker: PlayedWorker) -> None:
    async with edges(settings) as (one, _), begun(one, worker) as (client, _):
        for seq in ("x", "-1", "1e3", "9" * 20):
            path = f"/ws/duplex/adx_1?resume_token={client.token}&seq={seq}"
            async with one.open(path) as other:
                await other.expect_error("invalid_field", "seq")
                assert await other.close_code() == 1008


@pytest.mark.parametrize("granted", [True, False])
async def test_a_normal_close_ends_the_session_at_once(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker, granted: bool
) -> None:
    """Its client has a token, and leaves without `stop`."""
    async with nullcontext() if granted else edge.client("adx_busy"):
        if not granted:
            await worker.claim()
        client = Resumer("/ws/duplex/adx_1")
        async with client.connected(edge.ws):
            await client.expect("queued")
            if granted:
                await worker.claim()
                await client.expect("queue_done", skip=("queue_update",))
            assert client.token
            await client.socket.close(1000)
        assert (await ended(broker, "adx_1")).reason is EndReason.CLIENT_GONE


async def test_another_close_is_a_lost_connection(edge: RunningEdge, worker: PlayedWorker) -> None:
    async with begun(edge, worker) as (client, session):
        await client.socket.close(1001)
        async with client.back(edge.ws):
            await client.socket.close(3000)
        async with client.back(edge.ws):
            await ask(client)
            await session.answer(text="still here")
            assert (await client.expect("result"))["text"] == "still here"


async def test_a_client_without_a_token_frees_its_worker_at_once(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    client = Resumer("/ws/duplex/adx_1")
    async with client.connected(edge.ws):  # no slot is free, and it is not sent yet
        await client.abort()
    assert (await ended(broker, "adx_1")).reason is EndReason.CLIENT_GONE


async def test_an_edge_that_shuts_down_asks_its_clients_to_reconnect(
    settings: BrokerSettings, worker: PlayedWorker
) -> None:
    async with edges(settings) as (one, other), begun(one, worker) as (client, session):
        one.edge.settings = one.edge.settings.model_copy(update={"drain_s": 0.0})
        await one.edge.drain()
        assert await client.close_code() == 1012
        async with client.back(other.ws):
            await ask(client)
            await session.answer(text="as if nothing had happened")
            await client.expect("result")


async def test_a_strict_client_sees_no_new_field(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    async with edge.client("adx_1") as client:
        session = await worker.claim()
        assert await client.expect("queue_done") == {"type": "queue_done"}
        await client.send("prepare")
        await session.prepare()
        assert set(await client.expect("prepared")) == {
            "type",
            "prompt_length",
            "recording_session_id",
        }
