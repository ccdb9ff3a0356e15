"""A call page in a browser: its actions, transcript and recorded audio."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile
from playwright.async_api import Page, WebSocket, expect

from antiphon.shared_schemas.audio import Samples

_SETTINGS = {"/audio_duplex": "audio_duplex", "/omni": "omni"}
_WITHOUT_GREETING = {"preset": "assistant_en", "prompt": "You are a helpful assistant."}
_BLOCK_S = 0.02
_WITHIN_MS = 60_000
_GAP_MS = 1_000
_AUDIBLE_DB = -45.0
_SILENT = 1.5 / 32768
_PAUSE_S = 0.4


HOLD_REST = """
const start = setTimeout, wakes = ["pointermove", "pointerdown", "keydown", "focusin"];
window.setTimeout = (run, ms, ...given) => {
  if (ms !== 4000 || !wakes.includes(window.event?.type)) return start(run, ms, ...given);
  window.rest = async () => run();
  return 0;
};"""
"""The user does not rest before the test calls `rest()`: a busy machine may need longer for an action."""


@dataclass(frozen=True)
class CallAudio:
    """The browser recording of a call: both sides as float32 at `rate`, in sync."""

    user: Samples
    model: Samples
    rate: int

    @classmethod
    def of(cls, file: Path) -> "CallAudio":
        samples, rate = soundfile.read(file, dtype="float32", always_2d=True)
        user, model = [np.ascontiguousarray(samples[:, side]) for side in (0, 1)]
        return cls(user, model, rate)

    def loud(self, side: Samples) -> list[bool]:
        """Whether each 20 ms block of a side is audible."""
        size = round(_BLOCK_S * self.rate)
        blocks = side[: len(side) // size * size].reshape(-1, size)
        level = 10 * np.log10(np.mean(np.square(blocks, dtype=np.float64), axis=1) + 1e-12)
        return [bool(db > _AUDIBLE_DB) for db in level]

    def without_pauses(self, side: Samples) -> Samples:
        """A side without silence of 0.4 s or more.

        If a device of a busy machine loses half a second, the recorder fills that with silence.
        """
        audible = np.flatnonzero(np.abs(side) > _SILENT)
        starts = np.flatnonzero(np.diff(audible, prepend=-len(side) - 1) > _PAUSE_S * self.rate)
        parts = np.split(audible, starts[1:])
        return np.concatenate([side[part[0] : part[-1] + 1] for part in parts])

    def correlation_with_model(self, spoken: Samples) -> float:
        """Correlation of `spoken` with the model's audio. 1 means that it contains every sample."""
        model, spoken = self.without_pauses(self.model), self.without_pauses(spoken)
        size = 1 << (len(model) + len(spoken)).bit_length()
        spectrum = np.fft.rfft(model, size) * np.conj(np.fft.rfft(spoken, size))
        products = np.fft.irfft(spectrum, size)[: len(model) - len(spoken) + 1]
        total = np.concatenate([[0.0], np.cumsum(np.square(model, dtype=np.float64))])
        energy = total[len(spoken) :] - total[: len(products)]
        scale = np.sqrt(np.maximum(energy, 1e-9) * np.sum(np.square(spoken, dtype=np.float64)))
        return float(np.max(products / scale))

    def silent_after_s(self, from_s: float) -> float:
        """Seconds after `from_s` until the model is silent for half a second."""
        loud = self.loud(self.model)[round(from_s / _BLOCK_S) :]
        pause = round(0.5 / _BLOCK_S)
        first = next(i for i in range(len(loud)) if not any(loud[i : i + pause]))
        return first * _BLOCK_S


