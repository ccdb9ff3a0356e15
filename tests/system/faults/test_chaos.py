"""Random faults under load. `make chaos` runs it for five minutes with another seed each time."""

import os
from pathlib import Path

import pytest

from support.chaos.run import ended_normally, run_chaos

pytestmark = pytest.mark.extended

SECONDS = float(os.environ.get("CHAOS_SECONDS") or (30 if os.environ.get("CI") else 10))
SEED = int(os.environ.get("CHAOS_SEED") or 32)
"""The same faults in every run of the suite: a change that breaks an invariant must be the cause.

With this seed, 30 seconds have faults of all kinds, also of Redis.
"""


@pytest.mark.timeout(SECONDS + 400)
async def test_every_invariant_holds_under_random_faults(tmp_path: Path) -> None:
    command = f"CHAOS_SEED={SEED} CHAOS_SECONDS={SECONDS:.0f} make chaos"
    print(f"seed {SEED}; repeat with: {command}", flush=True)  # noqa: T201 - first line of the run
    report = await run_chaos(tmp_path, SEED, SECONDS)
    print(report)  # noqa: T201
    assert ended_normally(report) > 0
    assert not report.violations, f"{report}\nrepeat with: {command}"
