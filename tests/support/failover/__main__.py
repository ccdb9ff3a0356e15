"""Measures what clients notice of each fault: `PYTHONPATH=tests python -m support.failover`."""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.failover.faults import Fault, freeze, kill, lose_writes, move_slots
from support.failover.talk import TalkingStack, TalkReport, talking_stack
from support.redis_cluster import ClusterNode, RedisCluster, redis_cluster
from support.redis_sentinel import RedisSentinel, redis_sentinel

Scenario = tuple[str, Callable[[], Fault]]


def of_cluster(cluster: RedisCluster, talking: TalkingStack) -> list[Scenario]:
    def control() -> ClusterNode:
        return cluster.master_of(talking.control_slot)

    def streams() -> ClusterNode:
        return next(node for node in cluster.masters if node is not control())

    return [
        (
            "Cluster: the slots of all streams and of the control keys move",
            lambda: move_slots(cluster, talking),
        ),
        ("Cluster: the master of the control keys is killed", lambda: kill(cluster, control())),
        ("Cluster: a master of streams is killed", lambda: kill(cluster, streams())),
        (
            "Cluster: the master of the control keys is suspended",
            lambda: freeze(cluster, control()),
        ),
        ("Cluster: a master of streams is suspended", lambda: freeze(cluster, streams())),
    ]


def of_sentinel(group: RedisSentinel) -> list[Scenario]:
    return [
        ("Sentinel: the master is killed", lambda: kill(group, group.master)),
        ("Sentinel: the master is suspended", lambda: freeze(group, group.master)),
        (
            "Sentinel: the master is killed, its last seconds are lost",
            lambda: lose_writes(group, late_clients=4),
        ),
    ]


@contextmanager
def measured(
    kind: str, folder: Path
) -> Iterator[tuple[RedisCluster | RedisSentinel, TalkingStack, list[Scenario]]]:
    if kind == "cluster":
        with (
            redis_cluster(folder / "redis") as cluster,
            talking_stack(folder / "stack", cluster) as talking,
        ):
            yield cluster, talking, of_cluster(cluster, talking)
    else:
        with (
            redis_sentinel(folder / "redis", replicas=2) as group,
            talking_stack(folder / "stack", group) as talking,
        ):
            yield group, talking, of_sentinel(group)


def row(name: str, report: TalkReport) -> str:
    silences = sorted(session.longest_silence_s for session in report.sessions)
    results = sum(len(session.results) for session in report.sessions)
    cells = (
        name,
        f"{report.election_s:.1f}",
        f"{silences[len(silences) // 2]:.1f} / {silences[-1]:.1f}",
        f"{report.lost} of {results}",
        f"{len(report.ended_early)} of {len(silences)}",
        str(len(report.violations)),
    )
    return f"| {' | '.join(cells)} |"


async def run(kind: str, clients: int, rounds: int, only: str) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        measured(kind, Path(name)) as (redis, talking, scenarios),
    ):
        servers = redis.nodes if isinstance(redis, RedisCluster) else redis.servers
        for _ in range(rounds):
            for title, fault in scenarios:
                if only not in title:
                    continue
                lossy = "lost" in title
                report = await talking.talk_through(fault(), clients=clients, loses_writes=lossy)
                print(row(title, report), flush=True)
                for problem in (*report.violations, *report.ended_early):
                    print(f"  {problem}", flush=True)
                for server in servers:
                    if not server.running:
                        server.start()
                await asyncio.to_thread(redis.wait_until_ok)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kinds", default="cluster,sentinel")
    parser.add_argument("--only", default="", help="a part of the names of the faults")
    options = parser.parse_args()
    print(
        "| fault | election s | silence s (median / longest) | results lost | sessions ended | violations |"
    )
    print("|---|---|---|---|---|---|", flush=True)
    for kind in options.kinds.split(","):
        asyncio.run(run(kind, options.clients, options.rounds, options.only))


if __name__ == "__main__":
    main()
