from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from antiphon.inference_worker.engines.backend.processor import BackendProcessor
from antiphon.inference_worker.engines.factory import build_processor
from support.backend_server import ScriptedBackend
from support.vllm_omni_server import ScriptedVllmOmni

Connect = Callable[..., BackendProcessor]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def connect(stack: ExitStack) -> Connect:
    """Returns a loaded engine on running servers."""

    def connect(
        *servers: ScriptedBackend | ScriptedVllmOmni, slots: int = 0, **options: object
    ) -> BackendProcessor:
        addresses = [server.address for server in servers]
        values = {"addresses": addresses, "open_timeout_s": 60, "stall_timeout_s": 60, **options}
        engine = build_processor("backend", slots=slots or len(servers), options=values)
        assert isinstance(engine, BackendProcessor)
        stack.callback(engine.close)
        engine.load(lambda _: None)
        return engine

    return connect


@pytest.fixture
def llama(stack: ExitStack) -> ScriptedBackend:
    """A running server that behaves like `llama-omni-server`."""
    return stack.enter_context(ScriptedBackend(is_llama=True).running())


@pytest.fixture
def demo(stack: ExitStack) -> ScriptedBackend:
    """A running server that behaves like the demo's PyTorch backend."""
    return stack.enter_context(ScriptedBackend(is_llama=False).running())


@pytest.fixture
def omni(stack: ExitStack) -> ScriptedVllmOmni:
    """A running server that behaves like vLLM-Omni."""
    return stack.enter_context(ScriptedVllmOmni().running())
