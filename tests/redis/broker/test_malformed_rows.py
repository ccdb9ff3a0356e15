"""Rows that no version of Antiphon writes: every call sets them aside, and the others are served."""

import orjson
import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from antiphon.broker import events, rows
from antiphon.broker.client import Broker
from antiphon.shared_schemas.ids import ResumeToken
from antiphon.shared_schemas.registry import SessionCommand, WorkerCommand
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState
from support.control_plane import (
    AUDIO,
    EDGE,
    activate,
    claim,
    expire_lease,
    join,
    reap,
    report,
    serve,
)

pytestmark = [
    pytest.mark.one_redis,
    pytest.mark.leaves_keys("rows of other programs"),
]

POISONS = (
    None,
    b"",
    b"zzz",
    b"1.5",
    b"-1",
    b"nan",
    b"0x10",
    b"9" * 25,
    b"8999999999999999999",
    b"\xff\xfe",
    b'{"a":[1]}',
    b'{"units":1e999}',
)
GOOD = "good"


async def prepared(broker: Broker) -> ResumeToken:
    """A held session, a waiting one that may resume, and a worker with a free slot for another one."""
    await serve(broker, "w1", slots=1)
    await join(broker, "held")
    held = await claim(broker)
    await activate(broker, held)
    token = ResumeToken.new("waits")
    await broker.queue.join(
        "waits", AUDIO, edge=EDGE, recording="r", resume=token, protocol="duplex"
    )
    await broker.eta.configure({AUDIO: 100.0}, alpha=0.5)
    return token


def damaged_rows(broker: Broker) -> dict[str, tuple[str, ...]]:
    keys = broker.keys
    session = (
        *(
            "kind",
            "edge",
            "worker",
            "epoch",
            "attempt",
            "ticket",
            "queued_at",
            "recording",
            "config",
        ),
        *("state", "assigned_at", "active_at", "recovering_at", "ended_at", "reason", "trace"),
        *("resume", "resume_before", "protocol", "connection", "seen_at", "left"),
        *("owner", "failures", "shared", "verdict"),
    )
    worker = (
        *("engine", "model", "kinds", "slots", "used", "state", "device", "address", "beat_at"),
        *("open", "detail", "counters", "memory", "latency", "held", "asked", "disconnected"),
    )
    kinds = [f"{name}:{kind}" for name in ("baseline", "ema", "count") for kind in (AUDIO, "zzz")]
    return {
        keys.session("held"): session,
        keys.session("waits"): session,
        keys.worker("w1"): worker,
        keys.eta: (*kinds, "alpha", "zzz"),
        keys.reaper: ("last", "quiet_until"),
        keys.ref_audio: ("voice",),
    }


async def use_everything(broker: Broker, raw: Redis, token: ResumeToken) -> None:
    """Every call of the control plane that processes make by themselves. None may raise."""
    await broker.registry.reap()
    snapshot = await broker.queue.snapshot()
    orjson.dumps(snapshot, default=sorted)
    edges = await broker.registry.edges()
    orjson.dumps(edges)
    orjson.dumps(await broker.eta.lengths(), option=orjson.OPT_NON_STR_KEYS)
    orjson.dumps(await broker.voices.all())
    for sid in ("held", "waits"):
        row = await broker.sessions.get(sid)
        assert row is None or row.sid == sid
        ticket = row.ticket if row else 1
        await broker.registry.edge_beat(EDGE, [(sid, ticket, 0)])
        await broker.resume_registry.confirm(sid, ticket, 1)
        await broker.sessions.send_command(sid, AUDIO, SessionCommand.INTERRUPT)
    await broker.resume_registry.detach("waits", 1, 1)
    new = ResumeToken.new("waits")
    await broker.resume_registry.attach(token, new, edge=EDGE, protocol="duplex")
    await broker.leases.renew("w1", {"held": 1})
    await broker.registry.worker_beat("w2", report(slots=1))
    await broker.registry.command_worker("w1", WorkerCommand.DRAIN)
    await broker.registry.worker_beat("w1", report(slots=1))
    await reap(broker, raw)
    await broker.registry.reap()
    await expire_lease_of_held(broker, raw)
    await reap(broker, raw)
    for worker in ("w1", "w2", "w2"):
        await broker.leases.claim(worker)
    await broker.leases.give_back("held", "w2", 2)
    await broker.leases.move("waits", "w2", 1, SessionState.PREPARING)
    await broker.orphaned_keys.sweep()
    for sid in ("held", "waits"):
        await broker.sessions.end(sid, EndReason.ERROR)
    await broker.events.recent(1000)


async def expire_lease_of_held(broker: Broker, raw: Redis) -> None:
    if await raw.zscore(broker.keys.leases, "held") is not None:
        await expire_lease(broker, raw, "held")


