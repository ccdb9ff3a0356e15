"""Helpers for tests of the half-duplex and chat pages."""

import base64
import io
import re
from urllib.parse import urljoin

import numpy as np
import soundfile
import soxr
from PIL import Image
from playwright.async_api import Dialog, Locator, Page, WebSocket, expect

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples

_SAMPLES = """({ samples }) => new Promise((resolve) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result.split(",")[1]);
  reader.readAsDataURL(new Blob([samples]));
})"""
"""In base64: a list of numbers would cost seconds of CPU time on its way through Playwright."""


async def without_instructions(page: Page) -> None:
    """Removes the texts of the preset, so that the engine uses its own."""
    await page.locator("summary", has_text="Instructions").click()
    parts = page.locator("an-part-list li")
    await expect(parts).not_to_have_count(0)
    for left in reversed(range(await parts.count())):
        await page.get_by_role("button", name=re.compile("^Remove: ")).first.click()
        await expect(parts).to_have_count(left)


async def use_repeatable_settings(page: Page) -> None:
    """Sets the engine's own instructions and a temperature of 0 for repeatable answers."""
    await without_instructions(page)
    await page.locator("summary", has_text="Answers").click()
    slider = page.get_by_role("slider", name="Temperature")
    await slider.press("Home")
    await expect(slider).to_have_value("0")


async def sound_of(player: Locator, rate: int) -> Samples:
    """The audio of a player at 24 kHz."""
    samples = np.frombuffer(base64.b64decode(await player.evaluate(_SAMPLES)), np.float32)
    sound: Samples = soxr.resample(samples, rate, OUTPUT_RATE)
    return sound


def at_24_khz(sound: Samples) -> Samples:
    resampled: Samples = soxr.resample(sound, INPUT_RATE, OUTPUT_RATE)
    return resampled


def wav_of(sound: Samples) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, sound, INPUT_RATE, format="WAV", subtype="PCM_16")
    return file.getvalue()


def png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (64, 48), (200, 60, 30)).save(file, "PNG")
    return file.getvalue()


def watch_frames(page: Page) -> list[bytes]:
    """Collects all WebSocket frames that the page sends, as bytes."""
    sent: list[bytes] = []

    def keep(payload: str | bytes) -> None:
        sent.append(payload.encode() if isinstance(payload, str) else payload)

    def watch(socket: WebSocket) -> None:
        socket.on("framesent", keep)

    page.on("websocket", watch)
    return sent


async def attach_image(page: Page, way: str, name: str) -> None:
    await page.get_by_label("Your message").evaluate(
        """(area, [way, name, bytes]) => {
            const files = new DataTransfer();
            files.items.add(new File([Uint8Array.from(bytes)], name, { type: "image/png" }));
            const how = { bubbles: true, cancelable: true };
            area.dispatchEvent(way === "paste"
                ? new ClipboardEvent("paste", { ...how, clipboardData: files })
                : new DragEvent("drop", { ...how, dataTransfer: files }));
        }""",
        [way, name, list(png())],
    )


async def claim(page: Page, **capabilities: object) -> None:
    """Loads the page again, which now believes that the engine has these capabilities."""
    found = await (await page.request.get(urljoin(page.url, "/api/capabilities"))).json()
    claimed = found | capabilities
    await page.route("**/api/capabilities", lambda route: route.fulfill(json=claimed))
    await page.reload()


async def greet_at_length(page: Page) -> None:
    """Loads the page again. A greeting now lasts half a minute, so that a busy machine can stop it."""
    presets = await (await page.request.get(urljoin(page.url, "api/presets"))).json()
    for preset in (one for of_page in presets.values() for one in of_page):
        preset["greeting"] = LONG_GREETING
    await page.route("**/api/presets", lambda route: route.fulfill(json=presets))
    await page.reload()


LONG_GREETING = "Hello!" + 14 * " How can I help you?"

LETS_LEAVE = """() => dispatchEvent(new Event("beforeunload", { cancelable: true }))"""
"""False while the page would ask first, because its browser has not stored everything yet."""


_RELOADS = f"() => ({LETS_LEAVE})() && (setTimeout(() => location.reload()), true)"


async def reload_when_stored(page: Page) -> None:
    """Playwright's reload alone answers the page's question with "Leave"."""
    async with page.expect_navigation():
        await page.wait_for_function(_RELOADS, polling=50)


def accept_dialogs(page: Page) -> None:
    async def accept(dialog: Dialog) -> None:
        await dialog.accept()

    page.on("dialog", accept)


async def watch_position(page: Page, selector: str) -> None:
    """From now on, collects where the element is."""
    await page.evaluate(
        """(selector) => {
            window.positions = new Set();
            setInterval(() => {
                const box = document.querySelector(selector)?.getBoundingClientRect();
                if (box) positions.add(`${Math.round(box.x)} ${Math.round(box.y + scrollY)}`);
            }, 20);
        }""",
        selector,
    )


async def positions(page: Page) -> list[str]:
    """All positions of the watched element, as `x y` in the document."""
    found: list[str] = await page.evaluate("[...positions]")
    return found
