"""Checks of a Redis server: version, settings, clock, speed. Reads only."""

from __future__ import annotations

import statistics
import time
from typing import Any

from antiphon.broker.connections.client import RedisClient
from antiphon.broker.connections.connect import connect
from antiphon.broker.connections.server_version import is_supported
from antiphon.broker.errors import BrokerError
from antiphon.broker.keys import Keys
from antiphon.broker.schema_version import SCHEMA_VERSION, read_schema_version, remedy_for
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.findings import Finding, failure, ok, warning

ALL_SLOTS = 16384
_PINGS = 25
_SLOW_MS = 5.0
_SKEWED_S = 1.0
_FULL = 0.8

Info = dict[str, Any]


async def examine_redis(settings: BrokerSettings) -> list[Finding]:
    """Run all checks; stop at the first that Redis does not answer."""
    redis = connect(settings, only_master=False)
    findings: list[Finding] = []
    try:
        info: Info = await redis.call("INFO", "everything")
        findings += [check(info) for check in _INFO_CHECKS]
        findings += await _times(redis)
        findings.append(await _slots(redis, info))
        findings.append(await _contract(redis, settings))
    except BrokerError as error:
        remedy = "start it, or name another with ANTIPHON_REDIS_URL (`antiphon up` brings its own)"
        findings.append(failure("redis", str(error), remedy))
    finally:
        await redis.aclose()
    return findings


def _version(info: Info) -> Finding:
    found = str(info["redis_version"])
    if not is_supported(found):
        return failure("redis version", found, "install Redis 6.2 or newer")
    valkey = info.get("valkey_version")
    return ok("redis version", f"{found} (Valkey {valkey})" if valkey else found)


def _role(info: Info) -> Finding:
    if info["role"] != "master":
        remedy = f"name its master, {info.get('master_host')}:{info.get('master_port')}"
        return failure("redis role", f"{info['role']}: it takes no writes", remedy)
    return ok("redis role", "master")


def _eviction(info: Info) -> Finding:
    found = str(info["maxmemory_policy"])
    if found != "noeviction":
        text = f"maxmemory-policy is {found}: under pressure it deletes parts of conversations"
        return failure("redis eviction", text, "redis-cli CONFIG SET maxmemory-policy noeviction")
    return ok("redis eviction", found)


def _memory(info: Info) -> Finding:
    used, most = int(info["used_memory"]), int(info["maxmemory"])
    machine = int(info.get("total_system_memory") or 0)
    limit, name = (most, "maxmemory") if most else (machine, "the machine's memory")
    found = f"{_mib(used)} MiB of {_mib(limit)} ({name})"
    if limit and used > limit * _FULL:
        remedy = "raise maxmemory, or lower max_queue_size and the slots that share this Redis"
        return warning("redis memory", found, remedy)
    return ok("redis memory", found)


def _persistence(info: Info) -> Finding:
    about = "redis persistence"
    if not int(info["aof_enabled"]):
        text = "no append-only file: a restart of Redis ends every conversation"
        return warning(about, text, "redis-cli CONFIG SET appendonly yes, and in redis.conf")
    if info.get("aof_last_write_status") != "ok":
        remedy = "check for a full or broken disk on the Redis host"
        return failure(about, "the append-only file cannot be written", remedy)
    return ok(about, "append-only file")


_INFO_CHECKS = (_version, _role, _eviction, _memory, _persistence)


async def _slots(redis: RedisClient, info: Info) -> Finding:
    about = "redis cluster"
    if not int(info.get("cluster_enabled", 0)):
        return ok(about, "a single server")
    lines = (await redis.call("CLUSTER", "INFO")).decode().split()
    state = dict(line.split(":", 1) for line in lines)
    covered, nodes = int(state["cluster_slots_ok"]), int(state["cluster_size"])
    if state["cluster_state"] != "ok" or covered < ALL_SLOTS:
        text = f"{covered} of {ALL_SLOTS} slots are served"
        return failure(about, text, "repair it: redis-cli --cluster fix HOST:PORT")
    if nodes > 1:
        text = f"{nodes} masters share the slots; this version talks to one server"
        return failure(about, text, "name a Redis that holds all slots")
    return ok(about, "one master holds all slots")


async def _contract(redis: RedisClient, settings: BrokerSettings) -> Finding:
    about = "redis keys"
    found = await read_schema_version(redis, Keys(settings.key_prefix))
    if found is not None and found != str(SCHEMA_VERSION):
        text = f"contract version {found}, this program uses {SCHEMA_VERSION}"
        return failure(about, text, remedy_for(found))
    return ok(about, f"contract version {found}" if found else "none yet")


async def _times(redis: RedisClient) -> list[Finding]:
    """Round trip, and this host's clock compared to Redis by the fastest of a few answers."""
    trips: list[float] = []
    skews: list[float] = []
    for _ in range(_PINGS):
        before = time.time()
        seconds, micros = await redis.call("TIME")
        after = time.time()
        trips.append(after - before)
        skews.append((before + after) / 2 - (int(seconds) + int(micros) / 1e6))
    skew_s = skews[trips.index(min(trips))]
    return [_clock(skew_s), _speed(statistics.median(trips) * 1000)]


def _clock(skew_s: float) -> Finding:
    found = f"this host is {abs(skew_s):.3f} s {'ahead of' if skew_s > 0 else 'behind'} Redis"
    if abs(skew_s) > _SKEWED_S:
        remedy = "keep both hosts' clocks right: apt-get install -y chrony"
        return warning("clock", f"{found}: logs and the ages of recordings will not agree", remedy)
    return ok("clock", found)


def _speed(median_ms: float) -> Finding:
    found = f"{median_ms:.2f} ms (median of {_PINGS})"
    if median_ms > _SLOW_MS:
        remedy = "put Redis nearer: every second of every conversation makes a few round trips"
        return warning("redis round trip", found, remedy)
    return ok("redis round trip", found)


def _mib(size: int) -> int:
    return size // 2**20
