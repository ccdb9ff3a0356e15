"""The engine `backend` keeps the contract of engines on vLLM-Omni."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from antiphon.inference_worker.engines.conformance import EngineConformance
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from support.vllm_omni_server import ScriptedVllmOmni


@pytest.fixture(scope="module")
def engine() -> Iterator[UnifiedProcessor]:
    server = ScriptedVllmOmni(limit=EngineConformance.slots)
    with ExitStack() as stack:
        address = stack.enter_context(server.running()).address
        options = {"addresses": [address], "start_timeout_s": 60}
        engine = build_processor("backend", slots=EngineConformance.slots, options=options)
        stack.callback(engine.close)
        engine.load(lambda _: None)
        yield engine
        assert server.faults == []
        assert server.active == 0


class TestVllmOmni(EngineConformance):
    exact_recovery = False

    def test_duplex_greeting(self, engine: UnifiedProcessor) -> None:
        """Its protocol has none, so the worker refuses a greeting by this field."""
        assert not engine.info.greets

    test_duplex_forced_listening_ends_the_greeting = test_duplex_greeting
    test_half_duplex_greeting = test_duplex_greeting
    test_half_duplex_break_ends_the_greeting = test_duplex_greeting
    test_half_duplex_rollback_of_the_greeting = test_duplex_greeting