@dataclass(frozen=True)
class CallPage:
    page: Page
    _in_turn: list[bool] = field(default_factory=lambda: [False], init=False)
    """After each result, whether the answer continues. Firefox shows no frames."""

    def __post_init__(self) -> None:
        def keep(payload: str | bytes) -> None:
            frame = payload.encode() if isinstance(payload, str) else payload
            if b'"is_listen":' in frame:
                continues = b'"is_listen":false' in frame and b'"end_of_turn":true' not in frame
                self._in_turn.append(continues)

        def watch(socket: WebSocket) -> None:
            socket.on("framereceived", keep)

        self.page.on("websocket", watch)

    async def start(self, path: str, **settings: object) -> None:
        """Starts a call with these settings. It has no greeting unless they contain one."""
        await self.store_settings(path, **settings)
        await self.press("Start call")

    async def store_settings(self, path: str, **settings: object) -> None:
        name = json.dumps(f"antiphon.settings.{_SETTINGS[path]}")
        kept = json.dumps(json.dumps({"version": 1, "values": {**_WITHOUT_GREETING, **settings}}))
        await self.page.add_init_script(f"localStorage.setItem({name}, {kept})")
        await self.page.reload()

    async def press(self, name: str) -> None:
        await self.page.get_by_role("button", name=name, exact=True).click()

    async def is_in(self, phase: str) -> None:
        """`active`, `queued`, `paused`, `ended` …"""
        stage = self.page.locator(f".stage.{phase}")
        await expect(stage).to_be_visible(timeout=_WITHIN_MS)

    async def show(self, name: str) -> None:
        """Opens the panel "Transcript" or "Settings", or a tab of "Developer"."""
        panel = name if name in ("Transcript", "Settings") else "Developer"
        button = self.page.get_by_role("button", name=panel, exact=True)
        if await button.get_attribute("aria-expanded") == "false":
            await self.hide()
            await self.page.mouse.move(5, 5)  # shows controls that have faded
            await button.click()
        if panel == "Developer":
            await self.page.get_by_role("tab", name=name).click()

    async def hide(self) -> None:
        """Closes the open panel, which covers the stage of a phone."""
        if await self.page.locator(".call-panel").is_visible():
            await self.page.locator(".call-panel").get_by_role("button", name="Close").click()
            await expect(self.page.locator(".call-panel")).to_be_hidden()

    async def units(self) -> int:
        await self.show("Metrics")
        figure = self.page.locator("dl.facts div", has_text="Units").locator("dd")
        return int(await figure.inner_text()) if await figure.count() else 0

    async def reaches_units(self, units: int) -> None:
        await self.show("Metrics")
        await self.page.wait_for_function(
            """(wanted) => [...document.querySelectorAll("dl.facts div")].some((figure) =>
                 figure.querySelector("dt").textContent === "Units"
                 && Number(figure.querySelector("dd").textContent) >= wanted)""",
            arg=units,
            timeout=_WITHIN_MS,
            polling=200,  # not in every frame
        )

    async def end(self) -> None:
        await self.hide()
        await self.page.mouse.move(5, 5)
        await self.press("End call")
        await self.is_in("ended")

    async def recording_id(self) -> str:
        """Id of the server recording, available after the end."""
        link = self.page.get_by_role("link", name="Open")
        return str(await link.get_attribute("href")).removeprefix("/s/")

    async def saved(self, folder: Path, what: str = "Audio") -> Path:
        """Saves a browser recording after the end."""
        async with self.page.expect_download() as download:
            await self.press(f"Save: {what}")
        file = await download.value
        path = folder / file.suggested_filename
        await file.save_as(path)
        return path

    async def audio(self, folder: Path) -> CallAudio:
        return CallAudio.of(await self.saved(folder))

    async def finish_answer(self) -> tuple[str, str]:
        """Waits for the end of an answer. Returns the transcript of the user and of the model."""
        title = self.page.locator(".stage .title")
        await expect(title).to_have_text("Speaking", timeout=60_000)
        while self._in_turn[-1] or await title.inner_text() == "Speaking":
            await expect(title).to_have_text("Listening", timeout=60_000)
            await self.page.wait_for_timeout(_GAP_MS)  # of an answer whose sound comes late
        return await self._text_of("user"), await self._text_of("model")

    async def _text_of(self, role: str) -> str:
        await self.show("Transcript")
        lines = self.page.locator(f"an-transcript .line.{role} p")
        return " ".join(await lines.all_text_contents())
