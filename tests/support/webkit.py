"""WebKitGTK for the tests, which is the engine of Safari: Debian's MiniBrowser, controlled over WebDriver.

Playwright controls only a WebKit that it has built and that Debian lacks. The commands are those of
https://www.w3.org/TR/webdriver2/.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import pytest

from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from support.browser_user import CHEAP_PAINTING
from support.chromium import in_ci
from support.page_microphone import IS_OPEN, SCRIPT, encoded
from support.ports import free_port
from support.stack import until

PROGRAMS = ("WebKitWebDriver", "Xvfb", "pulseaudio", "pacat")
REMEDY = (
    "Install them: apt-get install webkit2gtk-driver xvfb pulseaudio pulseaudio-utils "
    "gstreamer1.0-pulseaudio gstreamer1.0-plugins-good"
)

_FOLDERS = Path("/usr/lib")
_MINI_BROWSER = "*/webkit2gtk-4.1/MiniBrowser"
_OPTIONS = ("--automation", "--enable-media-stream=true", "--enable-mock-capture-devices=true")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of a reference to an element, from the specification."""

_TOO_EARLY = ("element not interactable", "stale element reference")

_MOVES = [{"type": "pointerMove", "x": x, "y": x} for x in (5, 9)]

_HELPERS = """
window.everything = function* (root = document) {
  for (const one of root.querySelectorAll("*")) {
    yield one;
    if (one.shadowRoot) yield* everything(one.shadowRoot);
  }
};
window.find = (selector, text = "") => {
  for (const one of everything()) {
    if (!one.matches(selector) || !one.checkVisibility()) continue;
    if ((one.ariaLabel ?? one.textContent).trim().startsWith(text)) return one;
  }
  return null;
};
window.pageErrors = [];
addEventListener("error", (event) => pageErrors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => pageErrors.push(String(event.reason)));
for (const level of ["warn", "error"]) {
  const log = console[level];
  console[level] = (...values) => {
    pageErrors.push(values.join(" "));
    log.apply(console, values);
  };
}
"""

_EARS = """
window.ears = new Map();
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...places) {
  if (target instanceof AudioDestinationNode) {
    if (!ears.has(target)) ears.set(target, new AnalyserNode(this.context, { fftSize: 32768 }));
    connect.call(this, ears.get(target));
  }
  return connect.call(this, target, ...places);
};
"""
"""Hear what the page gives to the loudspeaker. They remember more than a second at 24 kHz."""

_HEARD = """
const audibleS = (ear) => {
  const samples = new Float32Array(ear.fftSize), size = Math.round(ear.context.sampleRate / 50);
  ear.getFloatTimeDomainData(samples);
  let blocks = 0;
  for (let at = 0; at + size <= samples.length; at += size) {
    const energy = samples.subarray(at, at + size).reduce((sum, value) => sum + value * value, 0);
    if (energy / size > 10 ** -4.5) blocks += 1;
  }
  return blocks * 0.02;
};
return Math.max(0, ...[...ears.values()].map(audibleS));
"""

_ERRORS = """
const files = performance.getEntriesByType("resource").filter((one) => one.responseStatus >= 400);
const messages = [...everything()].filter((one) => one.matches("an-toasts .danger"));
// The standard's way to say that a size is reported one frame later: it happens when a page is loaded.
const late = "ResizeObserver loop completed with undelivered notifications.";
const errors = pageErrors.filter((one) => !one.includes(late));
return [...errors, ...files.map((one) => `${one.responseStatus}: ${one.name}`),
  ...messages.map((one) => one.textContent.trim())];
"""


