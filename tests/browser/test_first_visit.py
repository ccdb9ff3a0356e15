"""What the first visit of each page costs: bytes over the wire, and how much moves while it loads."""

from collections import Counter

import pytest
from playwright.async_api import Page, Route, expect

from support.browser_user import Visitor
from support.ports import free_port
from support.stack import Stack, until
from support.timed_conversations import TimedTalk, tone

pytestmark = pytest.mark.extended

MOST_BYTES = 150_000
MOST_SHIFT = 0.05
"""The score "cumulative layout shift" of a page; 0.1 counts as good."""

WATCH_SHIFTS = """window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });"""

READY = {
    "/": "Assistant",
    "/turnbased": "Helpful answers",
    "/half_duplex": "Helpful answers",
    "/audio_duplex": "Assistant",
    "/omni": "Assistant",
    "/admin": "Live",
}
"""What each page shows when its data has arrived."""

ANSWER = "It is Tokyo."
KEY = "a-key-that-is-long-enough"

NO_REQUEST_RUNS = """() => document.fonts.status === "loaded" && performance.getEntriesByType("resource")
  .every(({ responseEnd }) => responseEnd > 0)"""


@pytest.mark.parametrize("phone", [False, True])
async def test_a_first_visit_is_small_and_steady(
    stack: Stack, visitor: Visitor, phone: bool
) -> None:
    recording = _talk().store(stack.data_dir, ended_s=31.0)
    page = await visitor.open("/", phone=phone)
    await page.add_init_script(WATCH_SHIFTS)
    await page.goto("about:blank")  # ends the requests of the first page
    received = await _received_bytes(page)
    requested: Counter[str] = Counter()
    page.on("request", lambda request: requested.update([request.url]))
    descriptions = set()
    for path, text in (*READY.items(), (f"/s/{recording}", ANSWER)):
        received.clear()
        requested.clear()
        shift = await _shift(page, visitor.url + path, text)
        assert sum(received) <= MOST_BYTES, (path, received)
        assert requested.most_common(1)[0][1] == 1, (path, requested)
        assert shift < MOST_SHIFT, path
        descriptions.add(await page.locator("meta[name=description]").get_attribute("content"))
    assert len(descriptions) == len(READY) + 1


async def test_a_first_visit_with_an_api_key_is_small(stack: Stack, visitor: Visitor) -> None:
    """A media element cannot send the key, so the page fetches a replay as a whole when it plays."""
    recording = _talk().store(stack.data_dir, ended_s=31.0)
    port = free_port()
    stack.edge(api_keys=KEY, port=port)
    visitor.url = f"http://127.0.0.1:{port}"
    page = await visitor.open(f"/s/{recording}")
    await page.get_by_role("textbox", name="Key").fill(KEY)
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_text(ANSWER).first).to_be_attached()
    received = await _received_bytes(page)
    await page.reload()
    await expect(page.get_by_text(ANSWER).first).to_be_attached()
    await page.wait_for_function(NO_REQUEST_RUNS, polling=200)
    assert sum(received) <= MOST_BYTES, received
    play = page.get_by_role("button", name="Play", exact=True)
    asked: list[Route] = []

    async def abort_first(route: Route) -> None:
        asked.append(route)
        await (route.abort() if len(asked) == 1 else route.continue_())

    await page.route("**/assets/**", abort_first)
    await play.click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await play.click()  # a replay that could not be fetched is fetched again
    await expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    await until(lambda: page.locator("audio").evaluate("(it) => it.currentTime > 0.2"))
    visitor.page_errors = [
        text for text in visitor.page_errors if "401" not in text and "ERR_FAILED" not in text
    ]


async def _received_bytes(page: Page) -> list[float]:
    """The bytes of each response from now on, without a cache."""
    network = await page.context.new_cdp_session(page)
    await network.send("Network.enable")
    await network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    received: list[float] = []
    network.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    return received


def _talk() -> TimedTalk:
    """Half a minute of a call."""
    call = TimedTalk.prepared()
    for second in range(30):
        call.chunk(second + 1.0, tone(1.0, 300 + 10 * second, 16_000, level=0.2))
        call.listen(second + 1.1)
        if second % 2:
            call.speak(second + 1.2, tone(1.0, 700, 24_000), text=ANSWER, end=True)
    return call


async def _shift(page: Page, url: str, text: str) -> float:
    await page.goto(url)
    shown = page.get_by_text(text, exact=False).first
    await expect(shown).to_be_attached()
    await page.wait_for_function(NO_REQUEST_RUNS, polling=200)
    return float(await page.evaluate("shift"))
