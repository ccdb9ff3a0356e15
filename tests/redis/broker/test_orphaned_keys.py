"""Which keys the sweep of Redis removes, and which it keeps."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from antiphon.broker.client import Broker
from antiphon.broker.stores import orphaned_keys
from antiphon.broker.stores.orphaned_keys import RemovedKeys
from antiphon.shared_schemas.entries import StopIn, StoppedOut
from antiphon.shared_schemas.states import EndReason, SessionState
from support.control_plane import activate, claim, join, now_ms, serve

NOTHING = RemovedKeys(0, 0, 0)


async def speak(broker: Broker, sid: str, ticket: int) -> None:
    into = await broker.streams.input_writer(sid, ticket)
    out = await broker.streams.output_writer(sid, ticket, 1)
    await into.append(StopIn())
    await out.append(StoppedOut())


async def streams(broker: Broker, raw: Redis, sid: str, *, lasting: bool = True) -> tuple[str, str]:
    """The keys of a session's streams. With `lasting` they never expire."""
    keys = broker.keys.inbound(sid), broker.keys.outbound(sid)
    for key in keys:
        assert await raw.persist(key) if lasting else await raw.ttl(key) > 0
    return keys


async def test_streams_without_a_session_row_are_removed(broker: Broker, raw: Redis) -> None:
    ticket = await join(broker, "adx_1")
    await speak(broker, "adx_1", ticket.number)
    lost = await streams(broker, raw, "adx_1")
    await broker.sessions.end("adx_1", EndReason.STOPPED)
    await raw.delete(broker.keys.session("adx_1"))
    assert await broker.orphaned_keys.sweep(dry_run=True) == RemovedKeys(2, 0, 0)
    assert await raw.exists(*lost) == 2
    assert await broker.orphaned_keys.sweep() == RemovedKeys(2, 0, 0)
    assert await raw.exists(*lost) == 0
    assert await broker.orphaned_keys.sweep() == NOTHING


async def test_streams_of_an_ended_session_are_removed_after_their_ttl(
    broker: Broker, raw: Redis
) -> None:
    ticket = await join(broker, "adx_1")
    await speak(broker, "adx_1", ticket.number)
    await streams(broker, raw, "adx_1")
    await broker.sessions.end("adx_1", EndReason.STOPPED)
    assert await broker.orphaned_keys.sweep() == NOTHING  # a recorder may still read them
    long_ago = await now_ms(raw) - 3_600_000
    await raw.hset(broker.keys.session("adx_1"), "ended_at", str(long_ago))
    assert await broker.orphaned_keys.sweep() == RemovedKeys(2, 0, 0)


@pytest.mark.leaves_keys("streams without an expiry, of a live session")
@pytest.mark.parametrize("lasting", [True, False])
async def test_a_live_session_is_kept(broker: Broker, raw: Redis, lasting: bool) -> None:
    await serve(broker)
    ticket = await join(broker, "adx_1")
    await activate(broker, await claim(broker))
    await join(broker, "adx_2")
    await speak(broker, "adx_1", ticket.number)
    keys = await streams(broker, raw, "adx_1", lasting=lasting)
    assert await broker.orphaned_keys.sweep() == NOTHING
    assert await raw.exists(*keys) == 2
    row = await broker.sessions.get("adx_1")
    assert row is not None
    assert row.state is SessionState.ACTIVE


async def test_streams_that_have_a_ttl_are_kept(broker: Broker, raw: Redis) -> None:
    await speak(broker, "adx_gone", 7)
    keys = await streams(broker, raw, "adx_gone", lasting=False)
    assert await broker.orphaned_keys.sweep() == NOTHING
    assert await raw.exists(*keys) == 2


async def test_a_row_outside_every_queue_ends_and_frees_its_id(broker: Broker, raw: Redis) -> None:
    await join(broker, "adx_1")
    await raw.zrem(broker.keys.queue, "adx_1")
    assert await broker.orphaned_keys.sweep(dry_run=True) == RemovedKeys(0, 1, 0)
    assert await broker.orphaned_keys.sweep() == RemovedKeys(0, 1, 0)
    row = await broker.sessions.get("adx_1")
    assert row is not None
    assert (row.state, row.reason) == (SessionState.ENDED, EndReason.ERROR)
    assert await raw.ttl(broker.keys.session("adx_1")) > 0
    await join(broker, "adx_1")


async def test_an_ended_row_without_a_ttl_gets_one(broker: Broker, raw: Redis) -> None:
    await join(broker, "adx_1")
    await broker.sessions.end("adx_1", EndReason.STOPPED)
    await raw.persist(broker.keys.session("adx_1"))
    assert await broker.orphaned_keys.sweep() == RemovedKeys(0, 1, 0)
    assert await raw.ttl(broker.keys.session("adx_1")) > 0
    assert await broker.orphaned_keys.sweep() == NOTHING


async def test_members_without_a_process_leave_the_group(
    broker: Broker, raw: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join(broker, "adx_1")
    groups = [await broker.events.join_group("recorder", name) for name in ("idle", "owes", "busy")]
    try:
        await groups[0].ack(*(event.id for event in await groups[0].read()))
        await join(broker, "adx_2")
        assert await groups[1].read()
        assert await broker.orphaned_keys.sweep() == NOTHING
        monkeypatch.setattr(orphaned_keys, "_SILENT_MS", -1)
        assert await broker.orphaned_keys.sweep() == RemovedKeys(0, 0, 1)
        members = await raw.xinfo_consumers(broker.keys.events, "recorder")
        assert [member["name"] for member in members] == [b"owes"]
    finally:
        for group in groups:
            await group.close()


async def test_keys_of_other_programs_are_kept(broker: Broker, raw: Redis) -> None:
    await raw.xadd("other:in:{s356}:adx_1", {"a": "b"})
    await raw.hset("other:session:adx_1", "state", "queued")
    assert await broker.orphaned_keys.sweep() == NOTHING
    assert await raw.exists("other:in:{s356}:adx_1", "other:session:adx_1") == 2
    await raw.delete("other:in:{s356}:adx_1", "other:session:adx_1")
