"""The files whose tests take longest, so that they start first when files are distributed to processes.

xdist starts the files with the most tests first. A long file of few tests would then run alone at the
end. Renew the list from `pytest --durations=0` when files become much longer or shorter.
"""

from __future__ import annotations

import pytest

LONGEST_FIRST = (
    "system/commands/test_demo_and_up.py",
    "system/faults/test_redis_servers.py",
    "redis/recorder/test_kills.py",
    "system/faults/test_waiting_clients.py",
    "system/commands/test_bench.py",
    "redis/worker/test_long_sessions.py",
    "system/faults/test_full_disk.py",
    "system/faults/test_redis_connections.py",
    "system/faults/test_lost_processes.py",
    "redis/broker/test_sentinel.py",
    "system/faults/test_redis_sentinel.py",
    "system/faults/test_resume_on_another_edge.py",
    "system/commands/test_mistakes.py",
    "redis/recorder/test_crashes.py",
    "system/faults/test_difficult_clients.py",
    "system/commands/test_document_commands.py",
    "system/faults/test_redis_cluster.py",
    "system/commands/test_replay.py",
    "system/edge/test_faults.py",
    "system/faults/test_workers.py",
    "redis/broker/test_properties.py",
    "redis/recorder/test_disk.py",
    "system/commands/test_background_stack.py",
    "system/faults/test_chaos.py",
    "redis/edge/test_resume_exactly.py",
)
"""Below tests/, by the seconds that they took alone."""

_PLACES = {f"tests/{name}": place for place, name in enumerate(LONGEST_FIRST)}


def sort_longest_first(items: list[pytest.Item]) -> None:
    """Keeps the order of the tests of each file, and of the other files."""
    items.sort(key=lambda item: _PLACES.get(item.nodeid.partition("::")[0], len(_PLACES)))
