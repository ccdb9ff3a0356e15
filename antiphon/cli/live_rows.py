"""Rows of the live keys, read through the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from antiphon.broker.client import Broker, open_broker
from antiphon.broker.settings import BrokerSettings
from antiphon.cli.run_file import RunFile
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.registry import SessionRow

Row = dict[str, Any]
T = TypeVar("T")


def broker_settings(redis_url: str | None, data_dir: Path | None = None) -> BrokerSettings:
    """The flag, else what is configured, else the Redis of a running `antiphon up`, else the default.

    `data_dir`: where that one keeps its data; None where it is configured to.
    """
    if redis_url is not None:
        return BrokerSettings(redis_url=redis_url)
    settings = BrokerSettings()
    if "redis_url" in settings.model_fields_set:
        return settings
    stack = RunFile.read(data_dir or RecorderSettings().data_dir)
    return BrokerSettings(redis_url=stack.redis_url) if stack else settings


async def fetch(what: Callable[[Broker], Awaitable[T]], redis_url: str | None) -> T:
    """What is asked of the broker, over a connection of its own. Raises BrokerError."""
    async with open_broker(broker_settings(redis_url)) as broker:
        return await what(broker)


async def queue_rows(broker: Broker) -> list[Row]:
    """Everyone who waits, in order."""
    snapshot = await broker.queue.snapshot()
    return [
        {
            "position": one.position,
            "session": one.sid,
            "kind": one.kind,
            "state": one.state,
            "ticket": one.ticket,
            "waited_s": _seconds(snapshot.at - one.queued_at),
            "eta_s": round(one.eta_s, 1),
        }
        for one in snapshot.waiting
    ]


async def session_rows(broker: Broker) -> list[Row]:
    """Every live session, those that run first."""
    snapshot = await broker.queue.snapshot()
    live = [one.sid for one in snapshot.running] + [one.sid for one in snapshot.waiting]
    rows = [await broker.sessions.get(sid) for sid in live]
    return [_session_row(row, snapshot.at) for row in rows if row is not None]


def _session_row(row: SessionRow, now: int) -> Row:
    return {
        "session": row.sid,
        "kind": row.kind,
        "state": row.state,
        "worker": row.worker or None,
        "edge": row.edge,
        "attempt": row.attempt,
        "epoch": row.epoch,
        "waited_s": _seconds((row.assigned_at or now) - row.queued_at),
        "running_s": _seconds(now - row.assigned_at) if row.assigned_at else None,
        "recording": row.recording,
    }


async def worker_rows(broker: Broker) -> list[Row]:
    """Every live worker."""
    snapshot = await broker.queue.snapshot()
    return [
        {
            "worker": row.id,
            "state": row.state,
            "engine": row.engine,
            "model": row.model,
            "slots": row.slots,
            "used": row.used,
            "kinds": sorted(row.kinds),
            "device": row.device,
            "address": row.address,
            "silent_s": _seconds(snapshot.at - row.beat_at),
            "detail": row.detail,
            "counters": row.counters,
        }
        for row in snapshot.workers
    ]


async def edge_rows(broker: Broker) -> list[Row]:
    """Every live edge."""
    snapshot = await broker.registry.edges()
    return [
        {
            "edge": row.id,
            "sessions": row.sessions,
            "silent_s": _seconds(snapshot.at - row.beat_at),
        }
        for row in snapshot.edges
    ]


def _seconds(ms: int) -> float:
    return round(max(0, ms) / 1000, 1)
