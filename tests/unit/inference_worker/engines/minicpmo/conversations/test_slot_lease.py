"""A slot that belongs to one session."""

from concurrent.futures import Future
from typing import Any, cast

import pytest

from antiphon.inference_worker.engines.minicpmo.conversations.slot_lease import SlotLease
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import Engine, EngineJob
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import ClearSlot, Steps
from antiphon.inference_worker.engines.types import EngineError


class StoppedAtOnce:
    """An engine whose session is stopped while it takes a job, before `submit` has returned."""

    def __init__(self) -> None:
        self.released: list[int] = []
        self.lease = SlotLease(cast("Engine", self), slot=1, seed=0, release=self.released.append)

    def submit(self, job: EngineJob) -> Future[Any]:
        self.lease.stop()
        job.future.set_result("abandoned" if job.abandoned else "ran")
        return job.future

    def run(self, work: Steps[Any]) -> None:
        del work


def clear() -> Steps[str]:
    yield ClearSlot(1)
    return "cleared"


def test_stop_reaches_a_job_that_the_engine_has_just_taken() -> None:
    assert StoppedAtOnce().lease.run(clear()) == "abandoned"


def test_a_closed_lease_takes_no_job_and_releases_its_slot_once() -> None:
    engine = StoppedAtOnce()
    engine.lease.close()
    engine.lease.close()
    assert engine.released == [1]
    with pytest.raises(EngineError, match="this session has ended"):
        engine.lease.run(clear())
