"""The npm package in an empty project: its types, its client in Node.js, and `<antiphon-call>` in a page."""

import subprocess
import threading
from asyncio import sleep, timeout, to_thread
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from nodejs import find_node
from support.browser_user import Browsers, Visitor, a11y_findings
from support.page_scripts import NODE
from support.ports import free_port
from support.shared_stack import TALKATIVE
from support.stack import Stack, new_stack
from web_pages import WEB

PAGE = Path(__file__).parents[2] / "examples" / "call.html"
USED = """
import { connectChat, type ChatServerMessage } from "antiphon-client";
import { AntiphonCall } from "antiphon-client/call-element";
const client = connectChat({ base: "http://127.0.0.1:1" });
client.on("message", (message: ChatServerMessage) => {
  if (message.type === "chunk") (message.text_delta satisfies string | null | undefined);
});
const parameters = { type: "object", properties: { city: { type: "string" } } };
client.on("message", (message) => {
  if (message.type !== "done") return;
  client.send({
    messages: [
      { role: "user", content: "How is the weather in Rome?" },
      { role: "assistant", content: null, tool_calls: message.tool_calls },
      { role: "tool", tool_call_id: "call_1", content: "sunny, 25 °C" },
    ],
    tools: [{ type: "function", function: { name: "get_weather", parameters } }],
    tts: { enabled: true, ref_audio_max_ms: 1000 },
  });
});
// @ts-expect-error: there is no such message
client.send({ type: "nonsense" });
new AntiphonCall().phase satisfies string;
"""
ASKS = """
import { connectChat } from "antiphon-client";
const client = connectChat({ base: process.argv[2], resumable: false });
let text = "";
client.on("message", (message) => {
  if (message.type === "chunk") text += message.text_delta ?? "";
  if (message.type === "done") process.stdout.write(text);
});
const messages = [{ role: "user", content: "Hello" }];
client.send({ messages, streaming: true, generation: { max_new_tokens: 4 } });
"""


