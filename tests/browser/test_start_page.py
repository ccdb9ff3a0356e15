"""The start page is the call: one press starts it, and then only the stage is there."""

import itertools
import json
import re
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.async_api import Locator, Page, expect

from support.browser_user import Visitor, a11y_findings, press_key
from support.call_page import HOLD_REST, CallPage
from support.page_microphone import speak
from support.raw_client import open_wire
from support.stack import Stack, until
from support.synthetic_speech import ITALY, spoken
from support.turn_page import greet_at_length, watch_frames
from web_pages import WEB

NEVER_STARTS_AUDIO = """() => {
  AudioContext.prototype.resume = () => new Promise(() => { window.waitsForAudio = true; });
}"""

COUNT_FRAMES = """
window.frames_drawn = 0;
const draw = requestAnimationFrame;
window.requestAnimationFrame = (call) => { frames_drawn += 1; return draw(call); };"""

MOVES = """() => document.getAnimations().filter((one) =>
  one.playState === "running" && one.effect.getComputedTiming().endTime === Infinity).length"""
"""The number of endless animations."""

GROW = """() => {
  document.body.style.minHeight = `${document.documentElement.scrollHeight + 900}px`;
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
"""Makes the page longer, as a font that arrives late does. Resolves when the page has reacted."""

OVERFLOW = "document.documentElement.scrollWidth - innerWidth"

HIGHLIGHTED = """(all) => all.map((one) => {
  const sample = document.body.appendChild(document.createElement("p"));
  sample.style.background = "Highlight";
  const highlight = getComputedStyle(sample).backgroundColor;
  sample.remove();
  return [
    one.ariaCurrent !== null || one.querySelector(":checked") !== null || one.ariaSelected === "true",
    getComputedStyle(one).backgroundColor === highlight];
})"""
"""Whether each element is chosen, and whether it has the system's colour for that."""

VIDEO_PLAYS = """() => {
  const video = document.querySelector("video");
  return video && !video.paused && video.videoWidth > 0 && video.getBoundingClientRect().width > 0;
}"""

DENY_DEVICES = """() => {
  const refuse = async () => { throw new DOMException("forbidden", "NotAllowedError"); };
  navigator.mediaDevices.getUserMedia = refuse;
}"""

STACKED = (".notices .callout", "an-call-orb", ".stage .call-status", ".call-controls")
"""Parts of a voice call, from top to bottom."""

SPREAD_OF_MIDDLES = """(all) => {
  const middles = all.map((one) => one.getBoundingClientRect()).map(({ top, bottom }) => (top + bottom) / 2);
  return Math.max(...middles) - Math.min(...middles);
}"""

HEIGHTS = "(all) => all.map((one) => one.getBoundingClientRect().height)"

COUNT_LOADS = """(video) => {
  window.loads = 0;
  video.addEventListener("emptied", () => { loads += 1; });
}"""

LOCKS_WITH_THE_NEXT_CLICK = """() => {
  const { locks } = navigator, request = locks.request.bind(locks);
  window.requests = 0;
  locks.request = (...lock) => {
    requests += 1;
    if (requests > 1) return request(...lock);
    return new Promise((released, refused) => addEventListener("click", () => {
      request(...lock).then(released, refused);
      for (const start = performance.now(); performance.now() < start + 100; ) ;
    }, { capture: true, once: true }));
  };
}"""
"""The answer of the browser waits for the page, which handles it while the click opens a window."""

REQUESTS = "(count) => requests === count"

HAS_THE_LOCK = """async () => {
  const { held, pending } = await navigator.locks.query();
  return held.length === 1 && pending.length === 0;
}"""


NO_DATABASE = """
IDBFactory.prototype.open = () => { throw new DOMException("none", "InvalidStateError"); };"""
"""As in some private windows."""


FONT_SIZE = "(element) => parseFloat(getComputedStyle(element).fontSize)"


