"""Loads one edge over clusters of several sizes, and prints the CPU time of each server.

    PYTHONPATH=tests python bench/cluster_load.py --masters 1 3 6 --sessions 100 --seconds 15

The load is that of `bench/edge_load.py`. The first row is a single server without cluster mode. All
processes share this machine, so only the CPU times are meaningful, and not the latencies.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edge_load import load_plan, run_edge_with
from processes import private_redis
from support.redis_cluster import redis_cluster


@contextmanager
def servers(masters: int) -> Iterator[tuple[str, dict[str, int]]]:
    """URL and process ids of a cluster, whose first master has the control keys; 0 masters: a single server."""
    if not masters:
        with private_redis() as (url, pid):
            yield url, {"redis-1": pid}
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        redis_cluster(Path(folder), masters=masters, replicas=0) as cluster,
    ):
        control = cluster.master_of("{antiphon}:queue")
        ordered = [control, *(node for node in cluster.masters if node is not control)]
        yield cluster.url, {f"redis-{n}": node.pid for n, node in enumerate(ordered, start=1)}


def row(masters: int, report: dict[str, Any]) -> dict[str, Any]:
    used: dict[str, float] = report["cpu_ms_per_session_s"]
    nodes = [ms for name, ms in used.items() if name.startswith("redis-")]
    return {
        "masters": masters,
        "edge": used["edge"],
        "redis, all": round(sum(nodes), 3),
        "control master": nodes[0],
        "busiest other master": max(nodes[1:], default=None),
        "idlest other master": min(nodes[1:], default=None),
        "answered": report["kinds"]["audio"]["answered"],
        "lost": report["kinds"]["audio"]["lost"],
        "unserved": report["unserved"],
    }


def main() -> None:
    """Measure, and print a line of JSON for each cluster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--masters", type=int, nargs="+", default=[0, 1, 3, 6])
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    for masters in options.masters:
        with servers(masters) as (url, pids):
            report = run_edge_with(url, pids, load_plan(options.sessions, options.seconds))
        print(json.dumps(row(masters, report)), flush=True)


if __name__ == "__main__":
    main()