@dataclass
class Site:
    """A folder with the installed package, at `url`, and an edge that takes calls from there."""

    folder: Path
    url: str
    stack: Stack


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def _run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(pages: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("empty-project")
    node = find_node()
    assert node is not None
    _run(*node.npm, "run", "--silent", "package", "--", folder, folder=WEB)
    [package] = folder.glob("*.tgz")
    (folder / "package.json").write_text('{ "type": "module" }')
    _run(*node.npm, "install", "--offline", "--no-audit", package, folder=folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with new_stack(tmp_path_factory.mktemp("element")) as stack:
        stack.edge(allowed_origins=url)
        stack.worker(slots=2, engine_options=TALKATIVE)
        text = PAGE.read_text().replace("http://127.0.0.1:8006", stack.http_url)
        (folder / "call.html").write_text(text)
        keyed = free_port()
        stack.edge(port=keyed, allowed_origins=url, api_keys="0123456789abcdef0123")
        locked = text.replace(stack.http_url, f"http://127.0.0.1:{keyed}")
        (folder / "locked.html").write_text(locked)
        (folder / "away.html").write_text(text.replace(stack.http_url, "http://127.0.0.1:1"))
        yield Site(folder, url, stack)
    server.shutdown()
    server.server_close()


@pytest_asyncio.fixture(loop_scope="session")
async def caller(browsers: Browsers, site: Site, tmp_path: Path) -> AsyncIterator[Visitor]:
    async with Visitor(browsers, site.url, tmp_path) as opened:
        yield opened
        assert opened.page_errors == []


async def test_the_types_are_complete(site: Site) -> None:
    """Also without `skipLibCheck`."""
    (site.folder / "used.ts").write_text(USED)
    options = ("--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--types", "")
    library = ("--lib", "es2023,dom,dom.iterable,dom.asynciterable")
    compiler = WEB / "node_modules" / "typescript" / "bin" / "tsc"
    await to_thread(_run, NODE, compiler, *options, *library, "used.ts", folder=site.folder)


@pytest.mark.extended
async def test_the_client_runs_in_node(site: Site) -> None:
    (site.folder / "asks.mjs").write_text(ASKS)
    said = await to_thread(_run, NODE, "asks.mjs", site.stack.http_url, folder=site.folder)
    assert said.startswith("This is simulated.")


async def test_the_page_of_the_documents_has_ten_lines() -> None:
    lines = [line.strip() for line in PAGE.read_text().splitlines()]
    assert len(lines) <= 10
    shown = (PAGE.parents[1] / "docs" / "javascript-client.md").read_text().split("```html\n")[1]
    for line in shown.split("\n```")[0].splitlines():
        assert line in lines


@pytest.mark.parametrize("phone", [False, True])
async def test_a_call(caller: Visitor, *, phone: bool) -> None:
    page = await caller.open("/call.html", phone=phone)
    status = page.get_by_role("status")
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(status).to_have_text("Speaking")
    said = page.locator(
        "antiphon-call li.model span"
    ).first  # a busy page may show the next one already
    await expect(said).to_contain_text("How can I help you?")
    await page.get_by_role("button", name="Mute", exact=True).click()
    await expect(status).to_have_text("You are muted")
    await page.get_by_role("button", name="Unmute").click()
    assert await a11y_findings(page, part="antiphon-call") == []
    width = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0
    await page.get_by_role("button", name="Hang up").click()
    await expect(status).to_have_text("The call has ended")
    await expect(page.get_by_role("button", name="Call", exact=True)).to_be_visible()


@pytest.mark.extended
async def test_a_page_is_told_what_happens_and_speaks_chinese(caller: Visitor) -> None:
    page = await caller.open("/call.html", locale="zh-CN")
    await page.evaluate("""() => {
      document.documentElement.removeAttribute("lang");
      window.phases = [];
      const call = document.querySelector("antiphon-call");
      call.addEventListener("antiphon-phase", ({ detail }) => phases.push(detail.phase));
      call.start();
    }""")
    await expect(page.get_by_role("button", name="挂断")).to_be_visible()
    await page.wait_for_function("() => phases.includes('active')")
    await page.evaluate("document.querySelector('antiphon-call').remove()")
    await page.wait_for_function("() => phases.at(-1) === 'ended'")


@pytest.mark.extended
async def test_a_server_that_is_away(caller: Visitor) -> None:
    page: Page = await caller.open("/away.html")
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(page.get_by_role("status")).to_contain_text("cannot be reached")
    assert all("ERR_" in error for error in caller.page_errors)
    caller.page_errors.clear()


def _has_ended(session: str, log: str) -> bool:
    lines = [line for line in log.splitlines() if session in line]
    return any("session_ended" in line or "session_dropped" in line for line in lines)


@pytest.mark.extended
async def test_who_leaves_the_page_keeps_no_worker(caller: Visitor, site: Site) -> None:
    """A session that is not stopped keeps it for 15 s."""
    page = await caller.open("/call.html")
    async with page.expect_websocket() as opened:
        await page.get_by_role("button", name="Call", exact=True).click()
    await expect(page.get_by_role("status")).to_have_text("Speaking")
    session = (await opened.value).url.split("/")[-1].split("?")[0]
    worker = next(service for service in site.stack.services if service.name == "inference_worker")
    await page.goto("about:blank")
    async with timeout(8):
        while not _has_ended(session, worker.log):
            await sleep(0.1)


@pytest.mark.extended
@pytest.mark.parametrize("key", [None, "wrong-wrong-wrong-wrong"])
async def test_a_key_that_the_server_refuses(caller: Visitor, key: str | None) -> None:
    page = await caller.open("/locked.html")
    call = page.locator("antiphon-call")
    if key is not None:
        await call.evaluate("(call, key) => call.setAttribute('key', key)", key)
    await page.get_by_role("button", name="Call", exact=True).click()
    await expect(page.get_by_role("status")).to_have_text("The key is not valid.")
    refused = ("WebSocket connection to", "Failed to load resource")
    assert all(any(text in error for text in refused) for error in caller.page_errors)
    caller.page_errors.clear()