async def test_one_press_starts_a_call_and_keeps_the_focus(visitor: Visitor) -> None:
    page = await visitor.open("/")
    sent = watch_frames(page)
    call = CallPage(page)
    await press_key(page.get_by_role("button", name="Settings"))
    await expect(page.get_by_role("complementary", name="Settings")).to_be_focused()
    await press_key(page.get_by_role("button", name="Start call"))
    await call.is_in("active")
    await expect(page.get_by_role("button", name="Mute")).to_be_focused()
    await expect(page.locator("an-header")).to_be_hidden()
    await expect(page.get_by_role("heading", name="Modes")).to_have_count(0)
    await expect(page.locator(".call-panel")).to_be_hidden()
    await expect(page.locator(".caption.model")).to_be_visible()
    assert any(b'"greeting":"Hello! How can I help you?"' in frame for frame in sent)
    assert await a11y_findings(page) == []
    await press_key(page.get_by_role("button", name="End call"))
    await call.is_in("ended")
    await expect(page.get_by_role("button", name="Start new call")).to_be_focused()
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Save as text").click()
    transcript = Path(await (await saving.value).path()).read_text()
    assert re.match(r"0:\d\d Model: Hello!", transcript), transcript
    await expect(page.locator("an-header")).to_be_visible()


@pytest.mark.extended
async def test_browsers_can_install_the_pages_as_an_app(visitor: Visitor) -> None:
    page = await visitor.open("/")
    browser = await page.context.new_cdp_session(page)
    found = await browser.send("Page.getAppManifest")
    assert found["errors"] == []
    manifest = json.loads(found["data"])
    assert (manifest["start_url"], manifest["display"]) == ("./", "standalone")
    touch_icon = await page.locator("link[rel=apple-touch-icon]").get_attribute("href")
    for path in (touch_icon, *(icon["src"] for icon in manifest["icons"])):
        answer = await page.request.get(urljoin(page.url, path))
        assert answer.headers["content-type"].startswith("image/"), path
    errors = (await browser.send("Page.getInstallabilityErrors"))["installabilityErrors"]
    assert {error["errorId"] for error in errors} <= {"in-incognito"}


async def test_the_licences_of_the_packages_in_the_pages_are_sent(visitor: Visitor) -> None:
    page = await visitor.open("/")
    answer = await page.request.get(f"{visitor.url}/licenses.md")
    assert answer.headers["content-type"].startswith("text/markdown")
    packages = json.loads((WEB / "package.json").read_text())["dependencies"]
    licences = await answer.text()
    assert {name for name in packages if f"## {name} - " not in licences} == {"vite"}


async def test_modes_change_in_place_and_turns_keep_the_preset(visitor: Visitor) -> None:
    page = await visitor.open("/")
    modes = page.get_by_role("navigation", name="Mode")
    await expect(modes.get_by_role("link")).to_have_text(["Voice", "Video"])
    await page.evaluate("window.same = true")
    await modes.get_by_role("link", name="Video").click()
    await expect(page).to_have_title("Video call · Antiphon")
    await expect(modes.locator("[aria-current]")).to_have_text("Video")
    await expect(page.get_by_role("button", name="Preview camera")).to_be_visible()
    await modes.get_by_role("link", name="Voice").click()
    await expect(page).to_have_title("Voice call · Antiphon")
    assert await page.evaluate("window.same")
    await page.get_by_role("radio", name="Storyteller").check(force=True)
    await page.get_by_role("button", name="Settings").click()
    panel = page.get_by_role("complementary", name="Settings")
    await panel.locator("summary", has_text="Conversation").click()
    await panel.get_by_role("link", name="Take turns").click()
    await expect(page.get_by_role("combobox", name="Preset")).to_have_value("storyteller")
    assert urlsplit(page.url)[2:4] == ("/half_duplex", "")