@dataclass
class WebKit:
    """One browser with one page. `environment` has its audio devices. Its camera shows a test picture."""

    folder: Path
    environment: dict[str, str]
    _http: httpx.AsyncClient = field(init=False)
    _session: str = field(init=False)
    _exits: AsyncExitStack = field(init=False)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as exits:
            port = free_port()
            display = exits.enter_context(_display())
            exits.enter_context(self._driver(port, display))
            address = f"http://127.0.0.1:{port}"
            self._http = await exits.enter_async_context(
                httpx.AsyncClient(base_url=address, timeout=120)
            )
            await until(self._is_ready)
            options = {"binary": str(next(_FOLDERS.glob(_MINI_BROWSER))), "args": _OPTIONS}
            capabilities = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
            started = await self._command("POST", "/session", {"capabilities": capabilities})
            self._session = f"/session/{started['sessionId']}"
            exits.push_async_callback(self._command, "DELETE", self._session)
            await self._command("POST", f"{self._session}/timeouts", {"script": 90_000})
            self._exits = exits.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._exits.aclose()

    @contextmanager
    def _driver(self, port: int, display: str) -> Iterator[None]:
        settings = self.folder / "gtk-3.0" / "settings.ini"
        settings.parent.mkdir(exist_ok=True)
        # The user prefers reduced motion: WebKitGTK paints on the CPU.
        settings.write_text("[Settings]\ngtk-enable-animations=0\n")
        folders = {name: str(self.folder) for name in ("HOME", "XDG_CONFIG_HOME")}
        # Without a GPU, a page in layers takes more CPU time than one without.
        painting = {"WEBKIT_DISABLE_COMPOSITING_MODE": "1"}
        environment = {**self.environment, **folders, **painting, "DISPLAY": display}
        with (
            (self.folder / "webkit.log").open("wb") as log,
            _running(
                ["WebKitWebDriver", f"--port={port}"], env=environment, stdout=log, stderr=log
            ),
        ):
            yield

    async def _is_ready(self) -> bool:
        try:
            return bool((await self._http.get("/status")).json()["value"]["ready"])
        except httpx.ConnectError:
            return False

    async def _command(self, method: str, path: str, body: object = None) -> Any:
        """The `value` of the answer. Raises AssertionError with the error of the browser."""
        answer = await self._answer(method, path, body)
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    async def _answer(self, method: str, path: str, body: object) -> Any:
        content = None if body is None else json.dumps(body)
        return (await self._http.request(method, path, content=content)).json()["value"]

    async def open(self, url: str, stored: dict[str, str] | None = None) -> None:
        """Loads a page with these entries of localStorage, and gives it a microphone for `speak`."""
        if stored:  # before the page runs, because it stores settings too
            await self._load(str(httpx.URL(url).join("/licenses.md")))
            text = "Object.entries(values[0]).forEach(([name, value]) => localStorage.setItem(name, value))"
            await self.run(text, stored)
        await self._load(url)
        await self.run(CHEAP_PAINTING + _HELPERS + _EARS + SCRIPT)

    async def _load(self, url: str) -> None:
        await self._command("POST", f"{self._session}/url", {"url": url})

    async def run(self, script: str, *values: object) -> Any:
        """The value that `script` returns, which may await. Its parameters are in `values`."""
        text = f"""const done = arguments[arguments.length - 1], values = [...arguments];
            (async () => {{ {script} }})().then((value) => done([value ?? null]), (e) => done(String(e)))"""
        path = f"{self._session}/execute/async"
        answer = await self._command("POST", path, {"script": text, "args": values})
        assert isinstance(answer, list), answer
        return answer[0]

    async def shows(self, selector: str, text: str = "", *, within_s: float = 90.0) -> str:
        """Waits for a visible element whose name or text starts with `text`. Returns its text."""
        found = "find(values[0], values[1])?.textContent"

        async def text_of_it() -> bool:
            return await self.run(f"return {found}", selector, text) is not None

        try:
            await until(text_of_it, within_s=within_s, every_s=0.1)
        except TimeoutError as error:
            error.add_note(f"the page shows: {await self.run('return document.body.innerText')}")
            raise
        return str(await self.run(f"return {found}", selector, text)).strip()

    async def _element(self, selector: str, text: str) -> str:
        await self.shows(selector, text)
        element = await self.run("return find(values[0], values[1])", selector, text)
        return f"{self._session}/element/{element[_ELEMENT]}"

    async def press(self, name: str) -> None:
        """Moves the pointer first, which shows controls that have faded."""
        pointer = {"type": "pointer", "id": "mouse", "actions": _MOVES}
        await self._command("POST", f"{self._session}/actions", {"actions": [pointer]})
        await self._act("button", name, "click", {})

    async def type(self, label: str, text: str) -> None:
        await self._act("textarea, input", label, "value", {"text": text})

    async def _act(self, selector: str, text: str, command: str, body: object) -> None:
        """Repeats it while the page is still built: an element without a place cannot be used."""

        async def is_done() -> bool:
            path = f"{await self._element(selector, text)}/{command}"
            answer = await self._answer("POST", path, body)
            early = isinstance(answer, dict) and answer.get("error") in _TOO_EARLY
            assert early or answer is None, answer
            return not early

        await until(is_done, every_s=0.1)

    async def speak(self, speech: Samples) -> None:
        """Speaks as soon as a microphone is open; returns after the last sample."""

        async def is_open() -> bool:
            return bool(await self.run(f"return ({IS_OPEN})()"))

        await until(is_open)
        await self.run("await speak(values[0], values[1])", encoded(speech), INPUT_RATE)

    async def plays_sound(self) -> bool:
        """Whether the page has just given sound to the loudspeaker.

        A recording of the loudspeaker does not show it: when a busy machine stops WebKitGTK for some tenths of
        a second, GStreamer drops all that an AudioContext plays from then on, because it comes too late.
        """
        return await self._heard_s() > 0.3

    async def is_silent(self) -> bool:
        return await self._heard_s() == 0.0

    async def _heard_s(self) -> float:
        """The seconds with sound among the last."""
        return float(await self.run(_HEARD))

    async def page_errors(self) -> list[str]:
        """Warnings and errors since the page was loaded, files that it could not load, and errors on it."""
        errors: list[str] = await self.run(_ERRORS)
        return errors


@contextmanager
def _display() -> Iterator[str]:
    """The name of the display of a new X server."""
    reading, writing = os.pipe()
    arguments = ["Xvfb", "-displayfd", str(writing), "-nolisten", "tcp"]
    arguments += ["-screen", "0", "1280x860x24"]
    with _running(arguments, pass_fds=[writing], stderr=subprocess.DEVNULL):
        os.close(writing)
        with os.fdopen(reading) as pipe:
            number = pipe.readline().strip()
        assert number, "Xvfb did not start"
        yield f":{number}"


@contextmanager
def _running(arguments: list[str], **options: Any) -> Iterator[None]:
    program = subprocess.Popen(arguments, **options)
    try:
        yield
    finally:
        program.terminate()
        program.wait()


def require_webkit() -> None:
    """Skips the test without WebKitGTK, Xvfb and PulseAudio, and fails in CI."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    missing += [] if any(_FOLDERS.glob(_MINI_BROWSER)) else ["MiniBrowser"]
    if not missing:
        return
    text = f"not on this machine: {', '.join(missing)}. {REMEDY}"
    if in_ci():
        pytest.fail(text)
    pytest.skip(text)
