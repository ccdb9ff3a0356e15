"""One conversation of each kind in WebKitGTK, the engine of Safari, with the local engine.

The viewer is left out: WebKitGTK sometimes stops when GStreamer, which Safari has not, closes a media file.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from support.shared_stack import running_stack
from support.sound_server import SoundServer
from support.speech import share_recognised
from support.stack import Stack, until
from support.synthetic_speech import GERMANY, JAPAN, spoken
from support.webkit import WebKit, require_webkit

pytestmark = pytest.mark.speech

_WITHOUT_GREETING = json.dumps(
    {"version": 1, "values": {"preset": "assistant_en", "prompt": "Be helpful."}}
)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("local"), "local", slots=2) as running:
        yield running


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoundServer]:
    require_webkit()
    with SoundServer(tmp_path_factory.mktemp("sound")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(sound: SoundServer, pages: None) -> AsyncIterator[WebKit]:
    async with WebKit(sound.folder, sound.environment) as running:
        yield running


@pytest.mark.parametrize("path", ["audio_duplex", "omni"])
async def test_a_call(stack: Stack, page: WebKit, sound: SoundServer, path: str) -> None:
    settings = {f"antiphon.settings.{path}": _WITHOUT_GREETING}
    await page.open(f"{stack.http_url}/{path}", settings)
    await page.press("Start call")
    await page.shows(".stage .title", "Listening")
    async with sound.recording() as output:
        await page.speak(spoken(JAPAN, lead_s=0.5))
        await page.shows(".stage .title", "Speaking")
        await until(output.has_sound)
    await page.shows(".stage .title", "Listening")
    await page.press("Transcript")
    asked = await page.shows(".line.user p")
    answered = await page.shows(".line.model p")
    assert share_recognised("capital of Japan", asked) > 0.6  # the small model mishears names
    assert asked != JAPAN or "Tokyo" in answered
    await page.press("End call")
    await page.shows(".stage.ended")
    if path == "omni":
        link = await page.run("return find('a', 'Open').href")
        folder = stack.data_dir / "sessions" / link.rpartition("/")[2]
        await until(lambda: any(folder.glob("user_frames/*.jpg")))
    assert await page.page_errors() == []


async def test_half_duplex(stack: Stack, page: WebKit, sound: SoundServer) -> None:
    await page.open(f"{stack.http_url}/half_duplex")
    await page.press("Start conversation")
    await page.shows(".reply", "Hello")
    await page.shows("[role=status]", "Listening")
    async with sound.recording() as output:
        await page.speak(spoken(JAPAN, lead_s=1.0))
        await until(output.has_sound)
    answer = "return [...everything()].filter((it) => it.matches('.reply')).at(-1).textContent"

    async def is_answered() -> bool:
        return "Tokyo" in await page.run(answer)

    await until(is_answered)
    await page.press("End conversation")
    await page.shows("[role=status]", "Conversation ended")
    assert await page.page_errors() == []


async def test_a_written_question(stack: Stack, page: WebKit, sound: SoundServer) -> None:
    await page.open(f"{stack.http_url}/turnbased")
    await page.type("Your message", GERMANY)
    await page.press("Send")
    await page.shows("an-answer .message-content", "The capital of Germany is Berlin")
    async with sound.recording() as output:
        await page.press("Play: spoken answer")
        await until(output.has_sound)
    assert await page.page_errors() == []
