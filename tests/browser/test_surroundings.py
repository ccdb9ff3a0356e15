"""All pages where browsers and proxies differ: storage, translation, the path, WebSockets, old browsers.

A translator of a browser replaces each text by `<font><font>translation</font></font>`, again and again.
Here it works without a pause, and the translation is the text in ‹›.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import pytest
from playwright.async_api import Locator, Page, expect

from antiphon.shared_schemas.wire import split_frame
from support.browser_user import Visitor
from support.path_proxy import path_proxy
from support.stack import Stack, until
from support.timed_conversations import TimedTalk, tone
from support.turn_page import LONG_GREETING, greet_at_length

pytestmark = pytest.mark.extended

BLOCKED = """
const refuse = () => { throw new DOMException("Access is denied for this document.", "SecurityError"); };
for (const name of ["localStorage", "sessionStorage", "indexedDB"])
  Object.defineProperty(window, name, { get: refuse });
navigator.locks.request = navigator.locks.query = async () => refuse();"""

ABSENT = """
for (const name of ["localStorage", "sessionStorage", "indexedDB"])
  Object.defineProperty(window, name, { value: null });"""

FULL = """
for (const area of [localStorage, sessionStorage]) {
  for (let size = 1 << 23; size >= 1; size /= 2) {
    try { area.setItem(`filler${area.length}`, "x".repeat(size)); } catch { /* half of it may fit */ }
  }
}
const put = IDBObjectStore.prototype.put;
IDBObjectStore.prototype.put = function (...row) {
  const request = put.apply(this, row);
  this.transaction.abort();
  return request;
};"""

STORAGES = {"normal": "", "blocked": BLOCKED, "absent": ABSENT, "full": FULL}

TRANSLATE = """() => {
  const isKept = (node) => node.parentElement.closest("script, style, textarea, font font");
  window.translator = setInterval(() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) {
      if (text.data.trim() === "" || isKept(text)) continue;
      const [outer, inner] = [document.createElement("font"), document.createElement("font")];
      inner.textContent = `‹${text.data}›`;
      outer.append(inner);
      text.replaceWith(outer);
    }
  }, 250);
}"""

ALL_LINKS = """() => [...document.querySelectorAll("a[href], link[href], script[src], img[src]")]
  .map((one) => new URL(one.href ?? one.src)).filter(({ origin }) => origin === location.origin)
  .map(({ pathname }) => pathname)"""

START = ("Talk to an AI that listens while it speaks.", "边听边说的 AI，自然对话。")
HEADINGS = {
    "/": START,
    "/audio_duplex": START,
    "/omni": START,
    "/half_duplex": ("Take turns", "轮流说话"),
    "/turnbased": ("Chat", "聊天"),
    "/admin": ("Admin", "管理"),
    "/nowhere/at/all": ("Page not found", "找不到页面"),
}
"""The first heading of each page, in English and in Chinese. That of a recording is its first words."""

WITHOUT_STORAGE = ("/audio_duplex", "/omni", "/nowhere/at/all")
"""Pages that store nothing, or what another page stores."""

QUEUED_MS = 240_000
"""Conversations wait for those before them, which a busy machine makes long."""
QUESTION = "What is the capital of Italy?"
ANSWER = "It is Rome."


@asynccontextmanager
async def site(stack: Stack, visitor: Visitor, path: str) -> AsyncIterator[str]:
    """`visitor` opens the pages below `path` of a host."""
    if not path:
        yield stack.http_url
        return
    async with path_proxy(stack.edge_port, path) as url:
        visitor.url = url
        yield url


def recorded(stack: Stack) -> str:
    call = TimedTalk.prepared()
    for second in range(4):
        call.chunk(second + 1.0, tone(1.0, 300, 16_000, level=0.2))
        call.listen(second + 1.1, memo={"user": QUESTION} if second == 1 else {})
    call.speak(5.1, tone(1.0, 700, 24_000), text=ANSWER, end=True)
    return call.store(stack.data_dir, ended_s=7.0)


async def shared(url: str, recording: str) -> str:
    """The path of a share link."""
    async with httpx.AsyncClient() as http:
        answer = await http.post(f"{url}/api/sessions/{recording}/shares", json={})
        return str(answer.raise_for_status().json()["url"])


@pytest.mark.parametrize(
    ("storage", "path"),
    [("normal", "/voice"), ("blocked", ""), ("full", "/voice"), ("absent", "")],
)
async def test_every_page_works(stack: Stack, visitor: Visitor, storage: str, path: str) -> None:
    """Also after it was translated: each text still changes with the language."""
    recording = recorded(stack)
    async with site(stack, visitor, path) as url:
        link = await shared(url, recording)
        recordings = dict.fromkeys((f"/s/{recording}", link), ("Voice call", "语音通话"))
        script = STORAGES[storage]
        async with asyncio.TaskGroup() as users:
            for name, texts in (HEADINGS | recordings).items():
                if not script or name not in WITHOUT_STORAGE:
                    users.create_task(changes_its_language(visitor, name, texts, script))
            if not script:
                users.create_task(describes_the_api(visitor))
    visitor.page_errors = [text for text in visitor.page_errors if "404" not in text]


async def opened(visitor: Visitor, path: str, storage: str) -> Page:
    page = await visitor.open(path, speaks=True, script=storage)
    names = await page.evaluate(ALL_LINKS)
    assert all(name.startswith(urlsplit(visitor.url).path) for name in names), names
    return page


async def changes_its_language(
    visitor: Visitor, path: str, texts: tuple[str, str], storage: str
) -> None:
    page = await opened(visitor, path, storage)
    heading = page.locator(".page-head span" if path.startswith("/s/") else "h1").first
    await expect(heading).to_have_text(texts[0])
    await page.evaluate(TRANSLATE)
    await expect(heading).to_have_text(f"‹{texts[0]}›")
    await page.get_by_role("button", name="中文").click()
    await expect(heading).to_have_text(f"‹{texts[1]}›")
    await expect(page.locator("main")).not_to_contain_text(texts[0])
    await page.get_by_role("button", name="English").click()
    await expect(heading).to_have_text(f"‹{texts[0]}›")
    await page.close()  # before its proxy, which would cut off what it still receives


async def describes_the_api(visitor: Visitor) -> None:
    page = await opened(visitor, "/docs", "")
    await page.locator(".opblock").filter(has_text="/health").first.click()
    await page.get_by_role("button", name="Try it out").click()
    async with page.expect_response(f"{visitor.url}/health") as answer:
        await page.get_by_role("button", name="Execute").click()
    assert (await answer.value).status == 200


@dataclass
class Received:
    """What the server has sent to a page."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    last: int = 0

    @classmethod
    def by(cls, page: Page) -> "Received":
        received = cls()
        page.on("websocket", lambda socket: socket.on("framereceived", received.add))
        return received

    def add(self, frame: str | bytes) -> None:
        """A message that repeats a number is one that a resume has repeated."""
        message = orjson.loads(frame if isinstance(frame, str) else split_frame(frame)[0])
        if message.get("seq", self.last + 1) > self.last:
            self.last = message.get("seq", self.last)
            self.messages.append(message)

    def text(self, field: str, **fields: Any) -> str:
        """All texts in `field` of messages with these fields, without spaces."""
        of = [one for one in self.messages if fields.items() <= one.items()]
        return _plain("".join(one.get(field) or "" for one in of))