async def is_served(broker: Broker) -> None:
    """A new session still gets a slot, and the lists have it with valid numbers."""
    await broker.registry.worker_beat("w3", report(slots=1))
    await join(broker, GOOD)
    assert GOOD in [row.sid for row in (await broker.queue.snapshot()).waiting]
    while (claimed := await broker.leases.claim("w3")) is not None and claimed.sid != GOOD:
        await broker.sessions.end(claimed.sid, EndReason.ERROR)
    assert claimed is not None
    await activate(broker, claimed, "w3")
    assert GOOD in [row.sid for row in (await broker.queue.snapshot()).running]
    assert await broker.sessions.end(GOOD, EndReason.STOPPED)


async def poison_each(broker: Broker, raw: Redis, poison: bytes | None) -> None:
    for key, fields in damaged_rows(broker).items():
        for name in fields:
            await forget_everything(broker, raw)
            token = await prepared(broker)
            if poison is None:
                await raw.hdel(key, name)
            else:
                await raw.hset(key, name, poison)
            try:
                await use_everything(broker, raw, token)
                await is_served(broker)
            except Exception as error:
                raise AssertionError(f"{key} {name}={poison!r}: {error!r}") from error


async def forget_everything(broker: Broker, raw: Redis) -> None:
    found = [key async for key in raw.scan_iter(match=f"*{broker.keys.prefix}*", count=1000)]
    if found:
        await raw.delete(*found)


@pytest.fixture(autouse=True)
def _nothing_logged_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows.LIMIT, "_since", 0.0)
    monkeypatch.setattr(events._LOG_LIMIT, "_since", 0.0)


@pytest.mark.parametrize("poison", POISONS, ids=repr)
async def test_a_malformed_field_stops_no_call(
    broker: Broker, raw: Redis, poison: bytes | None
) -> None:
    await poison_each(broker, raw, poison)


async def test_a_row_of_another_type_stops_no_call(broker: Broker, raw: Redis) -> None:
    for key in damaged_rows(broker):
        await forget_everything(broker, raw)
        token = await prepared(broker)
        await raw.set(key, "zzz")
        try:
            await use_everything(broker, raw, token)
            await is_served(broker)
        except Exception as error:
            raise AssertionError(f"{key}: {error!r}") from error


async def test_a_malformed_ticket_counter_is_replaced(broker: Broker, raw: Redis) -> None:
    for poison in ("zzz", "1.5", "", "9223372036854775807"):
        await raw.set(broker.keys.tickets, poison)
        ticket = await join(broker, f"s{poison}")
        assert ticket.number > 1_600_000_000_000
    tickets = [row.ticket for row in (await broker.queue.snapshot()).waiting]
    assert len(set(tickets)) == 4


@pytest.mark.parametrize("poison", [b"\xff", b"zzz", b"[]", b'{"at":"zzz"}', b'{"at":null}', None])
async def test_malformed_records_count_as_absent(
    broker: Broker, raw: Redis, poison: bytes | None
) -> None:
    """Progress of a recorder, a share link, the switches; None stands for another type of key."""
    keys = broker.keys
    if poison is None:
        for key in (keys.recorded(7), keys.apps, keys.shares("r")):
            await raw.set(key, "zzz")
        await raw.hset(keys.share("share_x"), "a", "b")
    else:
        await raw.hset(keys.recorded(7), "progress", poison)
        await raw.hset(keys.apps, poison, "off")
        await raw.set(keys.share("share_x"), poison)
        await raw.zadd(keys.shares("r"), {poison: "inf"})
    assert await broker.recorder_progress.load(7) is None
    assert not await broker.apps.is_disabled("omni")
    orjson.dumps([sorted(await broker.apps.disabled()), await broker.shares.of("r")])
    with capture_logs() as logs:
        found = await broker.shares.recording("share_x")
    assert found in (None, poison and poison.decode("latin-1"))
    assert "share_x" not in str(logs)


async def test_a_malformed_row_is_logged_once(broker: Broker, raw: Redis) -> None:
    await prepared(broker)
    await raw.hdel(broker.keys.session("held"), "assigned_at")
    await raw.hset(broker.keys.session("waits"), "kind", "zzz")
    with capture_logs() as logs:
        for _ in range(5):
            snapshot = await broker.queue.snapshot()
    assert not snapshot.running
    assert not snapshot.waiting
    lines = [line for line in logs if line["event"] == "row_malformed"]
    assert sorted(line["row"] for line in lines) == ["session:held", "session:waits"]


async def test_positions_count_rows_that_cannot_be_read(broker: Broker, raw: Redis) -> None:
    for sid in ("a", "b"):
        await join(broker, sid, SessionKind.CHAT)
    await raw.hset(broker.keys.session("a"), "kind", "zzz")
    [row] = (await broker.queue.snapshot()).waiting
    assert (row.sid, row.position) == ("b", 2)


async def test_many_malformed_events_are_logged_a_few_times(broker: Broker, raw: Redis) -> None:
    watch = await broker.events.watch("0-0")
    for number in range(100):
        await raw.xadd(broker.keys.events, {"sid": f"s{number}", "state": "zzz"})
    with capture_logs() as logs:
        assert await watch.read() == []
    await watch.close()
    assert 1 <= sum(line["event"] == "event_unreadable" for line in logs) <= 20
