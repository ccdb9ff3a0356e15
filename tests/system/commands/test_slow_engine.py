"""A stack whose engine needs longer to load than the services need to start."""

from pathlib import Path

import pytest

from antiphon.cli.stack import stack
from antiphon.shared_schemas.states import WorkerState
from support.ports import free_port

pytestmark = pytest.mark.extended


async def test_a_stack_waits_for_as_long_as_its_engine_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack, "READY_TIMEOUT_S", 20.0)
    plan = stack.StackPlan(
        data_dir=tmp_path,
        host="127.0.0.1",
        port=free_port(),
        engine="simulated",
        engine_options={"load_ms": 21_000},
    )
    stages: list[tuple[str, str]] = []
    with stack.open_stack(plan, lambda *_: None) as opened:
        async with opened.running():
            worker = await opened.wait_until_ready(lambda *stage: stages.append(stage))
    assert worker.state is WorkerState.IDLE
    assert ("worker", "loading: timing model") in stages