@pytest.mark.extended
@pytest.mark.parametrize(("width", "height"), [(320, 568), (844, 390)])
async def test_everything_is_in_reach_on_a_small_phone(
    visitor: Visitor, width: int, height: int
) -> None:
    page = await visitor.open("/", speaks=True, phone=True)
    sent = watch_frames(page)
    await page.set_viewport_size({"width": width, "height": height})
    start = page.get_by_role("button", name="Start call", exact=True)
    openings = page.get_by_role("list", name="Start a call in which the model speaks first")
    await expect(page.get_by_role("radio", name="Storyteller")).to_be_attached()
    for part in (start, page.get_by_role("navigation", name="Mode"), page.locator("h1"), openings):
        await expect(part).to_be_in_viewport(ratio=1)
    await openings.get_by_role("button", name="Tell me a story").click()
    for name in ("Mute", "Interrupt", "Pause", "End call"):
        await expect(page.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
    await expect(page.locator(".caption.model")).to_be_in_viewport(ratio=1)
    assert await page.evaluate(OVERFLOW) <= 0
    await expect(openings).to_have_count(0)
    assert any(b'"greeting":"Once upon a time' in frame for frame in sent)
    assert any(b'"prefix_system_prompt":"You are a storyteller.' in frame for frame in sent)
    await CallPage(page).end()
    await expect(page.get_by_role("button", name="Start new call")).to_be_in_viewport(ratio=1)
    said = page.get_by_role("region", name="Transcript")
    await expect(said.locator(".line.model p").first).to_contain_text("Once upon")
    await expect(page.locator(".ended-screen dl")).to_contain_text("Duration")
    await expect(page.locator(".ended-screen dl")).not_to_contain_text("Answer time")
    assert await a11y_findings(page) == []
    assert await page.evaluate(OVERFLOW) <= 0


@pytest.mark.extended
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
async def test_a_video_call_fits_on_a_small_phone(visitor: Visitor, locale: str) -> None:
    page = await visitor.open("/omni", phone=True, locale=locale)
    await page.set_viewport_size({"width": 320, "height": 568})
    start = page.locator(".start > .button.primary")
    preview = page.locator(".start > .button.quiet")
    await expect(page.locator(".limits")).to_be_visible()
    text, button = await page.locator(".call-status").bounding_box(), await start.bounding_box()
    assert text is not None
    assert button is not None
    assert text["y"] + text["height"] + 8 <= button["y"]
    await expect(preview).to_be_in_viewport(ratio=1)
    await page.set_viewport_size({"width": 844, "height": 390})
    await preview.click()
    await page.wait_for_function(VIDEO_PLAYS)
    await expect(start).to_be_in_viewport(ratio=1)
    await page.set_viewport_size({"width": 320, "height": 568})
    await start.click()
    await expect(page.locator(".call-control")).to_have_count(6)
    for control in await page.locator(".call-control").all():
        await expect(control).to_be_in_viewport(ratio=1)
    heights = await page.locator(".call-control .name").evaluate_all(HEIGHTS)
    assert len(set(heights)) == 1, heights
    await expect(page.locator(".caption.model")).to_be_visible()
    await page.locator(".call-control.end").click()
    replay = page.locator("an-instant-replay")
    await replay.locator("button.primary").click()
    await expect(replay.locator("audio")).not_to_have_js_property("currentTime", 0)
    await expect(start).to_be_in_viewport(ratio=1)
    await expect(page.locator(".mode-switch")).to_be_in_viewport(ratio=1)
    await expect(preview).to_have_count(0)
    recording = await page.locator("an-recording-actions a.button").get_attribute("href")
    await page.goto(f"{visitor.url}{recording}")
    buttons = page.locator(".page-head > .row > :is(.button, an-own-conversations)")
    await expect(buttons).to_have_count(3)
    spread = await buttons.evaluate_all(SPREAD_OF_MIDDLES)
    assert spread <= 1, "the buttons are in one row"


@pytest.mark.extended
@pytest.mark.parametrize(
    ("path", "selector"),
    [("/", ".start > .button.primary"), ("/turnbased", "an-composer textarea")],
)
async def test_a_message_on_a_phone_covers_no_main_control(
    visitor: Visitor, path: str, selector: str
) -> None:
    page = await visitor.open(path, phone=True)
    await page.route("**/api/presets", lambda route: route.abort())
    for width, height in ((390, 844), (320, 568)):
        await page.set_viewport_size({"width": width, "height": height})
        await page.reload()
        await expect(page.get_by_role("alert")).to_be_in_viewport(ratio=1)
        await page.locator(selector).click(trial=True)  # fails if something covers it
    visitor.page_errors = [text for text in visitor.page_errors if "ERR_FAILED" not in text]


@pytest.mark.extended
@pytest.mark.parametrize("path", ["/turnbased", "/half_duplex", "/admin"])
async def test_a_small_phone_has_room_for_the_head_of_a_page(visitor: Visitor, path: str) -> None:
    page = await visitor.open(path)  # the emulation of a phone zooms out instead
    await page.set_viewport_size({"width": 320, "height": 568})
    found = await (await page.request.get(f"{visitor.url}/api/capabilities")).json()
    real = {"simulated": False, "model": "A-model-with-a-long-name-7B-Instruct"}
    await page.route("**/api/capabilities", lambda route: route.fulfill(json=found | real))
    await page.reload()
    if path != "/admin":
        await expect(page.locator(".page-head .badge")).to_be_visible()
        settings = page.get_by_role("button", name="Settings")
        await page.evaluate(GROW)
        await expect(settings).to_be_in_viewport(ratio=1)
    assert await page.evaluate(OVERFLOW) <= 0


@pytest.mark.extended
async def test_half_duplex_controls_are_in_reach_on_a_small_phone(visitor: Visitor) -> None:
    page = await visitor.open("/half_duplex", phone=True)
    await page.set_viewport_size({"width": 320, "height": 568})
    start = page.get_by_role("button", name="Start conversation")
    await expect(start).to_be_in_viewport(ratio=1)
    await page.evaluate(DENY_DEVICES)
    await start.click()
    await expect(page.get_by_role("alert")).to_be_in_viewport(ratio=1)
    await greet_at_length(page)
    await start.click()
    await expect(page.get_by_role("status").filter(has_text="Speaking")).to_be_visible()
    for name in ("Mute", "Stop answer", "End conversation"):
        button = page.get_by_role("button", name=name, exact=True)
        await expect(button).to_be_in_viewport(ratio=1)
    assert await page.evaluate(OVERFLOW) <= 0


@pytest.mark.extended
async def test_the_queue_is_above_the_fold_on_a_small_phone_and_moves_no_control(
    stack: Stack, visitor: Visitor
) -> None:
    page = await visitor.open("/half_duplex", phone=True)
    await greet_at_length(page)
    await page.set_viewport_size({"width": 320, "height": 568})
    end = page.get_by_role("button", name="End conversation", exact=True)
    async with (
        open_wire(stack.ws_url, "adx_one") as one,
        open_wire(stack.ws_url, "adx_other") as other,
    ):
        await one.begin()
        await other.begin()
        await page.get_by_role("button", name="Start conversation").click()
        await expect(page.locator("an-queue-panel section")).to_be_in_viewport(ratio=1)
        places = await _places(page, end)
        await one.send(type="stop")
        await one.until("stopped")
        await expect(page.get_by_role("status").filter(has_text="Speaking")).to_be_visible()
        assert await _places(page, end) == places
        await end.click()


async def _places(page: Page, part: Locator) -> list[object]:
    """Where it is on small phones, held upright and on their side."""
    places = list[object]()
    for width, height in ((667, 375), (390, 640), (320, 568)):
        await page.set_viewport_size({"width": width, "height": height})
        places.append(await part.bounding_box())
    return places


async def test_controls_fade_and_the_stage_fills_the_screen(visitor: Visitor) -> None:
    page = await visitor.open("/", animated=True, script=HOLD_REST)
    call = CallPage(page)
    await call.press("Start call")
    await call.is_in("active")
    faded = page.locator(".stage.faded")
    await page.mouse.move(5, 5)
    await page.evaluate("rest()")
    await expect(faded).to_be_visible()
    await page.mouse.move(640, 300)
    await expect(faded).to_have_count(0)
    await expect(page.locator(".stage .tools")).to_have_css("opacity", "1")
    await call.press("Full screen")
    await page.wait_for_function("() => document.fullscreenElement !== null")
    await page.keyboard.press("Tab")  # the focus inside keeps the controls
    await page.evaluate("rest().then(() => document.querySelector('an-call-page').updateComplete)")
    await expect(faded).to_have_count(0)
    await call.end()
    await page.wait_for_function("() => document.fullscreenElement === null")


@pytest.mark.extended
async def test_captions_change_their_size_at_once_and_turn_off(visitor: Visitor) -> None:
    page = await visitor.open("/")
    call = CallPage(page)
    await call.press("Start call")
    await call.is_in("active")
    await call.press("Full screen")
    await page.wait_for_function("() => document.fullscreenElement !== null")
    caption = page.locator(".caption.model")
    await expect(caption).to_be_visible()
    sizes = [await caption.evaluate(FONT_SIZE)]
    await call.show("Settings")
    await page.locator("summary", has_text="Captions").click()
    for name in ("Small", "Large"):
        await page.get_by_role("radio", name=name).check(force=True)
        sizes.append(await caption.evaluate(FONT_SIZE))
    assert sizes[1] < sizes[0] < sizes[2]
    await page.get_by_role("radio", name="Off").check(force=True)
    await expect(caption).to_have_count(0)
    await page.reload()
    await call.show("Settings")
    await page.locator("summary", has_text="Captions").click()
    await expect(page.get_by_role("radio", name="Off")).to_be_checked()


async def _opened_small_window(page: Page) -> Page:
    async with page.expect_popup() as opened:
        await page.get_by_role("button", name="Picture-in-picture").click()
    small = await opened.value
    await expect(small.get_by_role("button", name="End call")).to_be_visible()
    return small


@pytest.mark.extended
async def test_a_call_continues_in_a_small_window_and_comes_back(visitor: Visitor) -> None:
    page = await visitor.open("/omni")
    call = CallPage(page)
    await call.start("/omni", forceListen=0)
    await call.is_in("active")
    video = page.locator(".stage .video-preview video")
    await expect(video).to_be_visible()

    small = await _opened_small_window(page)
    await expect(page.get_by_text("The call is in a small window")).to_be_visible()
    await expect(video).to_have_count(0)
    await small.wait_for_function(VIDEO_PLAYS)
    await expect(small.locator(".caption.model")).to_be_visible()
    assert await a11y_findings(page) == []
    await call.reaches_units(await call.units() + 2)
    await small.get_by_role("button", name="Mute").click()
    await expect(page.get_by_role("button", name="Mute")).to_have_attribute("aria-pressed", "true")

    await small.close()
    await page.wait_for_function(VIDEO_PLAYS)
    await call.is_in("active")
    await call.end()


@pytest.mark.extended
async def test_the_video_of_a_call_plays_without_gaps(visitor: Visitor) -> None:
    """Also while the call changes what the page shows."""
    page = await visitor.open("/omni")
    call = CallPage(page)
    await call.start("/omni", forceListen=0)
    await call.is_in("active")
    await page.wait_for_function(VIDEO_PLAYS)
    video = page.locator(".stage .video-preview video")
    await video.evaluate(COUNT_LOADS)
    await call.press("Mute")
    await call.reaches_units(await call.units() + 3)
    await until(lambda: video.evaluate("(it) => it.currentTime > 1"))
    assert await page.evaluate("loads") == 0
    await call.end()


@pytest.mark.extended
async def test_end_in_the_small_window_ends_the_call(visitor: Visitor) -> None:
    page = await visitor.open("/omni")
    call = CallPage(page)
    await call.press("Start call")
    await call.is_in("active")
    small = await _opened_small_window(page)
    async with small.expect_event("close"):
        await small.get_by_role("button", name="End call").click()
    await call.is_in("ended")
    await expect(page.get_by_role("button", name="Start new call")).to_be_visible()


@pytest.mark.extended
async def test_a_recording_is_locked_although_a_small_window_opens(visitor: Visitor) -> None:
    """Chromium calls no function of a page that a debugger or a dialog stops, such as this test."""
    page = await visitor.open("/")
    call = CallPage(page)
    await page.evaluate(LOCKS_WITH_THE_NEXT_CLICK)
    await call.press("Start call")
    await page.wait_for_function(REQUESTS, arg=1)
    small = await _opened_small_window(page)
    await page.wait_for_function(REQUESTS, arg=2)
    browser = await page.context.new_cdp_session(page)
    await browser.send("HeapProfiler.collectGarbage")  # frees the lock that nothing holds
    await page.wait_for_function(HAS_THE_LOCK)
    await small.close()
    await call.end()


async def test_the_settings_say_where_a_recording_is_kept(visitor: Visitor) -> None:
    page = await visitor.open("/")
    call = CallPage(page)
    await call.show("Settings")
    await page.locator("summary", has_text="Recording").click()
    await expect(page.get_by_text("Kept in this browser for a day")).to_be_visible()
    await page.add_init_script(NO_DATABASE)
    await page.reload()
    await call.show("Settings")
    await page.locator("summary", has_text="Recording").click()
    await expect(page.get_by_text("Kept in this tab until you save it")).to_be_visible()


@pytest.mark.extended
async def test_a_silent_microphone_is_mentioned_until_it_is_audible(visitor: Visitor) -> None:
    page = await visitor.open("/", speaks=True)
    call = CallPage(page)
    await call.start("/audio_duplex", forceListen=15)
    notice = page.get_by_text("No sound from your microphone")
    await expect(notice).to_be_visible()
    for width, height in ((320, 568), (1280, 860)):
        await page.set_viewport_size({"width": width, "height": height})
        boxes = [await page.locator(one).bounding_box() for one in STACKED]
        edges = [(box["y"], box["y"] + box["height"]) for box in boxes if box is not None]
        assert len(edges) == len(STACKED)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(edges)), (width, edges)
        assert edges[-1][1] <= height
    assert await a11y_findings(page) == []
    await speak(page, spoken(ITALY))
    await expect(notice).to_be_hidden()
    await call.show("Events")
    await expect(page.locator("an-event-list").get_by_text("result").first).to_be_visible()
    assert await a11y_findings(page, part=".call-panel") == []
    await call.end()


