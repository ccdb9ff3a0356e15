"""Measures what clients notice when servers of Redis fail, with a cluster and with Sentinels.

    PYTHONPATH=tests python bench/failover.py --kinds sentinel

Prints the table of docs/reliability.md, and below each row the silence of each kind of client.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.chaos.clients import ChaosSession
from support.failover.conversations import OTHERS
from support.failover.faults import (
    Fault,
    freeze,
    freeze_while_clients_resume,
    kill,
    lose_writes,
    move_slots,
)
from support.failover.resumes import ResumingSession
from support.failover.talk import LOAD, Load, TalkingStack, TalkReport, talking_stack
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
            "Sentinel: the master is suspended, and clients resume",
            lambda: freeze_while_clients_resume(group),
        ),
        (
            "Sentinel: the master is killed, its last seconds are lost",
            lambda: lose_writes(group, late_clients=4),
        ),
    ]


@contextmanager
def measured(
    kind: str, folder: Path, slots: int
) -> Iterator[tuple[RedisCluster | RedisSentinel, TalkingStack, list[Scenario]]]:
    if kind == "cluster":
        with (
            redis_cluster(folder / "redis") as cluster,
            talking_stack(folder / "stack", cluster, slots=slots) as talking,
        ):
            yield cluster, talking, of_cluster(cluster, talking)
    else:
        with (
            redis_sentinel(folder / "redis", replicas=2) as group,
            talking_stack(folder / "stack", group, slots=slots) as talking,
        ):
            yield group, talking, of_sentinel(group)


def row(name: str, report: TalkReport) -> str:
    talked = [session for session in report.sessions if session.results]
    silences = sorted(session.longest_silence_s for session in talked)
    results = sum(len(session.results) for session in report.sessions)
    cells = (
        name,
        f"{report.election_s:.1f}",
        f"{silences[len(silences) // 2]:.1f} / {silences[-1]:.1f}",
        f"{report.lost} of {results}",
        f"{len(report.ended_early)} of {len(report.sessions)}",
        str(len(report.worse_places)),
        str(len(report.violations)),
    )
    return f"| {' | '.join(cells)} |"


def by_protocol(report: TalkReport) -> Iterator[str]:
    for kind in (ChaosSession, ResumingSession, *OTHERS):
        of_kind = [s for s in report.sessions if type(s) is kind]
        if of_kind:
            silences = sorted(session.longest_silence_s for session in of_kind)
            middle, longest = silences[len(silences) // 2], silences[-1]
            yield f"  {kind.__name__}: {len(of_kind)}, silence {middle:.1f} / {longest:.1f}"
    yield from (f"  {s.sid}: places {s.places}" for s in report.waiting)


async def run(kind: str, load: Load, rounds: int, only: str) -> None:
    with (
        tempfile.TemporaryDirectory() as name,
        measured(kind, Path(name), load.slots) as (redis, talking, scenarios),
    ):
        servers = redis.nodes if isinstance(redis, RedisCluster) else redis.servers
        for _ in range(rounds):
            for title, fault in scenarios:
                lossy = "lost" in title
                resumes = "resume" in title
                if only not in title or (lossy and load.waiting) or resumes > load.resuming:
                    continue
                report = await talking.talk_through(fault(), load, loses_writes=lossy)
                print(row(title, report), flush=True)
                print(*by_protocol(report), sep="\n", flush=True)
                for problem in (*report.violations, *report.ended_early):
                    print(f"  {problem}", flush=True)
                for server in servers:
                    if not server.running:
                        server.start()
                await asyncio.to_thread(redis.wait_until_ok)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=LOAD.clients)
    parser.add_argument("--others", type=int, default=LOAD.others, help="of each other protocol")
    parser.add_argument("--waiting", type=int, default=LOAD.waiting, help="more, in the queue")
    parser.add_argument("--resuming", type=int, default=LOAD.resuming, help="more, which resume")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kinds", default="cluster,sentinel")
    parser.add_argument("--only", default="", help="a part of the names of the faults")
    options = parser.parse_args()
    print(
        "| fault | election s | silence s (median / longest) | results lost | sessions ended "
        "| worse places | violations |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for kind in options.kinds.split(","):
        load = Load(options.clients, options.others, options.waiting, options.resuming)
        asyncio.run(run(kind, load, options.rounds, options.only))


if __name__ == "__main__":
    main()
