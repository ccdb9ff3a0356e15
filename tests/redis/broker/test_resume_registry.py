"""Resuming a session: which tokens are valid and for how long, and the state of the session until then."""

import asyncio

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.resume_registry import ResumedSession, _attach
from antiphon.shared_schemas.ids import ResumeToken
from antiphon.shared_schemas.registry import SessionRow, Ticket
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from support.control_plane import (
    AUDIO,
    CHAT,
    EDGE,
    activate,
    claim,
    now_ms,
    reap,
    serve,
    silence,
    waiting,
)

pytestmark = pytest.mark.on_cluster

SID = "adx_1"
FIRST, NEXT, LAST = (ResumeToken(SID, secret) for secret in ("one", "two", "three"))
GRACE_MS = 15_000
DAY_MS = 86_400_000


async def join(broker: Broker, kind: SessionKind = AUDIO, *, sid: str = SID) -> Ticket:
    token = ResumeToken(sid, FIRST.secret)
    return await broker.queue.join(
        sid, kind, edge=EDGE, recording="r", resume=token, protocol="duplex"
    )


async def back(
    broker: Broker,
    shown: ResumeToken = FIRST,
    new: ResumeToken = NEXT,
    *,
    edge: str = "edge-2",
    protocol: str = "duplex",
    attempt: int = 0,
) -> ResumedSession | None:
    return await broker.resume_registry.attach(
        shown, new, edge=edge, protocol=protocol, attempt=attempt
    )


async def row(broker: Broker) -> SessionRow:
    found = await broker.sessions.get(SID)
    assert found is not None
    return found


async def unseen(broker: Broker, raw: Redis, ms: int) -> None:
    """Set the time at which the client was last seen."""
    await raw.hset(broker.keys.session(SID), "seen_at", str(await now_ms(raw) - ms))


async def test_only_the_digest_of_the_token_is_stored(broker: Broker, raw: Redis) -> None:
    await join(broker)
    stored = await raw.hgetall(broker.keys.session(SID))
    assert stored[b"resume"].decode() == FIRST.digest
    assert not [value for value in stored.values() if FIRST.secret.encode() in value]
    assert (await row(broker)).resumable


async def test_a_resume_changes_the_token_and_the_edge(broker: Broker) -> None:
    ticket = await join(broker)
    attached = await back(broker)
    assert attached is not None
    assert (attached.sid, attached.kind, attached.ticket) == (SID, AUDIO, ticket.number)
    assert (attached.connection, attached.recording) == (2, "r")
    assert (attached.assigned, attached.over, attached.reason) == (False, False, None)
    assert (await row(broker)).edge == "edge-2"
    assert await back(broker, FIRST, LAST) is None
    again = await back(broker, NEXT, LAST, edge="edge-3")
    assert again is not None
    assert again.connection == 3


async def test_invalid_tokens_are_rejected(broker: Broker) -> None:
    assert await back(broker) is None
    await join(broker)
    await broker.queue.join("adx_2", AUDIO, edge=EDGE, recording="r")
    for shown in (LAST, ResumeToken(SID, ""), ResumeToken("adx_2", "one")):
        assert await back(broker, shown) is None
    assert await back(broker, protocol="chat") is None
    assert await back(broker) is not None


async def test_the_previous_token_is_valid_until_the_new_one_is_confirmed(
    broker: Broker, raw: Redis
) -> None:
    ticket = await join(broker)
    await back(broker)
    assert await back(broker, FIRST, LAST) is None  # a client is connected
    await broker.resume_registry.detach(SID, ticket.number, 2)
    assert await back(broker, FIRST, LAST) is not None
    await broker.resume_registry.confirm(SID, ticket.number, 2)  # the grace period is over
    await broker.resume_registry.detach(SID, ticket.number, 3)
    assert await back(broker, FIRST, NEXT) is not None
    await broker.resume_registry.confirm(SID, ticket.number, 4)
    await broker.resume_registry.detach(SID, ticket.number, 4)
    assert await back(broker, FIRST, LAST) is None
    assert await back(broker, NEXT, LAST) is not None


