"""What a page has survives a reload, and End stays where it is."""

import asyncio
import re
from pathlib import Path

import av
import pytest
import soundfile
from playwright.async_api import Dialog, Locator, Page, Route, expect

from support.browser_user import Visitor, a11y_findings
from support.call_page import CallPage
from support.recordings import change_meta
from support.stack import Stack, until
from support.turn_page import (
    accept_dialogs,
    attach_image,
    claim,
    positions,
    reload_when_stored,
    watch_position,
)

ROWS = """(store) => new Promise((resolve) => {
  indexedDB.open("antiphon").onsuccess = ({ target: { result: database } }) => {
    database.transaction(store).objectStore(store).count().onsuccess = ({ target }) => {
      database.close();
      resolve(target.result);
    };
  };
})"""
"""The number of rows in a store of the browser's database."""

LAST_STORED_TEXT = """() => new Promise((resolve) => {
  indexedDB.open("antiphon").onsuccess = ({ target: { result: database } }) => {
    database.transaction("chats").objectStore("chats").getAll().onsuccess = ({ target }) => {
      database.close();
      resolve(target.result[0]?.state.entries.at(-1).text?.trim());
    };
  };
})"""

SLOW_LOCKS = """
const locks = navigator.locks, query = () => LockManager.prototype.query.call(locks);
locks.query = async () => {
  await new Promise((resolve) => setTimeout(resolve, 1500));
  setTimeout(() => { window.hasQueriedLocks = true; }, 100);
  return query();
};"""
"""The page learns late which recordings another tab has."""

OTHERS = ".stage :is(.presets, an-call-orb, .call-status, .start, .tools, an-service-badge)"

COVERS = """(notice, others) => {
  const box = notice.getBoundingClientRect();
  const overlaps = ({ top, bottom, left, right }) =>
    top < box.bottom && bottom > box.top && left < box.right && right > box.left;
  return [...document.querySelectorAll(others)]
    .filter((one) => overlaps(one.getBoundingClientRect())).map((one) => one.outerHTML.slice(0, 80));
}"""
"""The elements that a notice overlaps."""

PAUSE_SOON = """(audio) => {
  window.hasPaused = false;
  audio.ontimeupdate = () => {
    if (audio.paused || audio.currentTime < 0.3) return;
    audio.ontimeupdate = null;
    document.querySelector("an-player-controls button").click();
    window.hasPaused = true;
  };
}"""


async def _has_rows(page: Page, store: str, least: int, most: int = 100) -> None:
    async def counted() -> bool:
        return least <= await page.evaluate(ROWS, store) <= most

    await until(counted, within_s=60, every_s=0.2)


