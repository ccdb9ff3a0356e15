"""Which keys the sweep of Redis removes, and which it keeps."""

from collections.abc import Iterable

import pytest
from redis.asyncio import Redis

from antiphon.broker import orphaned_keys
from antiphon.broker.client import Broker
from antiphon.broker.orphaned_keys import RemovedKeys
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.entries import StopIn, StoppedOut
from antiphon.shared_schemas.states import EndReason, SessionState
from support.control_plane import activate, claim, join, serve

pytestmark = pytest.mark.on_cluster

NOTHING = RemovedKeys(0, 0, 0)


async def speak(broker: Broker, sid: str, ticket: int) -> None:
    into = await broker.streams.input_writer(sid, ticket)
    out = await broker.streams.output_writer(sid, ticket, 1)
    await into.append(StopIn())
    await out.append(StoppedOut())


async def spoken(broker: Broker, sid: str, ticket: int) -> tuple[str, str]:
    """The keys of a session's streams, which an open session needs for weeks."""
    await speak(broker, sid, ticket)
    return broker.keys.inbound(sid), broker.keys.outbound(sid)


async def expiring(broker: Broker, raw: Redis, keys: Iterable[str]) -> int:
    """How many of the streams expire soon."""
    ttl_s = BrokerSettings().stream_ttl_s
    return sum([0 < await raw.ttl(key) <= ttl_s for key in keys])


@pytest.mark.parametrize(("has_row", "lasting"), [(True, False), (False, True)])
async def test_streams_of_a_dead_session_expire(
    broker: Broker, raw: Redis, has_row: bool, lasting: bool
) -> None:
    """Its processes have died: none of them has shortened the expiry. An operator has removed it."""
    ticket = await join(broker, "adx_1")
    keys = await spoken(broker, "adx_1", ticket.number)
    if lasting:
        assert [await raw.persist(key) for key in keys] == [True, True]
    await broker.sessions.end("adx_1", EndReason.STOPPED)
    if not has_row:
        await raw.delete(broker.keys.session("adx_1"))
    assert await broker.orphaned_keys.sweep(dry_run=True) == RemovedKeys(2, 0, 0)
    assert await expiring(broker, raw, keys) == 0
    assert await broker.orphaned_keys.sweep() == RemovedKeys(2, 0, 0)
    assert await expiring(broker, raw, keys) == 2
    assert await broker.orphaned_keys.sweep() == NOTHING


async def test_streams_of_a_newer_session_are_kept(broker: Broker, raw: Redis) -> None:
    """It is queued while the sweep looks at a row that is gone: its ticket is higher."""
    ticket = await join(broker, "adx_1")
    keys = await spoken(broker, "adx_1", ticket.number + 1)
    await broker.sessions.end("adx_1", EndReason.STOPPED)
    assert await broker.orphaned_keys.sweep() == NOTHING
    assert await expiring(broker, raw, keys) == 0


async def test_a_live_session_is_kept(broker: Broker, raw: Redis) -> None:
    await serve(broker)
    ticket = await join(broker, "adx_1")
    await activate(broker, await claim(broker))
    await join(broker, "adx_2")
    keys = await spoken(broker, "adx_1", ticket.number)
    assert await broker.orphaned_keys.sweep() == NOTHING
    assert await expiring(broker, raw, keys) == 0
    row = await broker.sessions.get("adx_1")
    assert row is not None
    assert row.state is SessionState.ACTIVE


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
