"""The local engine, loaded once for all tests that need its models."""

from collections.abc import Iterator

import pytest

from antiphon.inference_worker.engines.local import duplex
from antiphon.inference_worker.engines.local.duplex import LocalDuplexView
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from support.llm_server import ScriptedServer, scripted_server
from support.synthetic_speech import STEADY

SLOTS = 3


@pytest.fixture(scope="session")
def local_engine() -> Iterator[LocalProcessor]:
    """The engine with its models. Each test creates its sessions."""
    engine = LocalProcessor(LocalOptions(slots=SLOTS, context_tokens=512, reply_words=12))
    engine.load(lambda _: None)
    yield engine
    engine.close()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server of a language model."""
    with scripted_server() as scripted:
        yield scripted


@pytest.fixture(autouse=True)
def _speech_may_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine needs longer than a unit for its speech, which then begins units later."""
    monkeypatch.setattr(duplex, "_WAIT_SHARE", 60.0)
    monkeypatch.setattr(duplex, "_MAX_WAIT_S", 60.0)


@pytest.fixture
def new_view(local_engine: LocalProcessor) -> Iterator[LocalDuplexView]:
    """A session that is not prepared: to read a prompt takes most of a second."""
    session = local_engine.set_duplex_mode()
    yield session
    session.cleanup()


@pytest.fixture
def view(new_view: LocalDuplexView) -> LocalDuplexView:
    """A prepared session that answers greedily and may speak from its first unit."""
    new_view.prepare("You are a helpful assistant.", STEADY)
    return new_view


@pytest.fixture
def other_view(local_engine: LocalProcessor) -> Iterator[LocalDuplexView]:
    session = local_engine.set_duplex_mode()
    yield session
    session.cleanup()
