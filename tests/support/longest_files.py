"""The files whose tests take longest, so that they start first when files are distributed to processes.

xdist starts the files with the most tests first. A long file of few tests would then run alone at the
end. Renew the list from `pytest --durations=0` when files become much longer or shorter.
"""

from __future__ import annotations

import pytest

LONGEST_FIRST = (
    "browser/test_calls.py",
    "browser/test_speech.py",
    "browser/test_firefox.py",
    "system/commands/test_demo_and_up.py",
    "system/faults/test_redis_servers.py",
    "system/faults/test_waiting_clients.py",
    "unit/inference_worker/engines/minicpmo/scheduling/test_fake_gpu.py",
    "system/stack/test_fuzz_sockets.py",
    "unit/inference_worker/engines/local/test_duplex.py",
    "system/stack/test_openapi.py",
    "system/stack/test_examples.py",
    "system/commands/test_bench.py",
    "redis/worker/test_long_sessions.py",
    "system/faults/test_full_disk.py",
    "unit/inference_worker/engines/minicpmo/model/test_fused_kernels.py",
    "system/faults/test_redis_connections.py",
    "system/faults/test_lost_processes.py",
    "system/stack/test_documented_examples.py",
    "redis/broker/test_sentinel.py",
    "system/faults/test_redis_sentinel.py",
    "unit/inference_worker/engines/local/test_half_duplex.py",
    "browser/test_home.py",
    "system/faults/test_resume_on_another_edge.py",
    "browser/test_admin.py",
    "system/commands/test_mistakes.py",
    "redis/recorder/test_crashes.py",
    "system/faults/test_difficult_clients.py",
    "system/commands/test_document_commands.py",
    "system/faults/test_redis_cluster.py",
    "system/commands/test_replay.py",
    "system/edge/test_faults.py",
    "browser/test_turn_pages.py",
    "browser/test_call_devices.py",
    "browser/test_viewer.py",
    "system/faults/test_workers.py",
)
"""Below tests/, by the seconds that they take."""

_PLACES = {f"tests/{name}": place for place, name in enumerate(LONGEST_FIRST)}


def sort_longest_first(items: list[pytest.Item]) -> None:
    """Keeps the order of the tests of each file, and of the other files."""
    items.sort(key=lambda item: _PLACES.get(item.nodeid.partition("::")[0], len(_PLACES)))