async def test_the_newest_attempt_wins_until_its_token_is_confirmed(broker: Broker) -> None:
    ticket = await join(broker)
    second = await back(broker, attempt=2)
    assert second is not None
    assert await back(broker, FIRST, LAST, attempt=1) is None  # it arrives late
    third = await back(broker, FIRST, LAST, attempt=3)  # the answer to the second was lost
    assert third is not None
    assert third.connection == second.connection + 1
    await broker.resume_registry.detach(SID, ticket.number, third.connection)
    assert await back(broker, FIRST, NEXT, attempt=1) is None
    assert await back(broker, LAST, NEXT, attempt=4) is not None
    await broker.resume_registry.confirm(SID, ticket.number, third.connection + 1)
    assert await back(broker, LAST, FIRST, attempt=5) is None


async def test_of_attempts_at_the_same_time_the_newest_wins(broker: Broker) -> None:
    await join(broker)
    tokens = [ResumeToken(SID, f"new-{number}") for number in range(6)]
    attempts = [back(broker, FIRST, token, attempt=n) for n, token in enumerate(tokens, start=1)]
    attached = await asyncio.gather(*reversed(attempts))
    assert attached[0] is not None
    assert await back(broker, tokens[-1], NEXT, attempt=7) is not None


async def test_a_repeated_call_has_the_same_result(broker: Broker, raw: Redis) -> None:
    """The connection to Redis broke before the reply, and the command is sent again."""
    await join(broker)
    first = await back(broker, attempt=1)
    scripts, digests = broker.resume_registry._scripts, (FIRST.digest, FIRST.digest, NEXT.digest)
    repeated = await scripts.run(_attach, SID, "duplex", *digests, "edge-2", GRACE_MS, 1)
    assert repeated == first


async def test_a_silent_edge_counts_as_disconnected(broker: Broker, raw: Redis) -> None:
    await join(broker)
    await back(broker)
    await unseen(broker, raw, 2500)
    assert await back(broker, FIRST, LAST) is None
    await unseen(broker, raw, 3500)
    assert await back(broker, FIRST, LAST) is not None


async def test_the_grace_period_begins_at_the_disconnect_and_ends_the_session(
    broker: Broker, raw: Redis
) -> None:
    ticket = await join(broker)
    await serve(broker)
    await activate(broker, await claim(broker))
    await broker.registry.edge_beat(EDGE, [])
    await broker.resume_registry.detach(SID, ticket.number, 1)
    assert await reap(broker, raw) == (0, 0)
    await unseen(broker, raw, GRACE_MS - 500)
    assert await reap(broker, raw) == (0, 0)
    assert (await row(broker)).state is SessionState.ACTIVE
    await unseen(broker, raw, GRACE_MS + 500)
    assert await back(broker) is None  # it has not ended yet, but will
    assert await reap(broker, raw) == (0, 1)
    assert (await row(broker)).reason is EndReason.CLIENT_GONE
    assert await back(broker) is None
    assert await broker.leases.renew("w1", {SID: 1}) == {SID}


async def test_a_connected_client_has_no_grace_limit(broker: Broker, raw: Redis) -> None:
    """Its edge may have been cut off: one call says that the edge lives and that the client is there."""
    ticket = await join(broker)
    await unseen(broker, raw, GRACE_MS + 500)
    assert (await broker.registry.edge_beat(EDGE, [(SID, ticket.number, 1)])).replaced == {}
    assert await reap(broker, raw) == (0, 0)


async def test_a_new_session_of_a_silent_edge_is_no_heartbeat(broker: Broker, raw: Redis) -> None:
    """It says nothing of the edge's other clients, whose grace period would count."""
    await join(broker)
    await silence(raw, broker.keys.edges, EDGE, broker)
    await unseen(broker, raw, GRACE_MS + 500)
    await broker.queue.join("adx_2", CHAT, edge=EDGE, recording="r")
    await reap(broker, raw)
    assert (await row(broker)).reason is not EndReason.CLIENT_GONE


