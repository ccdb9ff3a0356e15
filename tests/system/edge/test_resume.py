"""Clients that resume, with real edges and a real Redis; the test plays the worker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.settings import BrokerSettings
from antiphon.client.chat import ask as ask_chat
from antiphon.edge.session.resume import MissedMessages
from antiphon.shared_schemas.content import ConversationMessage, Role, TextPart
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    PausedOut,
    PauseIn,
    PrefillDoneOut,
    PreparedOut,
    PrepareIn,
    ResumedOut,
    StopIn,
    StoppedOut,
)
from antiphon.shared_schemas.states import EndReason, SessionState
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


async def test_missed_messages_arrive_once_and_in_order(
    settings: BrokerSettings, worker: PlayedWorker, broker: Broker
) -> None:
    async with edges(settings) as (one, other), begun(one, worker) as (client, session):
        for _ in range(3):
            await ask(client)
        await session.answer(text="one")
        await client.expect("result")
        await client.drop()
        await session.answer(text="two")
        await session.answer(text="three")
        async with client.back(other.ws):
            assert [(await client.expect("result"))["text"] for _ in range(2)] == ["two", "three"]
            await ask(client)
            await session.answer(text="four")
            assert (await client.expect("result"))["text"] == "four"
            await client.send("stop")
            await session.expect(StopIn)
            await session.publish(StoppedOut())
            await session.end(EndReason.STOPPED)
            await client.expect("stopped")
            assert (await client.closed())[0] == 1000
        assert (await ended(broker, "adx_1")).reason is EndReason.STOPPED


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
            await client.drop()
        successor = await broker.streams.output_writer(sid, ticket, epoch + 1)
        for n, text in ((3, "second"), (4, "third"), (5, "fourth")):
            await successor.append(result(n, text=text))
        async with client.back(other.ws) if resumes else nullcontext():
            assert (await client.expect("result"))["text"] == "fourth"
        if not resumes:
            await client.drop()
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
        await client.drop()
        async with client.back(other.ws):
            await ask(client)
            await session.answer(text="one")
            await client.expect("result")
            await raw.hset(key, mapping=before)

            async def is_stored() -> bool:
                return await raw.hget(key, "connection") == b"2"

            if stored_by == "heartbeat":
                await until(is_stored)
            await client.drop()
            await until(is_stored)
        async with client.back(one.ws):
            await ask(client)
            await session.answer(text="two")
            assert (await client.expect("result"))["text"] == "two"


@pytest.mark.parametrize("after", range(1, 8))
async def test_a_resume_from_any_number_repeats_the_same_messages(
    settings: BrokerSettings, worker: PlayedWorker, after: int
) -> None:
    async with edges(settings) as (one, other), begun(one, worker) as (client, session):
        await client.send("audio_chunk")
        await client.expect("error")
        await ask(client)
        await session.answer()
        await client.expect("result")
        await client.send("pause", timeout=9)
        await session.expect(PauseIn)
        await session.publish(PausedOut(input_n=3, timeout_s=9))
        await client.expect("paused")
        await ask(client)
        assert (await client.expect("error"))["code"] == "paused"
        await client.send("resume")
        await session.publish(ResumedOut(input_n=4))
        await client.expect("resumed")
        assert client.last == 7
        await client.drop()
        async with client.back(other.ws, seq=after):
            while client.last < 7:
                await client.message()
            await ask(client)
            await session.read()  # the `resume`
            await session.answer(text="on")
            assert (await client.expect("result"))["text"] == "on"


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
            await client.drop()
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
        sent = broker.streams.history(broker.keys.checkpoints("adx_1"), mine.claim.ticket)
        assert [e async for _, e in sent if isinstance(e, PrepareIn)] == []


async def test_an_unseen_grant_is_sent_on_resume(
    settings: BrokerSettings, worker: PlayedWorker
) -> None:
    async with edges(settings) as (one, other), one.client("adx_busy"):
        session = await worker.claim()
        client = Resumer("/ws/duplex/adx_1")
        async with client.connected(one.ws):
            await client.expect("queued")
            await client.send("prepare")
            await client.send("prepare")
            await client.expect("error", skip=("queue_update",))  # the first one was held
            await client.drop()
        await session.end(EndReason.STOPPED)
        mine = await worker.claim()
        async with client.back(other.ws):
            await client.expect("queue_done")
            await mine.prepare()
            await client.expect("prepared")


@pytest.mark.parametrize("elsewhere", [True, False], ids=["on another edge", "on the same edge"])
async def test_a_second_socket_takes_over(
    settings: BrokerSettings, worker: PlayedWorker, broker: Broker, elsewhere: bool
) -> None:
    async with edges(settings) as (one, other), begun(one, worker) as (client, session):
        first = client.socket
        async with client.back((other if elsewhere else one).ws):
            second, client.socket = client.socket, first
            assert await client.closed() == (4409, "replaced")
            client.socket = second
            await ask(client)
            await session.answer(text="still here")
            assert (await client.expect("result"))["text"] == "still here"
            await one.edge.terminator.wait_until_done(1)
            row = await broker.sessions.get("adx_1")
            assert row is not None
            assert (row.state, row.edge) == (
                SessionState.ACTIVE,
                (other if elsewhere else one).edge.id,
            )


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
            await client.drop()
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
        await client.drop()
        await until(lambda: not one.edge.events.serving())
        async with unresponsive_client(other, f"/ws/duplex/adx_1?resume_token={token}&seq=2"):
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
        await client.drop()
        await until(lambda: not edge.edge.events.serving())
        with monkeypatch.context() as outage:
            outage.setattr(MissedMessages, "messages", _unavailable)
            path = f"/ws/duplex/adx_1?resume_token={client.token}&seq={client.last}&attempt=1"
            assert (await refused(edge, path))[0] == 1012
        await until(lambda: not edge.edge.events.serving())
        async with client.back(edge.ws, attempt=2):
            await ask(client)
            await session.answer(text="still here")
            assert (await client.expect("result"))["text"] == "still here"


async def _unavailable(*_: object) -> AsyncIterator[Any]:
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
        await client.drop()
        for beyond in (client.last + 1, 10**15 - 1):
            query = {"resume": 1, "resume_token": client.token, "seq": beyond}
            async with client._open(client._url(edge.ws, **query)):
                assert await client.closed() == (4410, "resume_expired")
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


async def test_an_expired_grace_period_frees_the_worker(
    settings: BrokerSettings, worker: PlayedWorker, broker: Broker
) -> None:
    short = settings.model_copy(update={"resume_grace_s": 1.0})
    async with edges(short) as (one, other), begun(one, worker) as (client, session):
        await client.drop()
        assert (await ended(broker, "adx_1")).reason is EndReason.CLIENT_GONE
        assert (await session.row()).state is SessionState.ENDED
        path = f"/ws/duplex/adx_1?resume_token={client.token}&seq=1"
        assert await refused(other, path) == EXPIRED
        async with other.client("adx_1") as next_client:
            await worker.claim()
            await next_client.expect("queue_done")


async def test_a_client_without_a_token_frees_its_worker_at_once(
    edge: RunningEdge, worker: PlayedWorker, broker: Broker
) -> None:
    client = Resumer("/ws/duplex/adx_1")
    async with client.connected(edge.ws):  # no slot is free, and it is not sent yet
        await client.drop()
    assert (await ended(broker, "adx_1")).reason is EndReason.CLIENT_GONE


async def test_an_edge_that_shuts_down_asks_its_clients_to_reconnect(
    settings: BrokerSettings, worker: PlayedWorker
) -> None:
    async with edges(settings) as (one, other), begun(one, worker) as (client, session):
        one.edge.settings = one.edge.settings.model_copy(update={"drain_s": 0.0})
        await one.edge.drain()
        assert (await client.closed())[0] == 1012
        async with client.back(other.ws):
            await ask(client)
            await session.answer(text="as if nothing had happened")
            await client.expect("result")


async def test_an_unseen_end_is_sent_on_resume(
    settings: BrokerSettings, worker: PlayedWorker
) -> None:
    async with edges(settings) as (one, other), begun(one, worker) as (client, session):
        await client.send("stop")
        await session.expect(StopIn)
        await client.drop()
        await session.publish(StoppedOut())
        await session.end(EndReason.STOPPED)
        async with client.back(other.ws):
            await client.expect("stopped")
            assert (await client.closed())[0] == 1000


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
        sent = broker.streams.history(broker.keys.checkpoints("adx_1"), session.claim.ticket)
        assert [entry async for entry in sent] == []


async def test_the_other_clients_resume_automatically_too(
    settings: BrokerSettings, worker: PlayedWorker, broker: Broker
) -> None:
    hello = [ConversationMessage(Role.USER, (TextPart("Hello."),))]
    async with (
        edges(settings) as (one, other),
        ask_chat(one.ws, hello, resume=True, other_edges=[other.ws]) as answer,
    ):
        session = await worker.claim()
        await session.expect(ChatIn)
        await session.move(SessionState.PREPARING)
        await session.publish(PrefillDoneOut(input_tokens=9))
        await session.move(SessionState.ACTIVE)
        await session.publish(DeltaOut(text_delta="one"))
        pieces = answer.pieces()
        assert (await anext(pieces)).text == "one"
        answer._link.socket.transport.abort()
        await session.publish(DeltaOut(text_delta="two"))
        done = ChatDoneOut(text="one two", generated_tokens=2, input_tokens=9, duration_ms=1.0)
        await session.publish(done)
        await session.end(EndReason.STOPPED)
        assert [piece.text async for piece in pieces] == ["two"]
        assert answer.done.text == "one two"
