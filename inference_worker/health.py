"""What a worker says of itself on its health page."""

from __future__ import annotations

from typing import Any

from antiphon.inference_worker.bench import Bench
from antiphon.inference_worker.heartbeat import Heartbeat
from antiphon.inference_worker.roster import Roster
from antiphon.shared_schemas.states import WorkerState


def health(bench: Bench, roster: Roster, heartbeat: Heartbeat) -> tuple[bool, dict[str, Any]]:
    """Well while the worker may serve or loads; not once its engine failed."""
    state = heartbeat.shown_state
    well = state is not WorkerState.ERROR
    return well, {
        "status": "healthy" if well else "unhealthy",
        "worker_id": bench.worker_id,
        "state": state,
        "detail": heartbeat.detail,
        "engine": bench.processor.info.name,
        "model": bench.processor.info.model,
        "slots": bench.settings.slots,
        "used": len(roster),
        "counters": bench.counters.row(),
    }
