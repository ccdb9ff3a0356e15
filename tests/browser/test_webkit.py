"""The pages in WebKitGTK, the engine of Safari, and one conversation of each kind with the local engine."""

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

pytestmark = [pytest.mark.extended, pytest.mark.speech]

_WITHOUT_GREETING = json.dumps(
    {"version": 1, "values": {"preset": "assistant_en", "prompt": "Be helpful."}}
)

_PLAYS = "return [...everything()].some((one) => one.matches('audio') && one.currentTime > 0.4)"

_MAIN_PARTS = {
    "/": ("button", "Start call"),
    "/audio_duplex": ("button", "Start call"),
    "/omni": ("button", "Start call"),
    "/half_duplex": ("button", "Start conversation"),
    "/turnbased": ("textarea", "Your message"),
    "/admin": ("h2", "Workers"),
    "/docs": ("h1", "API"),
    "/nothing": ("h1", "Page not found"),
}
"""The selector and the text of a part of each page that its script builds."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("local"), "local", slots=2) as own:
        yield own


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoundServer]:
    require_webkit()
    with SoundServer(tmp_path_factory.mktemp("sound")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(sound: SoundServer, pages: None) -> AsyncIterator[WebKit]:
    async with WebKit(sound.folder, sound.environment) as running:
        yield running


async def test_every_page_loads(stack: Stack, page: WebKit) -> None:
    for path, (selector, text) in _MAIN_PARTS.items():
        await page.open(f"{stack.http_url}{path}")
        await page.shows(selector, text)
        assert await page.page_errors() == [], path


async def test_a_voice_call(stack: Stack, page: WebKit) -> None:
    """Without a camera: GStreamer 1.22, which Safari does not use, hangs when a video's track ends."""
    recording = await _call(stack, page)
    await _recording_plays(page)
    await page.open(recording)
    await _recording_plays(page)
    assert await page.page_errors() == []


async def test_half_duplex(stack: Stack, page: WebKit) -> None:
    await page.open(f"{stack.http_url}/half_duplex")
    await page.press("Start conversation")
    await page.shows(".reply", "Hello")
    await page.shows("[role=status]", "Listening")
    await until(page.is_silent)  # the greeting is over
    await page.speak(spoken(JAPAN, lead_s=1.0))
    await until(page.plays_sound)
    answer = "return [...everything()].filter((it) => it.matches('.reply')).at(-1).textContent"

    async def is_answered() -> bool:
        return "Tokyo" in await page.run(answer)

    await until(is_answered)
    await page.press("End conversation")
    await page.shows("[role=status]", "Conversation ended")
    assert await page.page_errors() == []


async def test_a_written_question(stack: Stack, page: WebKit) -> None:
    await page.open(f"{stack.http_url}/turnbased")
    await page.type("Your message", GERMANY)
    await page.press("Send")
    await page.shows("an-answer .message-content", "The capital of Germany is Berlin")
    await until(page.is_silent)
    await page.press("Play: spoken answer")
    await until(page.plays_sound)
    assert await page.page_errors() == []


async def _recording_plays(page: WebKit) -> None:
    await page.press("Play")
    await until(lambda: page.run(_PLAYS))


async def _call(stack: Stack, page: WebKit) -> str:
    """A call with one question. Returns the address of its recording."""
    settings = {"antiphon.settings.audio_duplex": _WITHOUT_GREETING}
    await page.open(f"{stack.http_url}/audio_duplex", settings)
    await page.press("Start call")
    await page.shows(".stage .title", "Listening")
    await page.speak(spoken(JAPAN, lead_s=0.5))
    await page.shows(".stage .title", "Speaking")
    await until(page.plays_sound)
    await page.shows(".stage .title", "Listening")
    await page.press("Transcript")
    asked = await page.shows(".line.user p")
    answered = await page.shows(".line.model p")
    assert share_recognised("capital of Japan", asked) > 0.6  # the small model mishears names
    assert asked != JAPAN or "Tokyo" in answered
    await page.press("End call")
    await page.shows(".stage.ended")
    await page.shows("a", "Open")
    assert await page.page_errors() == []
    return str(await page.run("return find('a', 'Open').href"))
