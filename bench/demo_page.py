"""Runs a page of the public demo, unchanged, in Chromium against a running edge, and counts its messages.

    antiphon up -d                                                  # or any other edge
    python bench/demo_page.py ~/MiniCPM-o-Demo /audio_duplex --say question.wav
    python bench/demo_page.py ~/MiniCPM-o-Demo /omni --share
    python bench/demo_page.py ~/MiniCPM-o-Demo /turnbased --ask "What is the capital of Italy?"

The first argument is a checkout of the demo. A server of this script has the page and `/static` from it, and
forwards everything else to the edge, as a proxy: the page has no administrator's rights. The microphone is the
WAV file, the camera Chromium's test picture. A page for calls is started, and stopped six seconds after the
answer begins; `--share` then presses "Upload & Share". A chat is asked twice, streamed and at once. The exit
status is 1 if there is no answer, if the page shows an error or throws, if the server sends an event that the
schema of version 2 does not have, or if the recording is not shared.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from playwright.async_api import ConsoleMessage, Error, Page, async_playwright
from playwright.async_api import WebSocket as PageSocket
from starlette.websockets import WebSocketDisconnect
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from antiphon.broker.service.listening import free_port

PROXY = {"via": "1.1 demo_page"}
PAGES = {
    "/audio_duplex": "audio-duplex/audio_duplex.html",
    "/omni": "omni/omni.html",
    "/turnbased": "turnbased.html",
}
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--autoplay-policy=no-user-gesture-required"),
    *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
)
CALL_ANSWER = ".conv-entry.ai, .conv-entry.speak"
CHAT_ERROR = ".message.assistant .is-error"


def demo_server(static: Path, edge: str) -> FastAPI:
    """The pages of the demo in front of an edge."""
    app = FastAPI()
    app.mount("/static", StaticFiles(directory=static))
    for path, file in PAGES.items():
        app.add_api_route(path, lambda file=file: FileResponse(static / file))
    http = httpx.AsyncClient(base_url=edge)

    @app.websocket("/{path:path}")
    async def _socket(client: WebSocket, path: str) -> None:
        await client.accept()
        url = f"{edge.replace('http', 'ws', 1)}/{path}?{client.url.query}"
        async with connect(url, max_size=None) as server, asyncio.TaskGroup() as tasks:

            async def upwards() -> None:
                with suppress(WebSocketDisconnect, ConnectionClosed):
                    while True:
                        await server.send(await client.receive_text())
                await server.close()

            sending = tasks.create_task(upwards())
            with suppress(ConnectionClosed, WebSocketDisconnect, RuntimeError):
                async for frame in server:
                    await client.send_text(str(frame))
                await client.close(server.close_code or 1000)
            sending.cancel()

    @app.api_route("/{path:path}", methods=["GET", "POST"])
    async def _forward(request: Request, path: str) -> Response:
        kept = {
            name: request.headers[name] for name in ("content-type",) if name in request.headers
        }
        kept |= PROXY
        url = f"/{path}?{request.url.query}"
        answer = await http.request(request.method, url, content=await request.body(), headers=kept)
        return Response(
            answer.content, answer.status_code, media_type=answer.headers["content-type"]
        )

    return app


class PageLog:
    """The messages of the page's sockets, and its errors."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.counts: Counter[str] = Counter()
        self.first: dict[str, dict[str, Any]] = {}
        self.problems: list[str] = []
        self._sockets = 0
        self._all_closed = asyncio.Event()
        direction = {"$defs": schema["$defs"], "$ref": "#/$defs/server_event"}
        self._events = Draft202012Validator(direction)

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        page.on("console", self._console)
        page.on("websocket", self._open)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            print(f"console: {message.text} {message.location.get('url', '')}")

    def _open(self, socket: PageSocket) -> None:
        print(f"socket: {socket.url}")
        self._sockets += 1
        self._all_closed.clear()
        socket.on("close", lambda _: self._close())
        socket.on("framesent", self._send)
        socket.on("framereceived", lambda frame: self._receive(frame, socket.url))

    def _close(self) -> None:
        self._sockets -= 1
        if not self._sockets:
            self._all_closed.set()

    async def wait_until_closed(self, timeout_s: float) -> None:
        """Return once the page has no open socket. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._all_closed.wait()

    def _count(self, arrow: str, frame: str | bytes) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(frame)
        name = " ".join([arrow, *(str(message[k]) for k in ("type", "kind") if k in message)])
        self.counts[name] += 1
        self.first.setdefault(name, message)
        return message

    def _send(self, frame: str | bytes) -> None:
        self._count("→", frame)

    def _receive(self, frame: str | bytes, url: str) -> None:
        message = self._count("←", frame)
        if "/v1/realtime" in url:
            for error in self._events.iter_errors(message):
                self.problems.append(f"{message.get('type')}: {error.message}")

    def report(self, *, samples: bool) -> None:
        for name, count in self.counts.items():
            print(f"{count:4} {name}")
            if samples:
                print(json.dumps(self.first[name], ensure_ascii=False)[:1000])
        for problem in dict.fromkeys(self.problems):
            print(f"problem: {problem}")


async def call(page: Page, timeout_ms: float) -> str:
    await page.click("#btnStart")
    answer = page.locator(CALL_ANSWER).first
    await answer.wait_for(timeout=timeout_ms)
    await page.wait_for_timeout(6000)
    text = await answer.inner_text()
    await page.click("#btnStop")
    return text


async def share(page: Page, edge: str, timeout_ms: float) -> None:
    """Upload the page's recording with a comment, and read both. Raises Error or HTTPStatusError."""
    await page.locator(".ss-btn:not([disabled])").click(timeout=timeout_ms)
    await page.fill(".ss-modal-input", "A good answer.")
    await page.click(".ss-modal-ok")
    toast = page.locator(".ss-toast", has_text="/s/")
    await toast.wait_for(timeout=timeout_ms)
    print(f"toast: {await toast.inner_text()}")
    recording = (await toast.inner_text()).rpartition("/s/")[2].strip()
    async with httpx.AsyncClient(base_url=f"{edge}/api/sessions", headers=PROXY) as http:
        for route in ("upload-recording", "comment"):
            answer = await http.get(f"/{recording}/{route}")
            print(f"{route}: {answer.raise_for_status().text}")


