"""Checks of a Redis: version, settings, clock and speed of each server, and what elects masters. Reads only."""

from __future__ import annotations

import re
import shlex
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from redis.crc import REDIS_CLUSTER_HASH_SLOTS
from redis.exceptions import NoPermissionError, ResponseError

from antiphon.broker.connections.client import RedisClient, RedisNode, SingleServer
from antiphon.broker.connections.cluster import ClusterClient
from antiphon.broker.connections.connect import connect, connect_to
from antiphon.broker.connections.sentinel import SentinelClient
from antiphon.broker.errors import (
    BadPasswordFile,
    BrokerError,
    BrokerUnavailable,
    IncompatibleRedis,
)
from antiphon.broker.keys import Keys
from antiphon.broker.redis_address import Endpoint
from antiphon.broker.requirements import (
    ANOTHER_VERSION,
    SCHEMA_VERSION,
    check_rights,
    cluster_state,
    first_calls,
    is_supported,
    outage_at,
    read_schema_version,
)
from antiphon.broker.settings import BrokerSettings
from antiphon.shared_schemas.findings import Finding, FindingStatus, failure, ok, warning

_PINGS = 25
_SLOW_MS = 5.0
_SKEWED_S = 1.0
_FULL = 0.8

_FIXED_REDIS = {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2}
_FIXED_VALKEY = {(7, 2): 11, (8, 0): 6, (8, 1): 4}
"""The first patch release of each series in which a script cannot run code. Redis 7.0 has none: its
distributions fix it without a new number."""

_SEVERITY = (FindingStatus.OK, FindingStatus.WARNING, FindingStatus.FAILURE)


async def examine_redis(settings: BrokerSettings) -> list[Finding]:
    """Run all checks; stop at the first that Redis does not answer."""
    findings: list[Finding] = []
    async with AsyncExitStack() as closing:
        try:
            redis = connect(settings, only_master=False)
            closing.push_async_callback(redis.aclose)
            with first_calls():
                await _Checkup(redis, settings, closing, findings).run()
        except BrokerError as error:
            findings.append(failure("redis", str(error), _remedy(error)))
        else:
            if isinstance(redis, SingleServer):
                return [_at(redis.name, finding) for finding in findings]
    return findings


def _at(name: str, finding: Finding) -> Finding:
    """With the address of the server in the commands of the remedy."""
    host, _, port = name.rpartition(":")
    place = f"-h {host} -p {port}" if host else f"-s {shlex.quote(name)}"
    remedy = finding.remedy.replace("HOST:PORT", name)
    return replace(finding, remedy=re.sub(r"redis-cli (?!--)", f"redis-cli {place} ", remedy))


def _remedy(error: BrokerError) -> str:
    if isinstance(error, BadPasswordFile):
        return "correct the file, or the setting that names it"
    if isinstance(error, IncompatibleRedis):
        return error.remedy or "correct ANTIPHON_REDIS_URL"
    return error.remedy or (
        "start it, or name another with ANTIPHON_REDIS_URL (`antiphon up` brings its own)"
    )


class _Checkup:
    """Appends to `findings`, so that those before an outage are kept."""

    def __init__(
        self,
        redis: RedisClient,
        settings: BrokerSettings,
        closing: AsyncExitStack,
        findings: list[Finding],
    ) -> None:
        self._redis = redis
        self._settings = settings
        self._closing = closing
        self._findings = findings
        self._servers: list[RedisNode] = []
        self._infos: dict[str, Info] = {}

    async def run(self) -> None:
        redis, findings = self._redis, self._findings
        if isinstance(redis, SentinelClient):
            findings += await examine_sentinels(redis)
        masters = await redis.masters()
        for node in masters:
            await self._add(node)
        info = self._infos[first := masters[0].name]
        if "role" not in info:
            raise IncompatibleRedis(
                "this is a Sentinel: use redis+sentinel:// in ANTIPHON_REDIS_URL"
            )
        in_cluster = bool(int(info.get("cluster_enabled", 0)))
        if isinstance(redis, ClusterClient | SentinelClient):
            await self._add_replicas()
        else:
            findings.append(_role(info))
            if not in_cluster:
                findings.append(ok("redis cluster", "a single server"))
        if in_cluster:
            views = {node.name: await examine_cluster(node, len(masters)) for node in masters}
            worst = _worst(views)
            findings.append(worst if worst.verdict is FindingStatus.FAILURE else views[first])
        if not await self._examine_rights(masters, in_cluster=in_cluster):
            return
        for check in (_version, _eviction, _memory, _connections, _persistence):
            findings.append(_worst({name: check(info) for name, info in self._infos.items()}))
        times = {node.name: await _times(node) for node in self._servers}
        findings.append(_worst({name: _clock(skew_s) for name, (skew_s, _) in times.items()}))
        findings.append(_worst({name: _speed(trip_ms) for name, (_, trip_ms) in times.items()}))
        if all(finding.verdict is not FindingStatus.FAILURE for finding in findings):
            findings.append(await _contract(redis, self._settings))

    async def _add(self, node: RedisNode) -> None:
        try:
            with outage_at(node):
                self._infos[node.name] = await node.call("INFO", "everything")
        except NoPermissionError as error:
            text = f"the user of {node.name} has no permissions for info"
            raise IncompatibleRedis(text) from error
        self._servers.append(node)

    async def _examine_rights(self, masters: Sequence[RedisNode], *, in_cluster: bool) -> bool:
        """Whether the user may do everything, and each master would take a write now."""
        keys = Keys(self._settings.key_prefix)
        try:
            refusals = {
                node.name: await check_rights(node, keys, in_cluster=in_cluster) for node in masters
            }
        except IncompatibleRedis as error:
            self._findings.append(failure("redis rights", str(error), _remedy(error)))
            return False
        self._findings.append(ok("redis rights", "all that sessions need"))
        if self._infos[masters[0].name]["role"] == "master":  # a replica is reported as such
            self._findings.append(_worst({name: _writes(why) for name, why in refusals.items()}))
        return True

    async def _add_replicas(self) -> None:
        self._findings.append(examine_replicas(self._infos))
        for endpoint in replicas_of(self._infos):
            replica = connect_to(self._settings, endpoint)
            self._closing.push_async_callback(replica.aclose)
            try:
                await self._add(replica)
            except BrokerUnavailable as error:
                remedy = "make it reachable: after a failover the services connect to it"
                self._findings.append(failure("redis replicas", f"{replica.name}: {error}", remedy))