@pytest.mark.extended
async def test_leaving_a_call_asks_and_the_recording_of_the_browser_is_kept(
    visitor: Visitor, tmp_path: Path
) -> None:
    page = await visitor.open("/omni", phone=True)
    call = CallPage(page)
    await call.start("/omni")
    await watch_position(page, ".call-control.end")
    await call.is_in("active")
    await call.press("Camera off")
    await expect(page.get_by_role("button", name="Flip")).to_be_disabled()
    assert len(await positions(page)) == 1, await positions(page)
    await _has_rows(page, "parts", 2)
    async with page.expect_event("dialog") as asked:
        await page.evaluate("setTimeout(() => location.reload())")
    dialog: Dialog = await asked.value
    assert dialog.type == "beforeunload"
    await dialog.dismiss()
    await call.is_in("active")

    accept_dialogs(page)
    await page.reload()
    kept = page.get_by_role("region", name="Unsaved recording")
    await expect(kept).to_contain_text("Audio")
    assert await page.evaluate("scrollY") == 0
    for width, height in ((390, 844), (844, 390), (1280, 800), (320, 568)):
        await page.set_viewport_size({"width": width, "height": height})
        await page.evaluate("scrollTo(0, 0)")  # a rotation can scroll
        assert await kept.evaluate(COVERS, OTHERS) == [], (width, height)
        for name in ("Save", "Delete"):
            await expect(kept.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
        await expect(page.get_by_role("button", name="Your conversations")).to_be_visible()
        await expect(page.locator(".stage .start")).to_be_in_viewport(ratio=1)
    assert await a11y_findings(page) == []
    async with page.expect_download() as download:
        await kept.get_by_role("button", name="Save").click()
    file = tmp_path / "kept.wav"
    await (await download.value).save_as(file)
    assert soundfile.info(file).duration > 1
    await expect(kept).to_have_count(0)
    await _has_rows(page, "recordings", 0, 0)
    await _has_rows(page, "parts", 0, 0)


async def test_a_call_replays_at_once_and_later_from_the_server(
    visitor: Visitor, stack: Stack
) -> None:
    page = await visitor.open("/audio_duplex")
    call = CallPage(page)
    await call.start("/audio_duplex")
    await call.is_in("active")
    await _has_rows(page, "parts", 3)
    await _has_rows(page, "conversations", 1)
    await call.end()
    replay = page.get_by_role("group", name="Replay")
    audio = replay.locator("audio")
    await expect(audio).to_have_attribute("src", re.compile("^blob:"))
    at = await _play_and_pause(page)
    await expect(audio).to_have_attribute("src", re.compile("/assets/merged_replay"))
    await _is_at(page, at)

    recording, sessions = await call.recording_id(), stack.data_dir / "sessions"
    change_meta(sessions, recording, replay="merging", merged_replay=None)
    await page.goto(f"{visitor.url}/s/{recording}")
    await page.evaluate("window.isSamePage = true")
    await expect(page.get_by_role("note")).to_contain_text("Recording of this browser")
    at = await _play_and_pause(page)
    change_meta(sessions, recording, replay="ready", merged_replay="merged_replay.wav")
    await expect(page.get_by_role("note")).to_have_count(0)
    await expect(page.locator("audio")).to_have_attribute("src", re.compile("/assets/"))
    await _is_at(page, at)
    assert await page.evaluate("window.isSamePage")
    await page.get_by_role("button", name="Share").click()
    save = page.get_by_role("dialog").get_by_role("button", name="Save").first
    await expect(save).to_be_disabled()
    await page.get_by_label("Name").fill("A short call")
    await save.click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("A short call")
    await expect(save).to_be_disabled()
    await page.get_by_label("Name").fill("A short call ")
    await expect(save).to_be_disabled()
    await page.reload()
    await expect(page.get_by_role("heading", level=1)).to_have_text("A short call")


@pytest.mark.extended
async def test_players_can_seek_in_a_saved_film(visitor: Visitor, tmp_path: Path) -> None:
    page = await visitor.open("/omni")
    call = CallPage(page)
    await call.start("/omni", keep="film")
    await call.is_in("active")
    await _has_rows(page, "parts", 6)
    await call.end()
    with av.open(str(await call.saved(tmp_path, "Video"))) as film:
        assert film.duration is not None
        seconds = film.duration / av.time_base
        assert seconds > 1.5
        assert film.streams.audio
        film.seek(int(seconds / 2 * av.time_base))
        frame = next(film.decode(video=0))
        assert frame.time is not None
        assert 0 < frame.time < seconds
        frames = 1 + sum(1 for _ in film.decode(video=0))
    assert frames > 3


@pytest.mark.extended
async def test_a_browser_lists_its_conversations(visitor: Visitor) -> None:
    page = await visitor.open("/audio_duplex", phone=True)
    call = CallPage(page)
    await call.start("/audio_duplex", record=False)
    await call.is_in("active")
    await _has_rows(page, "parts", 3)
    await call.end()
    await page.add_init_script(SLOW_LOCKS)
    await page.reload()
    await page.get_by_role("button", name="Your conversations").click()
    await until(lambda: page.evaluate("window.hasQueriedLocks"), every_s=0.1)
    dialog = page.get_by_role("dialog", name="Your conversations")
    row = dialog.get_by_role("listitem")
    await expect(row).to_contain_text("Voice call")
    await expect(row).to_contain_text("On this device")
    await expect(row).not_to_contain_text("On the server")
    assert await a11y_findings(page) == []
    await row.get_by_role("link").click()
    await expect(page.get_by_role("note")).to_contain_text("The server has no recording")
    await page.get_by_role("button", name="Play", exact=True).click()
    await until(lambda: _is_past(page, 0.4), within_s=60, every_s=0.1)
    assert await a11y_findings(page) == []
    await page.get_by_role("button", name="Your conversations").click()
    await row.get_by_role("button", name="Delete from this device").click()
    await expect(dialog).to_contain_text("No conversations yet")
    for store in ("conversations", "recordings", "parts"):
        await _has_rows(page, store, 0, 0)


async def _play_and_pause(page: Page) -> float:
    """Plays more than 0.3 s and returns the position. The page itself pauses, before a short file ends."""
    await page.locator("audio").evaluate(PAUSE_SOON)
    await page.get_by_role("button", name="Play", exact=True).click()
    await until(lambda: page.evaluate("window.hasPaused"), within_s=60, every_s=0.1)
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    return float(await page.get_by_role("slider", name="Position").input_value()) / 1000


async def _is_at(page: Page, at: float) -> None:
    """The loaded media file and the controls show this position, and nothing plays."""

    async def is_there() -> bool:
        return abs(await _position(page) - at) < 0.15

    await expect(page.locator("audio")).not_to_have_js_property("readyState", 0)
    await until(is_there, within_s=90, every_s=0.1)
    await expect(page.locator("audio")).to_have_js_property("paused", True)
    slider = page.get_by_role("slider", name="Position")

    async def is_shown() -> bool:
        return abs(float(await slider.input_value()) / 1000 - at) < 0.15

    await until(is_shown, within_s=90, every_s=0.1)


async def _position(page: Page) -> float:
    """Position of the player in seconds."""
    return float(await page.locator("audio").evaluate("(it) => it.currentTime"))


async def _is_past(page: Page, second: float) -> bool:
    return await _position(page) > second


async def test_a_chat_survives_a_reload(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased")
    await page.get_by_label("Your message").fill("Tell me a story.")
    await page.get_by_label("Your message").press("Enter")
    answer = page.locator("an-answer .message-content")
    await expect(answer).to_contain_text("simulated")
    await page.get_by_role("button", name="Stop generating").last.click()
    await expect(page.get_by_role("button", name="Try again")).to_be_visible()
    text = (await answer.inner_text()).strip()

    async def is_stored() -> bool:
        return bool(await page.evaluate(LAST_STORED_TEXT) == text)

    await until(is_stored, within_s=60, every_s=0.2)
    await page.reload()
    await expect(page.locator("an-question p")).to_have_text("Tell me a story.")
    await expect(answer).to_have_text(text)
    assert await a11y_findings(page) == []
    await page.get_by_role("button", name="New chat").click()
    empty = page.get_by_role("heading", name="How can I help?")
    await expect(empty).to_be_visible()
    await page.reload()
    await expect(empty).to_be_visible()
    dialog = await _own_conversations(page)
    row = dialog.get_by_role("listitem")
    await expect(row).to_contain_text("Tell me a story.")
    await expect(row).to_contain_text("Chat")
    await expect(row).not_to_contain_text("Text only")
    assert await a11y_findings(page, part="dialog[open]") == []
    await row.get_by_role("link").click()
    await expect(page.locator("an-question p")).to_have_text("Tell me a story.")
    await expect(answer).to_have_text(text)
    assert page.url.endswith("/turnbased")
    await _continue_in_another_tab(page)
    await (await _own_conversations(page)).get_by_role("button", name="Delete").first.click()
    await expect(row).to_have_count(1)
    await dialog.get_by_role("button", name="Delete").click()
    await expect(dialog).to_contain_text("No conversations yet")
    for store in ("chats", "conversations"):
        await _has_rows(page, store, 0, 0)


@pytest.mark.extended
async def test_a_question_that_is_prepared_survives_a_reload(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased")
    await claim(page, clones_voices=True)  # so that it waits for the voice
    arrives = asyncio.Event()

    async def answer(route: Route) -> None:
        await arrives.wait()
        await route.continue_()

    await page.route("**/api/presets/**", answer)
    area = page.get_by_label("Your message")
    picture = page.locator("an-question img")
    await attach_image(page, "paste", "red.png")
    await expect(page.locator("an-composer img")).to_be_visible()
    await area.fill("What is this?")
    await area.press("Enter")
    await expect(picture).to_be_visible()
    await expect(page.locator("an-answer")).to_contain_text("Thinking")
    await area.fill("And what is that?")
    await area.press("Enter")
    await _has_rows(page, "chats", 1)
    await reload_when_stored(page)
    await expect(picture).to_be_visible()
    await expect(page.locator("an-question p")).to_have_text("What is this?")
    await expect(page.locator("an-answer")).to_contain_text("stopped")
    await expect(area).to_have_value("And what is that?")
    arrives.set()
    await page.get_by_role("button", name="Try again").click()
    answer = page.locator("an-answer .message-content")
    await expect(answer).to_contain_text("simulated")
    before = (await answer.inner_text()).strip()
    await reload_when_stored(page)
    await expect(page.locator("an-answer")).to_contain_text("stopped")
    await expect(answer).to_contain_text(before)


@pytest.mark.extended
async def test_leaving_with_a_picture_that_was_not_sent_asks(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased")
    await page.get_by_label("Your message").fill("What is this?")
    await attach_image(page, "paste", "red.png")
    await expect(page.locator("an-composer img")).to_be_visible()
    async with page.expect_event("dialog") as asked:
        await page.evaluate("setTimeout(() => location.reload())")
    dialog: Dialog = await asked.value
    assert dialog.type == "beforeunload"
    await dialog.dismiss()
    await expect(page.locator("an-composer img")).to_be_visible()
    await page.get_by_role("button", name="Remove red.png").click()
    await reload_when_stored(page)
    await expect(page.get_by_label("Your message")).to_have_value("What is this?")


async def _continue_in_another_tab(page: Page) -> None:
    """Both tabs continue the same chat. Each keeps its messages."""
    other = await page.context.new_page()
    await other.goto(page.url)
    await (await _own_conversations(other)).get_by_role("link").click()
    await expect(other.locator("an-question p")).to_have_text("Tell me a story.")
    for tab, question in ((other, "And another."), (page, "And a third.")):
        await tab.get_by_label("Your message").fill(question)
        await tab.get_by_label("Your message").press("Enter")
        await expect(tab.locator("an-question p").last).to_have_text(question)
        await expect(tab.locator("an-answer").last).to_contain_text("simulated")
        await tab.get_by_role("button", name="Stop generating").last.click()
        await expect(tab.get_by_role("button", name="Try again").last).to_be_visible()
    await _has_rows(page, "conversations", 2, 2)
    for tab, question in ((other, "And another."), (page, "And a third.")):
        await tab.reload()
        await expect(tab.locator("an-question p").last).to_have_text(question)
    await other.close()


async def _own_conversations(page: Page) -> Locator:
    await page.get_by_role("button", name="Your conversations").click()
    return page.get_by_role("dialog", name="Your conversations")