def _plain(text: str | None) -> str:
    """Without spaces and the marks of the translator."""
    return re.sub(r"[‹›\s]", "", text or "")


async def shows(place: Locator, text: Callable[[], str]) -> None:
    """Waits until it shows the text, translated."""

    async def shown() -> str:
        return "".join(await place.all_text_contents())

    async def is_right() -> bool:
        return "‹" in (now := await shown()) and _plain(now) == text()

    with suppress(TimeoutError):
        await until(is_right)
    assert _plain(await shown()) == text()


async def test_conversations_are_right_in_all_of_it(stack: Stack, visitor: Visitor) -> None:
    """Without storage, translated all the time, below a path of a proxy; two wait in the queue."""
    async with site(stack, visitor, "/voice"), asyncio.TaskGroup() as users:
        for path in ("/audio_duplex", "/omni"):
            users.create_task(call(visitor, path))
        users.create_task(takes_turns(visitor))
        users.create_task(chats(visitor))


async def test_a_proxy_without_websockets_is_named(stack: Stack, visitor: Visitor) -> None:
    async with path_proxy(stack.edge_port, "/voice", websockets=False) as url:
        visitor.url = url
        for path, start in {
            "/audio_duplex": "Start call",
            "/half_duplex": "Start conversation",
        }.items():
            page = await visitor.open(path, speaks=True)
            await page.get_by_role("button", name=start).click()
            notice = page.get_by_role("alert").filter(has_text="no WebSocket opens")
            await expect(notice).to_contain_text("must pass the headers Upgrade and Connection")
        page = await visitor.open("/turnbased")
        await page.get_by_label("Your message").fill(QUESTION)
        await page.keyboard.press("Enter")
        await expect(page.locator("an-answer")).to_contain_text("no WebSocket opens")
    visitor.page_errors = [text for text in visitor.page_errors if "426" not in text]


