"""Sessions that the user starts, changes and leaves before the answers of the API have arrived."""

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from support.browser_user import Browsers, Visitor
from support.call_page import CallPage
from support.shared_stack import TALKATIVE
from support.stack import new_stack, until
from support.turn_page import reload_when_stored, watch_frames

pytestmark = pytest.mark.extended

START = {"/": "Start call", "/half_duplex": "Start conversation"}
OPENING = re.compile("^Opening (your devices|microphone)…$")
GREETING = b'"greeting":"Hello! How can I help you?"'
SLOW_MS = 30_000


async def _reload_with_slow(page: Page, path: str) -> asyncio.Event:
    """Loads the page again, as on a first visit. Answers of `path` arrive after the event is set."""
    arrives = asyncio.Event()

    async def answer(route: Route) -> None:
        await arrives.wait()
        await route.continue_()

    await page.route(f"**{path}", answer)
    await page.clock.install()
    await page.add_init_script("localStorage.clear()")  # perhaps a preset has arrived already
    await page.reload()
    return arrives


@pytest.mark.parametrize(
    ("path", "answer"), [("/", "/api/presets"), ("/half_duplex", "/api/capabilities")]
)
async def test_a_conversation_waits_for_its_greeting(
    visitor: Visitor, path: str, answer: str
) -> None:
    page = await visitor.open(path)
    arrives = await _reload_with_slow(page, answer)
    sent = watch_frames(page)
    await page.get_by_role("button", name=START[path]).click()
    await page.clock.run_for(SLOW_MS)
    await expect(page.get_by_role("status").filter(has_text=OPENING)).to_be_visible()
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


async def test_a_call_and_its_recording_with_late_answers(visitor: Visitor) -> None:
    page = await visitor.open("/", late=True)
    sent = watch_frames(page)
    call = CallPage(page)
    await call.press("Start call")
    await call.is_in("active")
    assert any(GREETING in frame for frame in sent)
    await call.show("Transcript")
    await expect(page.locator(".line.model").first).to_contain_text("Hello!")
    await call.end()
    await call.press("Share")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("A late call")
    await dialog.get_by_role("button", name="Save").first.click()
    await dialog.get_by_role("button", name="Close").click()
    await page.goto(f"{visitor.url}/s/{await call.recording_id()}")
    await expect(page.get_by_role("heading", level=1)).to_have_text("A late call")
    await page.get_by_role("button", name="Play", exact=True).click()
    await page.wait_for_function("() => document.querySelector('audio').currentTime > 0.3")
    await page.get_by_role("button", name="Your conversations").click()
    row = page.get_by_role("dialog").get_by_role("listitem")
    await expect(row).to_contain_text("A late call")
    await row.get_by_role("button", name="Delete").first.click()
    await expect(row).to_have_count(0)


async def test_a_chat_with_late_answers(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased", late=True)
    sent = watch_frames(page)
    area = page.get_by_label("Your message")
    answers, questions = page.locator("an-answer"), page.locator("an-question p")
    await area.fill("What is the capital of Italy?")
    await area.press("Enter")
    await page.get_by_role("button", name="Stop generating").click()
    await expect(area).to_have_value("What is the capital of Italy?")
    await expect(answers).to_have_count(0)
    assert sent == []
    await area.press("Enter")
    await area.fill("And of Japan?")
    await area.press("Enter")
    await expect(answers).to_contain_text("simulated")
    assert any(b"You are a helpful" in frame for frame in sent)
    await page.get_by_role("button", name="Stop generating").click()
    await expect(questions).to_have_text(["What is the capital of Italy?", "And of Japan?"])
    await reload_when_stored(page)
    await expect(answers.last).to_contain_text("stopped")
    await page.get_by_role("combobox", name="Preset").select_option("storyteller")
    await answers.last.get_by_role("button", name="Try again").click()
    await expect(answers.last).to_contain_text("simulated")
    await expect(questions).to_have_text(["What is the capital of Italy?", "And of Japan?"])
