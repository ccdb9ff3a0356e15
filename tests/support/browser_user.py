"""Opens pages in a browser with a chosen microphone, camera, screen and language."""

import asyncio
import functools
import itertools
import re
from abc import ABC, abstractmethod
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
    Locator,
    Page,
    Playwright,
    Route,
    async_playwright,
    expect,
)

from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from support import page_microphone
from support.chromium import FLAGS
from web_pages import WEB

DESKTOP = (1280, 860)
PHONE = (390, 844)

AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")

_FAKE_DEVICES = ("--use-fake-device-for-media-stream=fps=5", "--use-fake-ui-for-media-stream")
"""The camera without a file has five frames per second instead of twenty: Chromium paints on the CPU."""
_FINISH_ANIMATIONS = """document.getAnimations()
  .filter((one) => one.effect.getComputedTiming().endTime < Infinity).forEach((one) => one.finish())"""
"""Contrast can be checked only after animations. A page that draws no frame would never end them."""

# Stylesheets and media that `preload` fetches are for rules that are off or not serious.
_RUN_AXE = """([part, rules]) => axe.run(part ?? document, { preload: false, resultTypes: ["violations"],
  ...(rules && { runOnly: { type: "rule", values: rules } }) }).then((found) => found.violations)"""

CHEAP_PAINTING = """
window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 250);
window.cancelAnimationFrame = clearTimeout;
{ const sheet = new CSSStyleSheet();
sheet.replaceSync("*, ::backdrop { backdrop-filter: none !important }");
document.adoptedStyleSheets.push(sheet); }"""
"""Four frames per second instead of sixty, and no blur."""

_API = re.compile(r"^https?://[^/]+/(api|status)(/|$|\?)")

_NETWORK_CHANGED = "ERR_NETWORK_CHANGED"

_ABORTED_FONT = re.compile(r"download failed \(font-family: .*status=2152398850")
"""Firefox reports it as an error when the user leaves a page before a font is there (NS_BINDING_ABORTED)."""

_IGNORED_MESSAGES = ("log", "debug", "info", "dir", "time", "timeEnd")


