"""Fixtures for tests with Chromium and a real stack. `visitor` opens pages and collects their errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodejs import find_node
from support.chromium import REMEDY, find_chromium, in_ci
from support.stack import Stack
from support.visitor import Visitor
from web_pages import WEB, build_pages, require_packages


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


@pytest.fixture(scope="session")
def pages() -> None:
    """Builds the pages and installs axe-core."""
    build_pages()
    node = find_node()
    assert node is not None
    require_packages(node, WEB, development=True)


@pytest.fixture
async def visitor(
    chromium: str, pages: None, stack: Stack, tmp_path: Path
) -> AsyncIterator[Visitor]:
    """Opens pages of `stack.http_url`. Fails if a page logs a warning or an error."""
    async with Visitor(chromium, stack.http_url, tmp_path) as someone:
        yield someone
        assert someone.complaints == []
