"""Moves the keys of a Redis from version 1 to version 2: the streams get the tags of their shards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from redis.exceptions import ResponseError

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.connections.connect import connect
from antiphon.broker.errors import IncompatibleRedis, ServicesRunning
from antiphon.broker.keys import STREAM_NAMES, Keys, shard_tag
from antiphon.broker.orphaned_keys import scan_keys
from antiphon.broker.requirements import (
    MIGRATING,
    SCHEMA_VERSION,
    check_schema_version,
    check_server,
    first_calls,
    read_schema_version,
    remedy_for,
    store_schema_version,
)
from antiphon.broker.rows import call_on_row
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.ids import is_session_id

_POLL_S = 0.1
_PATIENCE_S = 15.0
_RECORDERS = "recorder"


@dataclass(frozen=True, slots=True)
class MigratedKeys:
    """The version that was found, None without keys, and how many streams were renamed."""

    found: str | None
    streams: int = 0


async def migrate_keys(
    settings: BrokerSettings, *, patience_s: float = _PATIENCE_S
) -> MigratedKeys:
    """Rename what version 1 of the keys named otherwise. Repeat it after an interruption.

    Waits until the heartbeats of stopped services have expired. Raises ServicesRunning if some have
    not after `patience_s`, and IncompatibleRedis or BrokerUnavailable.
    """
    redis, keys = connect(settings), Keys(settings.key_prefix)
    try:
        with first_calls():
            await check_server(redis, keys)
            found = await read_schema_version(redis, keys)
        if found in (None, str(SCHEMA_VERSION)):
            return MigratedKeys(found)
        if found not in ("1", MIGRATING):
            raise IncompatibleRedis(
                f"keys of version {found} cannot be migrated: {remedy_for(str(found))}"
            )
        if redis.group("{1}") != redis.group("{2}"):
            raise IncompatibleRedis(
                "a cluster cannot rename keys of version 1: migrate them on the single server that they "
                "come from, and move the data to the cluster afterwards"
            )
        await store_schema_version(redis, keys, MIGRATING)  # from now on no service starts
        try:
            await _await_silence(redis, keys, settings.heartbeat_ttl_s, patience_s)
        except ServicesRunning:
            await store_schema_version(redis, keys, found)
            raise
        streams = await _rename_streams(redis, keys)
        await _add_shards(redis, keys)
        await store_schema_version(redis, keys, str(SCHEMA_VERSION))
        await check_schema_version(redis, keys)
        return MigratedKeys(found, streams)
    finally:
        await redis.aclose()


async def _await_silence(redis: RedisClient, keys: Keys, ttl_s: float, patience_s: float) -> None:
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + patience_s
    while running := [name async for name in _running(redis, keys, ttl_s * 1000)]:
        if loop.time() > give_up_at:
            raise ServicesRunning(running)
        await asyncio.sleep(_POLL_S)


async def _running(redis: RedisClient, keys: Keys, ttl_ms: float) -> AsyncIterator[str]:
    """Services with a heartbeat in the last `ttl_ms`, and recorders that have read since then."""
    seconds, micros = await redis.call("TIME")
    oldest = int(seconds) * 1000 + int(micros) / 1000 - ttl_ms
    for what, beats in (("edge", keys.edges), ("worker", keys.workers)):
        for name in await redis.call("ZRANGEBYSCORE", beats, oldest, "+inf"):
            yield f"{what} {name.decode()}"
    try:
        recorders = await redis.call("XINFO CONSUMERS", keys.events, _RECORDERS)
    except ResponseError:  # there is no such stream or group
        return
    for recorder in recorders:
        if recorder["idle"] < ttl_ms:
            yield f"recorder {recorder['name'].decode()}"


async def _rename_streams(redis: RedisClient, keys: Keys) -> int:
    renamed = 0
    for place, name in enumerate(STREAM_NAMES):
        async for key in scan_keys(redis, f"{keys.prefix}:{name}:{{*}}"):
            sid = key.partition("{")[2].removesuffix("}")
            if is_session_id(sid):
                renamed += await _rename(redis, key, keys.streams(sid)[place])
    return renamed


async def _rename(redis: RedisClient, key: str, new: str) -> int:
    try:
        return int(await redis.call("RENAMENX", key, new))
    except ResponseError as error:
        if "no such key" not in str(error):
            raise
        return 0  # it has expired since the scan


async def _add_shards(redis: RedisClient, keys: Keys) -> None:
    """To the rows of live sessions, which have no expiry. Those of ended sessions expire soon."""
    for line in (keys.queue, keys.leases):
        for sid in map(bytes.decode, await redis.call("ZRANGE", line, 0, -1)):
            if await call_on_row(redis, "HEXISTS", keys.session(sid), "state"):
                await redis.call("HSET", keys.session(sid), "shard", shard_tag(sid))
