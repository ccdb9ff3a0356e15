"""The engine `backend` keeps the contract of engines, with each of the servers that exist."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import pytest

from antiphon.inference_worker.engines.conformance import EngineConformance
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from support.backend_server import ScriptedBackend
from support.vllm_omni_server import ScriptedVllmOmni


@pytest.fixture(scope="module", params=["llama", "demo", "vllm-omni"])
def engine(request: pytest.FixtureRequest) -> Iterator[UnifiedProcessor]:
    slots, is_llama = EngineConformance.slots, request.param == "llama"
    omni = ScriptedVllmOmni(limit=slots)
    servers: Sequence[ScriptedBackend | ScriptedVllmOmni] = [omni]
    if request.param != "vllm-omni":
        servers = [ScriptedBackend(is_llama=is_llama) for _ in range(slots)]
    with ExitStack() as stack:
        addresses = [stack.enter_context(server.running()).address for server in servers]
        options = {"addresses": addresses, "start_timeout_s": 60}
        engine = build_processor("backend", slots=slots, options=options)
        stack.callback(engine.close)
        engine.load(lambda _: None)
        yield engine
        assert not any(server.faults for server in servers)
        assert omni.active == 0


class TestBackend(EngineConformance):
    exact_recovery = False

    def test_duplex_greeting(self, engine: UnifiedProcessor) -> None:
        """The protocols of its servers have none, so the worker refuses a greeting by this field."""
        assert not engine.info.greets

    test_duplex_forced_listening_ends_the_greeting = test_duplex_greeting
    test_half_duplex_greeting = test_duplex_greeting
    test_half_duplex_break_ends_the_greeting = test_duplex_greeting
    test_half_duplex_rollback_of_the_greeting = test_duplex_greeting
