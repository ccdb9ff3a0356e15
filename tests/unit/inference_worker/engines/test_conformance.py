"""The engine `simulated` keeps the contract of engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from antiphon.inference_worker.engines.conformance import EngineConformance
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.engines.processor import UnifiedProcessor

FAST = dict.fromkeys(["prepare_ms", "prefill_ms", "listen_ms", "speak_ms", "finalize_ms"], 0.0)


@pytest.fixture(scope="module")
def engine() -> Iterator[UnifiedProcessor]:
    slots, options = EngineConformance.slots, {**FAST, "cycle_units": 4}
    engine = build_processor("simulated", slots=slots, options=options)
    engine.load(lambda _: None)
    yield engine
    engine.close()


class TestSimulated(EngineConformance):
    pass