def _worst(findings: Mapping[str, Finding]) -> Finding:
    """One finding for all servers: the worst, with the names of the servers that it is about."""
    worst = max(findings.values(), key=lambda finding: _SEVERITY.index(finding.verdict))
    if len(findings) == 1:
        return worst
    texts = {
        name: finding.found
        for name, finding in findings.items()
        if finding.verdict is worst.verdict
    }
    if len(texts) == len(findings) and len(set(texts.values())) == 1:
        return replace(worst, found=f"{worst.found} (all {len(findings)} servers)")
    if worst.verdict is FindingStatus.OK:
        return replace(worst, found=f"{worst.found} (the first of {len(findings)} servers)")
    return replace(worst, found="; ".join(f"{name}: {text}" for name, text in texts.items()))


def _version(info: Info) -> Finding:
    found = str(info["redis_version"])
    if not is_supported(found):
        return failure("redis version", found, "install Redis 6.2 or newer")
    valkey = info.get("valkey_version")
    shown = f"{found} (Valkey {valkey})" if valkey else found
    major, minor, patch = (int(part) for part in str(valkey or found).split(".")[:3])
    fixed = (_FIXED_VALKEY if valkey else _FIXED_REDIS).get((major, minor), 0)
    if patch < fixed:
        newer = f"{major}.{minor}.{fixed}"
        text = f"{shown}: scripts can run code on the host (CVE-2025-49844)"
        return warning("redis version", text, f"install {newer} or newer")
    return ok("redis version", shown)


def _role(info: Info) -> Finding:
    if info["role"] != "master":
        remedy = f"name its master, {info.get('master_host')}:{info.get('master_port')}"
        return failure("redis role", f"{info['role']}: it takes no writes", remedy)
    return ok("redis role", "master")


def _writes(refusal: str | None) -> Finding:
    about = "redis writes"
    if refusal is None:
        return ok(about, "accepted")
    return failure(about, refusal, BrokerUnavailable(refusal).remedy or "see the log of the server")


_REPLICAS = "start the replicas, or lower min-replicas-to-write"


def _refuses_writes(info: Info) -> bool:
    """`min-replicas-to-write` is set, and no replica is there. INFO does not say how many are needed."""
    return info.get("min_slaves_good_slaves") == 0


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


def _connections(info: Info) -> Finding:
    used, most = int(info["connected_clients"]), int(info.get("maxclients") or 0)
    if most and used > most * _FULL:
        remedy = "raise maxclients, and the limit of open files of the Redis process"
        return warning("redis connections", f"{used} of {most} (maxclients)", remedy)
    return ok("redis connections", f"{used} of {most} (maxclients)" if most else str(used))


def _persistence(info: Info) -> Finding:
    about = "redis persistence"
    if not int(info["aof_enabled"]):
        text = "no append-only file: a restart of Redis ends every conversation"
        return warning(about, text, "redis-cli CONFIG SET appendonly yes, and in redis.conf")
    if info.get("aof_last_write_status") != "ok":
        remedy = "check for a full or broken disk on the Redis host"
        return failure(about, "the append-only file cannot be written", remedy)
    for field, what in _LAST_WRITES.items():
        if info.get(field, "ok") != "ok":
            remedy = "check the disk, the free memory and the log on the Redis host"
            return warning(about, f"the last {what} could not be written", remedy)
    return ok(about, "append-only file")


_LAST_WRITES = {
    "aof_last_bgrewrite_status": "rewrite of the append-only file",
    "rdb_last_bgsave_status": "snapshot",
}


