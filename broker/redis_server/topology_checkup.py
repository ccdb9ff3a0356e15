"""Checks of what elects masters: Sentinels, a cluster, and the replicas that take over. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from redis.exceptions import ResponseError

from antiphon.broker.connections.client import RedisNode
from antiphon.broker.connections.sentinel import SentinelClient
from antiphon.broker.connections.server_version import cluster_state
from antiphon.broker.errors import BrokerUnavailable
from antiphon.broker.redis_address import Endpoint
from antiphon.shared_schemas.findings import Finding, failure, ok, warning

ALL_SLOTS = 16384
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
            lost.append(f"{sentinel.name} ({error})")
    if not states:
        raise BrokerUnavailable(f"no Sentinel answers: {'; '.join(lost)}")
    findings = []
    if lost:
        remedy = "start them, or correct ANTIPHON_REDIS_URL"
        findings.append(warning(about, f"without an answer: {'; '.join(lost)}", remedy))
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
    if state["cluster_state"] != "ok" or covered < ALL_SLOTS:
        text = f"{covered} of {ALL_SLOTS} slots are served"
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