async def test_a_disconnected_client_keeps_its_place_in_the_queue(
    broker: Broker, raw: Redis
) -> None:
    ticket = await join(broker)
    await join(broker, sid="adx_2")
    await broker.resume_registry.detach(SID, ticket.number, 1)
    await reap(broker, raw)
    assert await waiting(broker) == [SID, "adx_2"]
    await back(broker)
    assert await waiting(broker) == [SID, "adx_2"]


async def test_a_dead_edge_ends_sessions_that_are_not_resumable_at_once(
    broker: Broker, raw: Redis
) -> None:
    await join(broker)
    await broker.queue.join("plain", CHAT, edge=EDGE, recording="r")
    await silence(raw, broker.keys.edges, EDGE, broker)
    await unseen(broker, raw, 6000)
    assert await reap(broker, raw) == (0, 1)
    assert await waiting(broker) == [SID]
    await unseen(broker, raw, GRACE_MS + 500)
    assert await reap(broker, raw) == (0, 1)
    assert (await row(broker)).reason is EndReason.EDGE_LOST


async def test_a_redis_outage_does_not_count(broker: Broker, raw: Redis) -> None:
    await join(broker)
    await unseen(broker, raw, 60_000)
    await raw.hset(broker.keys.reaper, mapping={"last": await now_ms(raw) - 30_000})
    assert await broker.registry.reap() == (0, 0)
    await broker.registry.edge_beat(EDGE, [])
    assert await reap(broker, raw) == (0, 0)
    assert await back(broker) is not None


async def test_f27_a_jump_of_the_clock_ends_no_grace_period(broker: Broker, raw: Redis) -> None:
    """The client resumes before the reaper has noticed the jump. Without one, it is too late."""
    await join(broker)
    await broker.sessions.end(SID, EndReason.STOPPED)
    await raw.hset(broker.keys.session(SID), "ended_at", await now_ms(raw) - DAY_MS)
    await raw.hset(broker.keys.reaper, mapping={"last": await now_ms(raw)})
    assert await back(broker) is None
    await raw.hset(broker.keys.reaper, mapping={"last": await now_ms(raw) - DAY_MS})
    assert await back(broker) is not None


async def test_an_ended_session_can_be_resumed_during_the_grace_period(
    broker: Broker, raw: Redis
) -> None:
    await join(broker)
    await broker.sessions.end(SID, EndReason.STOPPED)
    attached = await back(broker)
    assert attached is not None
    assert (attached.over, attached.reason) == (True, EndReason.STOPPED)
    await raw.hset(broker.keys.session(SID), "ended_at", str(await now_ms(raw) - GRACE_MS - 500))
    assert await back(broker, NEXT, LAST) is None


async def test_a_connection_learns_that_it_was_replaced(broker: Broker) -> None:
    ticket = await join(broker)
    assert (await broker.registry.edge_beat(EDGE, [(SID, ticket.number, 1)])).replaced == {}
    await back(broker)
    assert (await broker.registry.edge_beat(EDGE, [(SID, ticket.number, 1)])).replaced == {SID: 2}
    assert (await broker.registry.edge_beat(EDGE, [(SID, ticket.number - 1, 1)])).replaced == {}


async def test_a_late_disconnect_of_a_replaced_connection_changes_nothing(
    broker: Broker, raw: Redis
) -> None:
    ticket = await join(broker)
    await back(broker)
    await broker.resume_registry.detach(SID, ticket.number, 1)
    assert await raw.hget(broker.keys.session(SID), "left") is None


async def test_the_number_of_connections_is_limited(broker: Broker, raw: Redis) -> None:
    """Each connection is an epoch of the input stream, which has 999."""
    await join(broker)
    await raw.hset(broker.keys.session(SID), "connection", "999")
    assert await back(broker) is None