async def _contract(redis: RedisClient, settings: BrokerSettings) -> Finding:
    about = "redis keys"
    found = await read_schema_version(redis, Keys(settings.key_prefix))
    if found is not None and found != str(SCHEMA_VERSION):
        text = f"contract version {found}, this program uses {SCHEMA_VERSION}"
        return failure(about, text, ANOTHER_VERSION)
    return ok(about, f"contract version {found}" if found else "none yet")


async def _times(node: RedisNode) -> tuple[float, float]:
    """How far this host's clock is ahead (s), by the fastest answer, and the median round trip (ms)."""
    trips: list[float] = []
    skews: list[float] = []
    for _ in range(_PINGS):
        before = time.time()
        seconds, micros = await node.call("TIME")
        after = time.time()
        trips.append(after - before)
        skews.append((before + after) / 2 - (int(seconds) + int(micros) / 1e6))
    return skews[trips.index(min(trips))], statistics.median(trips) * 1000


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


_FEWEST_SENTINELS = 3

Info = dict[str, Any]


async def examine_sentinels(redis: SentinelClient) -> list[Finding]:
    """Whether the Sentinels of the URL answer, agree, and can elect a master."""
    about = "redis sentinel"
    states: dict[RedisNode, dict[str, str]] = {}
    lost: list[str] = []
    for sentinel in list(redis.sentinels):
        try:
            states[sentinel] = await redis.read_state(sentinel)
        except BrokerUnavailable as error:
            named = sentinel.name in str(error)
            lost.append(str(error) if named else f"{sentinel.name}: {error}")
    if not states:
        reasons = "; ".join(lost)
        raise BrokerUnavailable(f"no Sentinel knows the master of {redis.service!r}: {reasons}")
    findings = []
    if lost:
        remedy = "start them, or correct ANTIPHON_REDIS_URL"
        findings.append(warning(about, "; ".join(lost), remedy))
    masters = {f"{state['ip']}:{state['port']}" for state in states.values()}
    if len(masters) > 1:
        remedy = "wait for the end of the election, or repair the network between the Sentinels"
        text = f"they name different masters: {', '.join(sorted(masters))}"
        return [*findings, failure(about, text, remedy)]
    sentinel, state = next(iter(states.items()))
    return [*findings, await _quorum(redis, sentinel, state)]


async def _quorum(redis: SentinelClient, sentinel: RedisNode, state: dict[str, str]) -> Finding:
    about = "redis sentinel"
    try:
        await sentinel.call("SENTINEL", "CKQUORUM", redis.service)
    except ResponseError as error:
        return failure(about, str(error), "start the missing Sentinels")
    known = int(state["num-other-sentinels"]) + 1
    text = f"{known} Sentinels, quorum {state['quorum']}, master {state['ip']}:{state['port']}"
    if known < _FEWEST_SENTINELS:
        remedy = "run three: two cannot elect a master when one is lost"
        return warning(about, text, remedy)
    return ok(about, text)


async def examine_cluster(node: RedisNode, masters: int) -> Finding:
    """Whether the masters that the services use have all slots."""
    about = "redis cluster"
    state = cluster_state(await node.call("CLUSTER", "INFO"))
    covered, size = int(state["cluster_slots_ok"]), int(state["cluster_size"])
    if state["cluster_state"] != "ok" or covered < REDIS_CLUSTER_HASH_SLOTS:
        text = f"{covered} of {REDIS_CLUSTER_HASH_SLOTS} slots are served"
        return failure(about, text, "repair it: redis-cli --cluster fix HOST:PORT")
    if size > masters:
        remedy = "use redis+cluster:// in ANTIPHON_REDIS_URL"
        return failure(about, f"this server is one of {size} masters", remedy)
    return ok(about, "one master holds all slots" if size == 1 else f"{size} masters, all slots")


def replicas_of(masters: Mapping[str, Info]) -> list[Endpoint]:
    """Every replica that is connected to its master."""
    return [
        (str(value["ip"]), int(value["port"]))
        for info in masters.values()
        for name, value in info.items()
        if name.startswith("slave") and isinstance(value, dict)
    ]


def examine_replicas(masters: Mapping[str, Info]) -> Finding:
    """Whether each master can be replaced, and stops when it is cut off from its replicas."""
    about = "redis replicas"
    if closed := [name for name, info in masters.items() if _refuses_writes(info)]:
        text = f"{', '.join(closed)} refuses writes without its replicas"
        return failure(about, text, _REPLICAS)
    alone = [name for name, info in masters.items() if not int(info["connected_slaves"])]
    if alone:
        text = f"none for {', '.join(alone)}: its loss ends the service until it is started again"
        return warning(about, text, "add a replica")
    counts = sorted({int(info["connected_slaves"]) for info in masters.values()})
    text = f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} for each master"
    careless = [name for name, info in masters.items() if "min_slaves_good_slaves" not in info]
    if careless:
        text = f"{text}; without min-replicas-to-write: {', '.join(careless)}"
        remedy = (
            "redis-cli CONFIG SET min-replicas-to-write 1, and in redis.conf: "
            "a master that is cut off takes writes that are lost"
        )
        return warning(about, text, remedy)
    return ok(about, text)