async def chat(page: Page, question: str, log: PageLog, timeout_s: float) -> str:
    """The answers, after the page has closed their sockets: only then has it seen every event."""
    texts = []
    for number in range(2):
        if number:
            await page.locator(".toggle-switch:has(#enableStreaming)").click()
        await page.locator("textarea:visible").last.fill(question)
        await page.keyboard.press("Enter")
        answer = page.locator(".message.assistant").nth(number)
        await answer.locator(".meta-line").first.wait_for(
            timeout=timeout_s * 1000
        )  # it is complete
        await log.wait_until_closed(timeout_s)
        texts.append(await answer.locator(".content").inner_text())
    errors = await page.locator(CHAT_ERROR).all_inner_texts()
    log.problems.extend(f"the page shows: {text}" for text in errors)
    return " | ".join(texts)


async def visit(options: argparse.Namespace, url: str, log: PageLog) -> None:
    flags = list(FLAGS)
    if options.say is not None:
        flags.append(f"--use-file-for-fake-audio-capture={options.say.resolve()}%noloop")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=options.chromium, args=flags)
        page = await browser.new_page()
        log.watch(page)
        await page.goto(url + options.page)
        await page.wait_for_load_state("networkidle")
        timeout_ms = options.timeout_s * 1000
        try:
            if options.page == "/turnbased":
                text = await chat(page, options.ask, log, options.timeout_s)
            else:
                text = await call(page, timeout_ms)
            print(f"answer: {text}")
            if options.share:
                await share(page, options.url, timeout_ms)
        except (Error, TimeoutError, httpx.HTTPStatusError) as error:
            log.problems.append(f"{type(error).__name__}: {error}")
        await page.wait_for_timeout(1000)
        if options.log:
            print(await page.locator("body").inner_text())
        await browser.close()


async def run(options: argparse.Namespace) -> int:
    async with httpx.AsyncClient(base_url=options.url) as http:
        try:
            answer = await http.get("/v1/realtime/schema.json", params={"version": 2})
        except httpx.ConnectError:
            print(
                f"{options.url} does not answer: start an edge (antiphon up -d), or name it with --url"
            )
            return 1
    log = PageLog(answer.raise_for_status().json())
    app, port = demo_server(options.checkout / "static", options.url), free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    serving = asyncio.create_task(server.serve())
    await visit(options, f"http://127.0.0.1:{port}", log)
    server.should_exit = True
    await serving
    log.report(samples=options.samples)
    return 1 if log.problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("page", choices=PAGES)
    parser.add_argument("--url", default="http://127.0.0.1:8006", help="the edge")
    parser.add_argument("--say", type=Path, help="a WAV file for the microphone")
    parser.add_argument("--ask", default="What is the capital of Italy?", help="for /turnbased")
    parser.add_argument("--share", action="store_true", help='press "Upload & Share" at the end')
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--timeout-s", type=float, default=60.0)
    parser.add_argument("--samples", action="store_true", help="show one message of each kind")
    parser.add_argument("--log", action="store_true", help="show the text of the page at the end")
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
