"""Fixtures for tests with Chromium and a real stack. `visitor` opens pages and collects their errors."""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect

from nodejs import NodeError, find_node
from support.browser_user import Browsers, Chromium, Visitor
from support.chromium import REMEDY, find_chromium, in_ci
from support.shared_stack import TALKATIVE, end_sessions, running_stack
from support.stack import Stack, new_stack
from web_pages import build_pages, require_packages

expect.set_options(timeout=60_000)  # a busy machine is no failure


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the tests of this folder in one event loop, so that they can share a browser."""
    for item in items:
        if _is_here(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of Chromium. Skips the test if it is missing, and fails in CI."""
    found = find_chromium()
    if found is None:
        text = f"no Chromium on this machine: {REMEDY}"
        if in_ci():
            pytest.fail(text)
        pytest.skip(text)
    return found


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the pages before the first test. The time limit of a test does not include it."""
    if session.config.option.collectonly or not any(map(_is_here, session.items)):
        return
    with suppress(NodeError):  # the fixture reports it
        _make_pages()


@pytest.fixture(scope="session")
def pages() -> None:
    """Pages that are up to date, and axe-core."""
    _make_pages()


def _make_pages() -> None:
    build_pages()
    node = find_node()
    assert node is not None
    require_packages(node, development=True)


def _is_here(item: pytest.Item) -> bool:
    return item.path.is_relative_to(Path(__file__).parent)


@pytest.fixture(scope="session")
def running_simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder, worker = tmp_path_factory.mktemp("simulated"), {"slots": 2, "engine_options": TALKATIVE}
    with running_stack(folder, "simulated", **worker) as running:
        yield running


@pytest.fixture(scope="module")
def running(running_simulated: Stack) -> Stack:
    """Two slots of the simulated engine. Files may have a stack of their own."""
    return running_simulated


@pytest_asyncio.fixture(loop_scope="session")
async def stack(running: Stack) -> AsyncIterator[Stack]:
    """Its slots are free."""
    yield running
    await end_sessions(running)


@pytest.fixture
def patient_stack(tmp_path: Path) -> Iterator[Stack]:
    """A busy machine may need longer to resume a call than the grace of the shared stack."""
    with new_stack(tmp_path) as own:
        own.environment["ANTIPHON_RESUME_GRACE_S"] = "90"
        own.edge()
        own.worker(engine_options=TALKATIVE)
        yield own


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browsers(chromium: str) -> AsyncIterator[Browsers]:
    async with Chromium(chromium) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(
    browsers: Browsers, pages: None, stack: Stack, tmp_path: Path
) -> AsyncIterator[Visitor]:
    """Opens pages of `stack.http_url`. Fails if a page logs a warning or an error."""
    async with Visitor(browsers, stack.http_url, tmp_path) as opened:
        yield opened
        assert opened.page_errors == []
