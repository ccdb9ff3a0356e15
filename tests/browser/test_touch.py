"""Touch screens: a tap acts only on a control that the user sees when the finger goes down."""

import itertools

import pytest
from playwright.async_api import CDPSession, Locator, Page, expect

from support.browser_user import PHONE, Visitor
from support.call_page import HOLD_REST, CallPage

pytestmark = pytest.mark.extended

LANDSCAPE = (PHONE[1], PHONE[0])
LONG_PRESS_MS = 700
SETTLED_MS = 700
"""A control that has just appeared, and the second tap of a double tap, have no effect."""

STOP_CLOCK = "() => { const now = performance.now(); performance.now = () => now; }"
"""A busy machine may need longer between two taps than a double tap lasts."""


async def test_a_tap_presses_only_a_control_that_was_visible(visitor: Visitor) -> None:
    page = await visitor.open("/", phone=True, animated=True, script=HOLD_REST)
    call = CallPage(page)
    await page.wait_for_timeout(SETTLED_MS)
    await page.get_by_role("button", name="Start call").tap()
    await call.is_in("active")
    mute = page.get_by_role("button", name="Mute")
    end = page.get_by_role("button", name="End call")
    for width, height in (PHONE, LANDSCAPE):
        await page.set_viewport_size({"width": width, "height": height})
        await _controls_fade(page)
        await expect(end).to_have_css("opacity", "1")
        await page.touchscreen.tap(*await _middle(mute))
        await _controls_wake(page)
    await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    devices = await page.context.new_cdp_session(page)
    for press in (_press_long, _press_with_a_pen):
        await _controls_fade(page)
        await press(devices, await _middle(mute))
        await _controls_wake(page)
    await expect(mute).to_have_attribute("aria-pressed", "false")
    await page.wait_for_timeout(SETTLED_MS)
    await mute.tap()
    await expect(mute).to_have_attribute("aria-pressed", "true")


async def _nothing_lies_on_the_title(page: Page) -> None:
    """On phones and narrower screens, where the tools have names and move below the title."""
    for width in (320, PHONE[0]):
        await page.set_viewport_size({"width": width, "height": PHONE[1]})
        texts = page.locator(
            ".stage > .top h1, .stage > .top an-timer, .stage > .top .tools .button"
        )
        boxes = [await text.bounding_box() for text in await texts.all()]
        places = [(b["x"], b["y"], b["x"] + b["width"], b["y"] + b["height"]) for b in boxes if b]
        assert len(places) > 3
        assert all(left >= 0 and right <= width for left, _, right, _ in places), places
        for one, other in itertools.combinations(places, 2):
            beside = one[2] <= other[0] + 1 or other[2] <= one[0] + 1
            assert beside or one[3] <= other[1] + 1 or other[3] <= one[1] + 1, (one, other)
    await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})


async def test_a_double_tap_presses_nothing_that_its_first_tap_shows(visitor: Visitor) -> None:
    page = await visitor.open("/", phone=True)
    call = CallPage(page)
    await page.wait_for_timeout(SETTLED_MS)
    await page.get_by_role("button", name="Start call").tap()
    await call.is_in("active")
    await _nothing_lies_on_the_title(page)
    await page.wait_for_timeout(SETTLED_MS)
    x, y = await _middle(page.get_by_role("button", name="End call"))
    await page.evaluate(STOP_CLOCK)
    for _ in range(2):
        await page.touchscreen.tap(x - 10, y - 20)  # where “Start new call” appears
    await call.is_in("ended")
    await page.evaluate("delete performance.now")
    await page.wait_for_timeout(SETTLED_MS)
    again = page.get_by_role("button", name="Start new call")
    await expect(again).to_be_visible()
    await again.tap()
    await call.is_in("active")
    await call.end()


async def _controls_fade(page: Page) -> None:
    await page.evaluate("rest()")
    await expect(page.locator(".stage.faded")).to_be_visible()
    await expect(page.get_by_role("button", name="Mute")).to_have_css("opacity", "0")


async def _controls_wake(page: Page) -> None:
    """They are shown, and the call goes on as before."""
    mute = page.get_by_role("button", name="Mute")
    await expect(mute).to_have_css("opacity", "1")
    await expect(mute).to_have_attribute("aria-pressed", "false")
    await expect(page.locator(".stage.active")).to_be_visible()


async def _middle(control: Locator) -> tuple[float, float]:
    box = await control.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


async def _press_long(devices: CDPSession, place: tuple[float, float]) -> None:
    finger = {"x": place[0], "y": place[1]}
    await devices.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [finger]})
    await devices.send("Runtime.evaluate", _wait(LONG_PRESS_MS))
    await devices.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def _wait(ms: int) -> dict[str, object]:
    expression = f"new Promise((done) => setTimeout(done, {ms}))"
    return {"expression": expression, "awaitPromise": True}


async def _press_with_a_pen(devices: CDPSession, place: tuple[float, float]) -> None:
    pen = {"x": place[0], "y": place[1], "button": "left", "clickCount": 1, "pointerType": "pen"}
    for kind in ("mousePressed", "mouseReleased"):
        await devices.send("Input.dispatchMouseEvent", {"type": kind, **pen})