WITHOUT_SOUND = "delete window.AudioWorkletNode;"
"""Also on a page over http, except on localhost."""

OUTDATED = """
delete window.ResizeObserver;
for (const name of ["language", "languages"]) Object.defineProperty(navigator, name, { value: undefined });"""


async def test_what_a_browser_lacks_is_named(visitor: Visitor) -> None:
    page = await visitor.open("/audio_duplex", script=WITHOUT_SOUND)
    await page.get_by_role("button", name="Start call").click()
    await expect(page.get_by_role("alert").first).to_contain_text("cannot process sound. Update it")
    page = await visitor.open("/turnbased", script=WITHOUT_SOUND)
    await page.get_by_label("Your message").fill(QUESTION)
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("spoken answers are off")).to_be_visible()
    await expect(page.locator("an-answer .message-content")).to_contain_text("simulated")
    page = await visitor.open("/half_duplex", script=OUTDATED)
    await expect(page.locator("h1")).to_have_text("This browser is too old for this page")


async def call(visitor: Visitor, path: str) -> None:
    page = await opened(visitor, path, BLOCKED)
    received = Received.by(page)
    await page.evaluate(TRANSLATE)
    await page.get_by_role("button", name="Start call").click()
    title = page.locator(".stage .title")
    await expect(title).to_have_text("‹Listening›", timeout=QUEUED_MS)
    await expect(title).to_have_text("‹Speaking›")
    clock = page.locator("an-timer")
    before = _plain(await clock.text_content())
    await until(lambda: _is_later(clock, before))
    await page.get_by_role("button", name="Transcript").click()
    words = page.locator("an-transcript .line.model p")
    await expect(words.last).to_contain_text(re.compile(r"unit \d+.*unit \d+"))  # it has grown
    await page.get_by_role("button", name="End call").click()
    await expect(page.locator(".stage.ended")).to_be_visible()
    recording = page.get_by_role("link", name="Open")
    await expect(recording).to_have_attribute("href", re.compile("^/voice/s/"))
    shown = _plain("".join(await words.all_text_contents()))
    assert received.text("text", type="result").startswith(shown)


async def _is_later(clock: Locator, before: str) -> bool:
    return _plain(await clock.text_content()) > before


async def takes_turns(visitor: Visitor) -> None:
    page = await opened(visitor, "/half_duplex", BLOCKED)
    await greet_at_length(page)
    received = Received.by(page)
    await page.evaluate(TRANSLATE)
    await page.get_by_role("button", name="Start conversation").click()
    stop = page.get_by_role("button", name="Stop answer")
    await expect(stop).to_be_enabled(timeout=QUEUED_MS)
    await expect(page.locator(".reply")).to_contain_text("‹Hello!")
    await until(lambda: received.text("text_delta", type="chunk") == _plain(LONG_GREETING))
    await stop.click()
    await expect(page.get_by_role("status").filter(has_text="Listening")).to_be_visible()
    await expect(stop).to_be_disabled()
    await page.get_by_role("button", name="End conversation", exact=True).click()
    await expect(page.get_by_role("button", name="Start new conversation")).to_be_visible()
    await shows(page.locator(".reply"), lambda: received.text("text_delta", type="chunk"))


async def chats(visitor: Visitor) -> None:
    page = await opened(visitor, "/turnbased", BLOCKED)
    received = Received.by(page)
    await page.evaluate(TRANSLATE)
    await page.get_by_label("Your message").fill(QUESTION)
    await page.keyboard.press("Enter")
    answer = page.locator("an-answer .message-content")
    await until(lambda: _has_text(answer, 40), within_s=QUEUED_MS / 1000)
    before = received.text("text_delta", type="chunk")
    await page.get_by_role("button", name="Stop generating").click()
    await expect(answer).to_have_attribute("aria-busy", "false")

    async def is_right() -> bool:
        """What comes after the stop need not be shown."""
        now = "".join(await answer.all_text_contents())
        shown, came = _plain(now), received.text("text_delta", type="chunk")
        return "‹" in now and shown.startswith(before) and came.startswith(shown)

    await until(is_right)
    await expect(page.locator("an-question")).to_contain_text(f"‹{QUESTION}›")


async def _has_text(answer: Locator, length: int) -> bool:
    return len(_plain(await answer.text_content())) >= length
