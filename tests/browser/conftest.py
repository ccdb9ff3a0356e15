"""A real Chromium before a real stack: `visitor` opens pages, speaks into them and keeps their complaints."""

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
    """The program; skips where there is none, which CI may not."""
    found = find_chromium()
    if found is None:
        text = f"no Chromium on this machine: {REMEDY}"
        if in_ci():
            pytest.fail(text)
        pytest.skip(text)
    return found


@pytest.fixture(scope="session")
def pages() -> None:
    """The pages as the sources have them now, and what examines them."""
    build_pages()
    node = find_node()
    assert node is not None
    require_packages(node, WEB, development=True)


@pytest.fixture
async def visitor(
    chromium: str, pages: None, stack: Stack, tmp_path: Path
) -> AsyncIterator[Visitor]:
    """Someone who opens pages of `stack.http_url`; no page of theirs may complain in its console."""
    async with Visitor(chromium, stack.http_url, tmp_path) as someone:
        yield someone
        assert someone.complaints == []
