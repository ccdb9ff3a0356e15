"""Takes the screenshots of the documents: `PYTHONPATH=tests:tools python -m support.screenshots [folder]`."""

import asyncio
import io
import re
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.async_api import Page, expect

from support.browser_user import Chromium, Visitor
from support.call_page import CallPage
from support.camera_video import desk
from support.chromium import REMEDY, find_chromium
from support.page_microphone import speak
from support.raw_client import open_wire
from support.redis_server import RedisServer
from support.stack import Stack
from support.synthetic_speech import GERMANY, JAPAN, silence, spoken
from support.turn_page import use_repeatable_settings
from web_pages import ROOT, build_pages

FOLDER = ROOT / "docs" / "images"
WIDEST = 1000
STEADY = {
    "temperature": 0,
    "preset": "assistant_en",
    "prompt": "Answer in one short sentence.",
    "forceListen": 0,
}
TRANSITIONS_END = """() => Promise.all(document.getAnimations()
  .filter((one) => one instanceof CSSTransition).map((one) => one.finished))"""
QUESTIONS = np.concatenate(
    [silence(2.0), spoken(JAPAN), silence(7.0), spoken(GERMANY), silence(6.0)]
)


async def show(stack: Stack, visitor: Visitor, folder: Path) -> None:
    recording = await _voice_call(visitor, folder)
    page = await visitor.open(f"/s/{recording}", animated=True)
    play = page.get_by_role("button", name="Play", exact=True)
    await expect(play).to_be_visible(timeout=30_000)
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await _save(page, folder / "viewer.png", full=True)
    await _video_call(visitor, folder)
    await _half_duplex(visitor, folder)
    await _chat(visitor, folder)
    await _admin(stack, visitor, folder)


async def _voice_call(visitor: Visitor, folder: Path) -> str:
    page = await visitor.open("/", microphone=QUESTIONS, repeat=True, animated=True)
    call = CallPage(page)
    await call.start("/audio_duplex", **STEADY)
    await call.finish_answer()
    await call.hide()
    title = page.locator(".stage .title")
    await expect(title).to_have_text("Speaking", timeout=40_000)
    await page.mouse.move(500, 500)
    await _shows_controls(page)
    await _save(page, folder / "voice-call.png")
    await expect(title).to_have_text("Listening", timeout=40_000)
    await call.end()
    return await call.recording_id()


async def _video_call(visitor: Visitor, folder: Path) -> None:
    camera = desk(visitor.folder / "desk.y4m")
    page = await visitor.open(
        "/omni", microphone=QUESTIONS, repeat=True, camera=camera, phone=True, animated=True
    )
    call = CallPage(page)
    await call.start("/omni", **STEADY)
    await expect(page.locator(".stage .title")).to_have_text("Speaking", timeout=40_000)
    await expect(page.locator(".caption.model")).to_be_visible()
    await page.touchscreen.tap(200, 300)
    await _shows_controls(page)
    await _save(page, folder / "video-call-phone.png", width=390)
    await call.end()


async def _shows_controls(page: Page) -> None:
    await expect(page.locator(".stage.faded")).to_have_count(0)
    await page.evaluate(TRANSITIONS_END)


async def _half_duplex(visitor: Visitor, folder: Path) -> None:
    page = await visitor.open("/half_duplex", speaks=True, animated=True)
    await use_repeatable_settings(page)
    await page.get_by_role("button", name="Start conversation").click()
    state = page.locator(".stage [role=status]")
    await expect(state).to_have_text("Listening", timeout=40_000)
    for question in (JAPAN, GERMANY):
        await expect(state).to_have_text("Listening", timeout=40_000)
        await speak(page, spoken(question))
        await expect(state).to_have_text("Speaking", timeout=40_000)
    await _save(page, folder / "half-duplex.png")
    await page.get_by_role("button", name="End conversation", exact=True).click()


async def _chat(visitor: Visitor, folder: Path) -> None:
    page = await visitor.open("/turnbased", animated=True)
    await use_repeatable_settings(page)
    area = page.get_by_label("Your message")
    for count, question in enumerate((JAPAN, GERMANY), 1):
        await area.fill(question)
        await area.press("Enter")
        await expect(page.get_by_role("button", name="Try again")).to_be_visible(timeout=40_000)
        await expect(page.locator("an-answer")).to_have_count(count)
    await page.evaluate("document.querySelectorAll('details').forEach((it) => (it.open = false))")
    await page.evaluate(TRANSITIONS_END)
    await _save(page, folder / "chat.png")


async def _admin(stack: Stack, visitor: Visitor, folder: Path) -> None:
    async with (
        open_wire(stack.ws_url, "adx_hears") as one,
        open_wire(stack.ws_url, "omni_sees") as other,
        AsyncExitStack() as later,
    ):
        await one.begin()
        await other.begin()
        waits = await later.enter_async_context(open_wire(stack.ws_url, "adx_waits"))
        await waits.expect("queued")
        page = await visitor.open("/admin", animated=True)
        for _ in range(6):
            await one.send_second()
            await one.expect("result")
        answered = page.get_by_role("img", name=re.compile("Newest latency"))
        await expect(answered.first).to_be_visible()
        await expect(page.get_by_role("region", name="Queue").get_by_role("row")).to_have_count(2)
        await _save(page, folder / "admin.png", full=True)


async def _save(page: Page, path: Path, *, width: int = WIDEST, full: bool = False) -> None:
    """Saves a screenshot scaled to `width` with 256 colours."""
    shot = Image.open(io.BytesIO(await page.screenshot(full_page=full))).convert("RGB")
    size = (width, round(shot.height * width / shot.width))
    small = shot.resize(size, Image.Resampling.LANCZOS)
    small.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    sys.stdout.write(f"{path}  {size[0]}×{size[1]}  {path.stat().st_size // 1000} kB\n")


async def main(folder: Path) -> None:
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit(f"no Chromium on this machine: {REMEDY}")
    build_pages()
    with tempfile.TemporaryDirectory() as name, RedisServer(Path(name) / "redis") as redis:
        stack = Stack(Path(name), redis)
        try:
            stack.edge()
            stack.recorder(recorder_settle_s=0.1)
            stack.worker("local", slots=2)
            async with (
                Chromium(chromium) as browsers,
                Visitor(browsers, stack.http_url, Path(name)) as visitor,
            ):
                await show(stack, visitor, folder)
        finally:
            stack.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
