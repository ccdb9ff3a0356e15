"""Opens pages in Chromium with a chosen microphone, camera, screen and language."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import soundfile
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Playwright,
    async_playwright,
)

from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from support.chromium import FLAGS
from web_pages import WEB

DESKTOP = (1280, 860)
PHONE = (390, 844)

AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")

_FAKE_DEVICES = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
_STILL = """Promise.allSettled(document.getAnimations()
  .filter((one) => one.effect.getComputedTiming().endTime < Infinity).map((one) => one.finished))"""
"""Contrast can be checked only after animations."""

_NETWORK_CHANGED = "ERR_NETWORK_CHANGED"

_QUIET = ("log", "debug", "info", "dir", "time", "timeEnd")


@dataclass
class Visitor:
    """Opens each page in a separate browser, because a browser has one microphone.

    `complaints`: warnings, errors and uncaught exceptions of all pages. Remove the expected ones.
    """

    chromium: str
    url: str
    folder: Path
    complaints: list[str] = field(default_factory=list)
    _playwright: Playwright = field(init=False)
    _exits: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        self._playwright = await self._exits.enter_async_context(async_playwright())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._exits.aclose()

    async def open(
        self,
        path: str,
        *,
        says: Samples | None = None,
        again: bool = False,
        shows: Path | None = None,
        phone: bool = False,
        dark: bool = False,
        locale: str = "en-US",
    ) -> Page:
        """Loads the page at `path`.

        `says`: microphone input at 16 kHz, starting when the page opens the microphone. It repeats
        if `again` is set, otherwise silence follows. Without it the microphone beeps.
        `shows`: .mjpeg or .y4m file for the camera.
        """
        flags = [*FLAGS, *_FAKE_DEVICES]
        if says is not None:
            flags.append(self._microphone(says, "" if again else "%noloop"))
        if shows is not None:
            flags.append(f"--use-file-for-fake-video-capture={shows}")
        browser = await self._launch(flags)
        context = await _context(browser, phone=phone, dark=dark, locale=locale)
        page = await context.new_page()
        self._listen(page)
        await page.goto(f"{self.url}{path}")
        while self._network_changed():
            await page.reload()
        return page

    def _network_changed(self) -> bool:
        """Chromium drops what it loads when another program adds or removes a network interface."""
        before = len(self.complaints)
        self.complaints = [text for text in self.complaints if _NETWORK_CHANGED not in text]
        return len(self.complaints) < before

    async def _launch(self, flags: list[str]) -> Browser:
        browser = await self._playwright.chromium.launch(executable_path=self.chromium, args=flags)
        self._exits.push_async_callback(browser.close)
        return browser

    def _microphone(self, says: Samples, suffix: str) -> str:
        file = self.folder / f"microphone-{len(list(self.folder.glob('microphone-*')))}.wav"
        soundfile.write(file, says, INPUT_RATE, subtype="PCM_16")
        return f"--use-file-for-fake-audio-capture={file}{suffix}"

    def _listen(self, page: Page) -> None:
        def on_console(message: ConsoleMessage) -> None:
            if message.type not in _QUIET:
                self.complaints.append(f"{message.type}: {message.text}")

        def on_error(error: Error) -> None:
            self.complaints.append(f"uncaught: {error}")

        page.on("console", on_console)
        page.on("pageerror", on_error)


async def _context(browser: Browser, *, phone: bool, dark: bool, locale: str) -> BrowserContext:
    width, height = PHONE if phone else DESKTOP
    return await browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=2 if phone else 1,
        has_touch=phone,
        is_mobile=phone,
        color_scheme="dark" if dark else "light",
        locale=locale,
    )


async def barriers(page: Page) -> list[str]:
    """Serious and critical accessibility findings of axe-core."""
    await page.evaluate(_STILL)
    await page.evaluate(AXE.read_text())
    found: list[dict[str, Any]] = await page.evaluate(
        "axe.run().then((result) => result.violations)"
    )
    return [
        f"{rule['id']}: {node['html'][:120]} ({rule['help']})"
        for rule in found
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
    ]