@dataclass
class Browsers(ABC):
    """Starts browsers. Pages that need no file as microphone or camera share one process."""

    _playwright: Playwright = field(init=False)
    _shared: Browser | None = field(init=False, default=None)
    _exits: AsyncExitStack = field(init=False, default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        self._playwright = await self._exits.enter_async_context(async_playwright())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shared is not None:
            await self._shared.close()
        await self._exits.aclose()

    async def shared(self) -> Browser:
        if self._shared is None or not self._shared.is_connected():
            self._shared = await self.start()
        return self._shared

    @abstractmethod
    async def start(self, *flags: str) -> Browser:
        """`flags`: more of the command line."""


@dataclass
class Chromium(Browsers):
    program: str

    async def start(self, *flags: str) -> Browser:
        return await self._playwright.chromium.launch(
            executable_path=self.program, args=[*FLAGS, *_FAKE_DEVICES, *flags]
        )


@dataclass
class Visitor:
    """Opens each page in its own context, so that pages do not share storage.

    `page_errors`: warnings, errors and uncaught exceptions of all pages. Remove the expected ones.
    """

    browsers: Browsers
    url: str
    folder: Path
    page_errors: list[str] = field(default_factory=list)
    _exits: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
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
        microphone: Samples | None = None,
        repeat: bool = False,
        speaks: bool = False,
        camera: Path | None = None,
        phone: bool = False,
        dark: bool = False,
        animated: bool = False,
        late: bool = False,
        locale: str = "en-US",
        script: str = "",
    ) -> Page:
        """Loads the page at `path`.

        `microphone`: audio at 16 kHz that starts when the page opens the microphone. It repeats if
        `repeat` is set, otherwise silence follows. Without it the microphone beeps.
        `speaks`: the microphone is silent until the test calls `speak`, in any shared process.
        `camera`: .mjpeg or .y4m file.
        `animated`: without it the user prefers reduced motion and the page draws four frames per
        second, because Chromium paints on the CPU.
        `script`: runs before those of the page.
        `late`: each answer of the API takes 0.5 to 1.5 s longer, so that answers change their order.
        """
        browser = await self._browser(microphone, camera, "" if repeat else "%noloop")
        context = await _context(browser, phone=phone, dark=dark, animated=animated, locale=locale)
        self._exits.push_async_callback(context.close)
        if late:
            await _delay_answers(context)
            self._exits.push_async_callback(context.unroute_all, behavior="ignoreErrors")
        if speaks:
            await context.add_init_script(page_microphone.SCRIPT)
        if script:
            await context.add_init_script(script)
        page = await context.new_page()
        self._listen(page)
        await page.goto(f"{self.url}{path}")
        while self._network_changed():
            await page.reload()
        return page

    def _network_changed(self) -> bool:
        """Chromium drops what it loads when another program adds or removes a network interface."""
        before = len(self.page_errors)
        self.page_errors = [text for text in self.page_errors if _NETWORK_CHANGED not in text]
        return len(self.page_errors) < before

    async def _browser(
        self, microphone: Samples | None, camera: Path | None, suffix: str
    ) -> Browser:
        """A process has one microphone and one camera, which are set when it starts."""
        flags = []
        if microphone is not None:
            flags.append(
                f"--use-file-for-fake-audio-capture={self._microphone_file(microphone)}{suffix}"
            )
        if camera is not None:
            flags.append(f"--use-file-for-fake-video-capture={camera}")
        if not flags:
            return await self.browsers.shared()
        browser = await self.browsers.start(*flags)
        self._exits.push_async_callback(browser.close)
        return browser

    def _microphone_file(self, audio: Samples) -> Path:
        file = self.folder / f"microphone-{len(list(self.folder.glob('microphone-*')))}.wav"
        soundfile.write(file, audio, INPUT_RATE, subtype="PCM_16")
        return file

    def _listen(self, page: Page) -> None:
        def on_console(message: ConsoleMessage) -> None:
            if message.type not in _IGNORED_MESSAGES:
                self.page_errors.append(f"{message.type}: {message.text}")

        def on_error(error: Error) -> None:
            if _ABORTED_FONT.match(str(error)) is None:
                self.page_errors.append(f"uncaught: {error}")

        page.on("console", on_console)
        page.on("pageerror", on_error)


async def _context(
    browser: Browser, *, phone: bool, dark: bool, animated: bool, locale: str
) -> BrowserContext:
    width, height = PHONE if phone else DESKTOP
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=2 if phone else 1,
        has_touch=phone,
        is_mobile=phone,
        color_scheme="dark" if dark else "light",
        reduced_motion="no-preference" if animated else "reduce",
        locale=locale,
    )
    context.set_default_timeout(60_000)
    if not animated:
        await context.add_init_script(CHEAP_PAINTING)
    return context


async def _delay_answers(context: BrowserContext) -> None:
    delays = itertools.cycle((1.5, 0.5, 1.0))

    async def answer(route: Route) -> None:
        await asyncio.sleep(next(delays))
        await route.continue_()

    await context.route(_API, answer)


@functools.cache
def _axe() -> str:
    return AXE.read_text()


async def press_key(control: Locator, key: str = "Enter") -> None:
    """Presses a key on a control once it is active: unlike `click`, `press` of Playwright does not wait."""
    await expect(control).to_be_enabled()
    await control.press(key)


async def a11y_findings(page: Page, *rules: str, part: str | None = None) -> list[str]:
    """Serious and critical accessibility findings of axe-core: of all rules, or of these.

    `part`: selector of the only part that has changed since the last findings of this page.
    """
    await page.evaluate(_FINISH_ANIMATIONS)
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(_axe())
    found: list[dict[str, Any]] = await page.evaluate(_RUN_AXE, [part, list(rules) or None])
    return [
        f"{rule['id']}: {node['html'][:120]} ({rule['help']})"
        for rule in found
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
    ]


async def contrast_findings(page: Page, *, dark: bool) -> list[str]:
    """Switches the theme and runs only the rules about colours. Run `a11y_findings` first."""
    await page.emulate_media(color_scheme="dark" if dark else "light")
    return await a11y_findings(page, "color-contrast", "link-in-text-block")
