"""The example programs of the protocols' documentation, in both languages, against the whole stack.

They sample at temperature 0.7, and the question starts anywhere in a unit. A small model's answer
may be wrong, so the tests check how it is delivered, not its content.
"""

import asyncio
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from antiphon.shared_schemas.audio import INPUT_RATE
from support.page_scripts import Page, open_page
from support.speech import say, share_voiced
from support.stack import Stack
from support.synthetic_speech import ITALY, silence

pytestmark = [pytest.mark.extended, pytest.mark.speech]

EXAMPLES = Path(__file__).parent / "protocol_examples"


@dataclass
class Reader:
    """Runs the examples with a question and a reference voice, and transcribes the answer."""

    stack: Stack
    folder: Path

    async def runs(self, program: str, *, lead_s: float, rest_s: float) -> str:
        """The output of a Python example that gets the question in a WAV file."""
        question, voice = self.folder / "question.wav", self.folder / "ref.wav"
        line = [silence(lead_s), say(ITALY), silence(rest_s)]
        sf.write(question, np.concatenate(line), INPUT_RATE)
        sf.write(voice, say("This is my voice."), INPUT_RATE)
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, EXAMPLES / program, question, self.stack.ws_url, voice],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    def opens(self, script: str) -> AbstractAsyncContextManager[Page]:
        """A page with a JavaScript example; `speak()` on its console asks the question."""
        question, voice = self.folder / "question.f32", self.folder / "voice.f32"
        question.write_bytes(say(ITALY).astype("<f4").tobytes())
        voice.write_bytes(say("This is my voice.").astype("<f4").tobytes())
        host = self.stack.ws_url.removeprefix("ws://")
        files = [EXAMPLES / script, host, question, voice, self._played]
        return open_page(EXAMPLES / "page.mjs", *files)

    def voiced(self, text: str) -> float:
        """The share of `text` that the page's loudspeaker has played."""
        return share_voiced(text, np.frombuffer(self._played.read_bytes(), "<f4"))

    @property
    def _played(self) -> Path:
        return self.folder / "played.f32"


@pytest.fixture
def reader(local_stack: Stack, tmp_path: Path) -> Reader:
    return Reader(local_stack, tmp_path)


async def test_full_duplex_in_python(reader: Reader) -> None:
    printed = await reader.runs("duplex_client.py", lead_s=1.5, rest_s=15.0)
    assert "Session ready" in printed
    assert "Listening" in printed
    assert "] Speaking: " in printed
    assert "Session ended: stopped" in printed
    await reader.stack.no_session_left()


async def test_full_duplex_in_javascript(reader: Reader) -> None:
    async with reader.opens("duplex_client.js") as page:
        await page.shows("Connected, waiting for queue...")
        await page.shows("Session ready, starting audio capture")
        await page.shows("] Listening (")
        await page.type("speak()")
        await page.shows('] Speaking: "')
        text = (await page.shows("Turn ended. Full text: ")).partition('"')[2]
        await page.type("pauseSession()")
        await page.shows("Session paused")
        await page.type("resumeSession()")
        await page.shows("Session resumed")
        await page.type("stopSession()")
        await page.shows("Session stopped: adx_")
        await reader.stack.no_session_left()
    assert reader.voiced(text) >= 0.7  # it played the text that it displays
    assert not [line for line in page.console if "Error" in line]


async def test_half_duplex_in_python(reader: Reader) -> None:
    printed = await reader.runs("half_duplex_client.py", lead_s=1.0, rest_s=4.0)
    assert "Session ready: hdx_" in printed
    assert "Speaking...\nStopped speaking\nGenerating (" in printed
    assert "--- Turn 0 done ---" in printed
    await reader.stack.no_session_left()


async def test_half_duplex_in_javascript(reader: Reader) -> None:
    async with reader.opens("half_duplex_client.js") as page:
        await page.shows("Session ready (timeout: 180s)")
        await page.type("setTimeout(speak, 1000)")
        for turn in range(2):
            await page.shows("User speaking...")
            await page.shows("User stopped")
            await page.shows("Generating (speech: ")
            text = (await page.shows(f"Turn {turn} done: ")).partition(": ")[2]
            assert text
            if turn == 0:
                assert reader.voiced(text) >= 0.7  # it plays the text that it displays
                await page.type("setTimeout(speak, getPlaybackRemaining() + 1500)")
        await page.type("stopSession()")
        await reader.stack.no_session_left()
    assert not [line for line in page.console if "Error" in line]
