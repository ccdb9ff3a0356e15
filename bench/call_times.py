"""Measures the times that a user of a voice call notices, in Chromium on the page of a running edge.

    antiphon up -d                                            # or any other edge
    PYTHONPATH=tests:tools python bench/call_times.py --url http://127.0.0.1:8006 --calls 3

Each call asks questions, interrupts every other answer, and ends. The times between sounds come from the
browser's own recording, which has the microphone and the speaker on one clock, in blocks of 20 ms:

- start: from the click on "Start call" until the call is active
- answer: from the last sound of a question to the first sound of its answer
- barge-in: from the first sound of the user to the silence of the model
- replay: from the click on "End call" until the page can play the call (bench/replay_delay.py measures the
  server's recording)

Only answers that nothing interrupts are answers here, and questions are asked when the model is silent.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from playwright.async_api import Page, expect

from support.browser_user import Chromium, Visitor  # type: ignore[import-not-found]
from support.call_page import CallAudio, CallPage  # type: ignore[import-not-found]
from support.chromium import REMEDY, find_chromium  # type: ignore[import-not-found]
from support.page_microphone import speak  # type: ignore[import-not-found]
from support.synthetic_speech import GERMANY, ITALY, spoken  # type: ignore[import-not-found]

INTERRUPTION = "Wait a moment, please. I have another question."
STEADY = {"temperature": 0, "prompt": "Answer in one short sentence.", "forceListen": 0}
LONG = {**STEADY, "prompt": "You are a helpful assistant. Explain everything in five sentences."}
BLOCK_S = 0.02
PAUSE_S = 0.5
"""Shorter silence is a pause in speech."""

SILENT_FOR_TWO_SECONDS = """() => {
  const title = document.querySelector(".stage .title")?.textContent.trim();
  window.listensSince = title === "Listening" ? (window.listensSince ?? performance.now()) : undefined;
  return performance.now() - window.listensSince > 2000;
}"""


@dataclass(frozen=True)
class Sound:
    """A stretch of sound of one side, in seconds of the recording."""

    begin: float
    end: float


@dataclass
class Times:
    """Milliseconds of each kind."""

    kinds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, seconds: float) -> None:
        self.kinds[kind].append(1000 * seconds)

    def rows(self) -> Iterable[str]:
        for kind, times in self.kinds.items():
            middle = statistics.median(times)
            spread = f"{min(times):6.0f} … {max(times):6.0f}"
            yield f"{kind:28} median {middle:6.0f} ms   {spread}   n={len(times)}"


def sounds(loud: list[bool]) -> list[Sound]:
    """The stretches of a side; silence shorter than PAUSE_S does not divide them."""
    found: list[Sound] = []
    for place, audible in enumerate(loud):
        if not audible:
            continue
        begin, end = place * BLOCK_S, (place + 1) * BLOCK_S
        if found and begin - found[-1].end < PAUSE_S:
            found[-1] = Sound(found[-1].begin, end)
        else:
            found.append(Sound(begin, end))
    return found


def note_sounds(audio: CallAudio, times: Times) -> None:
    user, model = sounds(audio.loud(audio.user)), sounds(audio.loud(audio.model))
    for said in user:
        spoken_over = [one for one in model if one.begin < said.begin < one.end]
        if spoken_over:
            times.add("barge-in to silence", spoken_over[0].end - said.begin)
            continue
        later = [one.begin for one in user if one.begin > said.end]
        answers = [one.begin for one in model if one.begin > said.end]
        if answers and not any(begin < answers[0] for begin in later):
            times.add("end of speech to first sound", answers[0] - said.end)


async def call_once(page: Page, times: Times, *, folder: Path, interrupts: bool) -> None:
    call = CallPage(page)
    await call.store_settings("/audio_duplex", **(LONG if interrupts else STEADY))
    await page.wait_for_timeout(1000)
    began = time.monotonic()
    await call.press("Start call")
    await call.is_in("active")
    times.add("start to active", time.monotonic() - began)
    title = page.locator(".stage .title")
    for question in (ITALY, GERMANY, ITALY):
        await page.wait_for_function(SILENT_FOR_TWO_SECONDS, polling=100, timeout=90_000)
        await speak(page, spoken(question))
        await expect(title).to_have_text("Speaking", timeout=60_000)
        if interrupts:
            await page.wait_for_timeout(700)
            await speak(page, spoken(INTERRUPTION, lead_s=0.0))
    if not interrupts:
        await page.wait_for_function(SILENT_FOR_TWO_SECONDS, polling=100, timeout=90_000)
    await page.mouse.move(5, 5)
    await call.press("End call")
    ended = time.monotonic()
    await call.is_in("ended")
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    times.add("end to replay", time.monotonic() - ended)
    note_sounds(await call.audio(folder), times)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8006")
    parser.add_argument(
        "--calls", type=int, default=3, help="pairs of calls, one with interruptions"
    )
    arguments = parser.parse_args()
    chromium = find_chromium()
    if chromium is None:
        raise SystemExit(f"no Chromium on this machine: {REMEDY}")
    times = Times()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            Chromium(chromium) as browsers,
            Visitor(browsers, arguments.url, folder) as visitor,
        ):
            for place in range(2 * arguments.calls):
                page = await visitor.open("/", speaks=True)
                interrupts = place % 2 == 1
                await call_once(page, times, folder=folder, interrupts=interrupts)
                await page.context.close()
    print("\n".join(times.rows()))


if __name__ == "__main__":
    asyncio.run(main())
