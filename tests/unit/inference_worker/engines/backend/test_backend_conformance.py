"""The engine `backend` keeps the contract of engines, with each of the two servers that exist."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from antiphon.inference_worker.engines.conformance import EngineConformance
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.engines.processor import UnifiedProcessor
from support.backend_server import ScriptedBackend


@pytest.fixture(scope="module", params=[True, False], ids=["llama", "demo"])
def engine(request: pytest.FixtureRequest) -> Iterator[UnifiedProcessor]:
    servers = [ScriptedBackend(is_llama=request.param) for _ in range(EngineConformance.slots)]
    with ExitStack() as stack:
        addresses = [stack.enter_context(server.running()).address for server in servers]
        options = {"addresses": addresses, "start_timeout_s": 60}
        engine = build_processor("backend", slots=len(servers), options=options)
        stack.callback(engine.close)
        engine.load(lambda _: None)
        yield engine
        assert [server.faults for server in servers] == [[], []]


class TestBackend(EngineConformance):
    exact_recovery = False

    def test_duplex_greeting(self, engine: UnifiedProcessor) -> None:
        """The protocol of its servers has none, so the worker refuses a greeting by this field."""
        assert not engine.info.greets

    test_duplex_forced_listening_ends_the_greeting = test_duplex_greeting
    test_half_duplex_greeting = test_duplex_greeting
    test_half_duplex_break_ends_the_greeting = test_duplex_greeting
    test_half_duplex_rollback_of_the_greeting = test_duplex_greeting
