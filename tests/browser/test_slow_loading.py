"""A session that the user starts before the presets and the capabilities of the engines have arrived."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from support.browser_user import Browsers, Visitor
from support.shared_stack import TALKATIVE
from support.stack import Stack, new_stack, until
from support.turn_page import watch_frames

START = {"/": "Start call", "/half_duplex": "Start conversation"}
GREETING = b'"greeting":"Hello! How can I help you?"'
SLOW_MS = 30_000


@pytest.fixture
def stack(simulated: Stack) -> Stack:
    return simulated


async def _reload_with_slow(page: Page, path: str) -> asyncio.Event:
    """Loads the page again. Answers of `path` arrive after the event is set."""
    arrives = asyncio.Event()

    async def answer(route: Route) -> None:
        await arrives.wait()
        await route.continue_()

    await page.route(f"**{path}", answer)
    await page.clock.install()
    await page.reload()
    return arrives


@pytest.mark.parametrize("path", START)
@pytest.mark.parametrize("answer", ["/api/presets", "/api/capabilities"])
async def test_a_conversation_waits_for_its_greeting(
    visitor: Visitor, path: str, answer: str
) -> None:
    page = await visitor.open(path)
    arrives = await _reload_with_slow(page, answer)
    sent = watch_frames(page)
    await page.get_by_role("button", name=START[path]).click()
    await page.clock.run_for(SLOW_MS)
    await expect(page.get_by_role("status").filter(has_text="Opening your")).to_be_visible()
    arrives.set()
    await until(lambda: any(b'"prepare"' in frame for frame in sent))
    assert any(GREETING in frame for frame in sent)
    assert any(b"You are a helpful" in frame for frame in sent)


@pytest.mark.parametrize("path", START)
async def test_a_start_can_be_cancelled_while_it_waits(visitor: Visitor, path: str) -> None:
    page = await visitor.open(path)
    arrives = await _reload_with_slow(page, "/api/presets")
    sent = watch_frames(page)
    await page.get_by_role("button", name=START[path]).click()
    await page.get_by_role("button", name="End ").click()
    await expect(page.get_by_role("button", name=START[path])).to_be_visible()
    async with page.expect_response("**/api/presets"):
        arrives.set()
    await page.get_by_role("button", name=START[path]).click()
    await until(lambda: any(b'"prepare"' in frame for frame in sent))
    assert len([frame for frame in sent if b'"prepare"' in frame]) == 1


async def test_capabilities_are_asked_for_again_if_no_worker_was_known(visitor: Visitor) -> None:
    """The report of the only worker is late while the page loads."""
    page = await visitor.open("/half_duplex")
    presets = page.locator("an-preset-selector select")
    await expect(presets).to_be_enabled()  # no request of this visit is left for the route
    found = await (await page.request.get(f"{visitor.url}/api/capabilities")).json()
    answers = [found | {"model": None, "greets": False, "engines": [], "kinds": []}]

    async def answer(route: Route) -> None:
        """Not `times=1`: when a route ends, Chromium may forget the other requests that it has stopped."""
        await route.fulfill(json=answers.pop() if answers else found)

    await page.route("**/api/capabilities", answer)
    await page.reload()
    await expect(presets).to_be_enabled()
    sent = watch_frames(page)
    await page.get_by_role("button", name="Start conversation").click()
    await until(lambda: any(GREETING in frame for frame in sent))


@pytest.mark.parametrize("path", START)
async def test_a_conversation_that_waits_for_the_first_worker_is_greeted(
    browsers: Browsers, pages: None, tmp_path: Path, path: str
) -> None:
    with new_stack(tmp_path) as running:
        running.edge()
        async with Visitor(browsers, running.http_url, tmp_path) as visitor:
            page = await visitor.open(path)
            sent = watch_frames(page)
            await page.get_by_role("button", name=START[path]).click()
            await expect(page.locator("an-queue-panel")).to_be_visible()
            options = {"engine_options": TALKATIVE}
            await asyncio.to_thread(running.worker, "simulated", **options)
            await until(lambda: any(b'"prepare"' in frame for frame in sent))
            assert any(GREETING in frame for frame in sent)
            await page.get_by_role("button", name="End ").click()
            assert visitor.page_errors == []


async def test_a_question_waits_for_the_instructions(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased")
    arrives = await _reload_with_slow(page, "/api/presets")
    sent = watch_frames(page)
    area = page.get_by_label("Your message")
    await area.fill("What is the capital of Italy?")
    await area.press("Enter")
    await page.clock.run_for(SLOW_MS)
    arrives.set()
    await until(lambda: any(b"capital of Italy" in frame for frame in sent))
    assert any(b"You are a helpful" in frame for frame in sent)