async def test_a_browser_that_cannot_start_audio_says_so(visitor: Visitor) -> None:
    page = await visitor.open("/")
    await page.evaluate(NEVER_STARTS_AUDIO)
    await page.clock.install()
    await page.get_by_role("button", name="Start call").click()
    await page.wait_for_function("() => window.waitsForAudio", polling=100)
    await page.clock.run_for(8000)
    await expect(page.get_by_role("alert")).to_contain_text("Connect a speaker or headphones")
    await expect(page.get_by_role("button", name="Start call")).to_be_focused()


@pytest.mark.extended
async def test_nothing_moves_before_a_call(visitor: Visitor) -> None:
    page = await visitor.open("/", animated=True)
    await page.add_init_script(COUNT_FRAMES)
    await page.reload()
    await expect(page.get_by_role("radio", name="Storyteller")).to_be_attached()
    await page.wait_for_function(f"async () => ({MOVES})() === 0")
    drawn = await _frames_in_a_second(page)
    for _ in range(10):  # the page may still load
        if drawn == 0:
            break
        drawn = await _frames_in_a_second(page)
    assert drawn == 0


async def _frames_in_a_second(page: Page) -> int:
    before = int(await page.evaluate("frames_drawn"))
    await page.wait_for_timeout(1000)
    return int(await page.evaluate("frames_drawn")) - before


@pytest.mark.extended
async def test_forced_colours_show_what_is_chosen(visitor: Visitor) -> None:
    page = await visitor.open("/")
    await page.emulate_media(forced_colors="active")
    await page.get_by_role("button", name="Developer").click()
    await expect(page.get_by_role("radio", name="Storyteller")).to_be_attached()
    for parts in (".mode-switch a", ".chips label", ".tabs [role=tab]"):
        await _is_highlighted(page, parts)
    await page.goto(f"{visitor.url}/admin")
    await expect(page.locator(".tabs a")).to_have_count(5)
    await _is_highlighted(page, ".tabs a")


async def _is_highlighted(page: Page, parts: str) -> None:
    async def one_is_chosen() -> bool:
        found = await page.locator(parts).evaluate_all(HIGHLIGHTED)
        return [chosen for chosen, _ in found].count(True) == 1

    await until(one_is_chosen)
    found = await page.locator(parts).evaluate_all(HIGHLIGHTED)
    assert all(chosen == highlighted for chosen, highlighted in found), (parts, found)
