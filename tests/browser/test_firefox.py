"""One conversation of each kind in Firefox, with the local engine.

A busy machine delays the devices of Firefox, which then lose sound. Therefore words are compared inside
the page, and the devices are only expected to carry sound.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from support.agents_page import agents_page, page_server
from support.browser_user import Browsers, Visitor
from support.call_page import CallAudio, CallPage
from support.firefox import Firefox, require_firefox
from support.page_microphone import speak
from support.ports import free_port
from support.shared_stack import running_stack
from support.sound_server import SoundServer, audible_s
from support.speech import share_recognised, share_voiced, transcribe
from support.stack import Stack, until
from support.synthetic_speech import GERMANY, JAPAN, spoken
from support.timed_conversations import tone
from support.turn_page import sound_of

pytestmark = [pytest.mark.extended, pytest.mark.speech]

ANSWER_MS = 90_000
KEY = "the-key-of-the-calls"
NAME = "What is your name?"
"""The engine answers it by a rule."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("local"), "local", slots=2) as own:
        yield own


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoundServer]:
    require_firefox()
    with SoundServer(tmp_path_factory.mktemp("sound")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browsers(sound: SoundServer) -> AsyncIterator[Browsers]:
    async with Firefox(sound.folder, sound.environment) as running:
        yield running


async def test_a_video_call(stack: Stack, visitor: Visitor, sound: SoundServer) -> None:
    page = await visitor.open("/omni", speaks=True)
    call = CallPage(page)
    await call.start("/omni")
    await expect(page.locator(".stage .title")).to_have_text("Listening")
    async with sound.recording() as heard:
        await speak(page, spoken(JAPAN, lead_s=0.5))
        asked, answered = await call.finish_answer()
        await until(heard.has_sound)
    assert share_recognised("capital of Japan", asked) > 0.6  # the small model mishears names
    assert asked.strip() != JAPAN or "Tokyo" in answered
    await call.end()
    recording = await call.recording_id()
    await call.press("Upload: Audio")
    await expect(page.get_by_text("Uploaded to the recording")).to_be_visible()
    audio = CallAudio.of(stack.data_dir / "sessions" / recording / "frontend_replay.wav")
    assert share_voiced(answered, audio.without_pauses(audio.model)) > 0.6
    await page.goto(f"{visitor.url}/s/{recording}")
    await _recording_plays(page, answered)
    await expect(page.locator("video")).not_to_have_js_property("videoWidth", 0)


async def test_a_call_by_webrtc(stack: Stack, browsers: Browsers) -> None:
    """A page of another origin, with OpenAI's package. Firefox sends no sound to 127.0.0.1."""
    pytest.importorskip("aiortc", reason="the extra webrtc is not installed")
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1/realtime"
    with page_server() as origin:
        edge = stack.edge(port=port, host="0.0.0.0", api_keys=KEY, allowed_origins=origin)
        bearer = {"Authorization": f"Bearer {KEY}"}
        secret = httpx.post(f"{url}/client_secrets", json={}, headers=bearer).json()["value"]
        async with agents_page(browsers, origin) as page:
            await page.call(f"{url}/calls", secret)
            await page.speak(spoken(NAME))
            said = await page.until("response.output_audio_transcript.done")
            await page.until("output_audio_buffer.stopped")
            heard = await page.until_silent()
            assert page.errors == []
    edge.stop()
    assert share_voiced(said["transcript"], heard) > 0.6


async def test_half_duplex(visitor: Visitor, sound: SoundServer) -> None:
    page = await visitor.open("/half_duplex", speaks=True)
    state = page.get_by_role("region", name="Conversation").get_by_role("status")
    await page.get_by_role("button", name="Start conversation").click()
    turns = page.locator("an-half-duplex-turn")
    await expect(turns.locator(".reply")).to_contain_text("Hello", timeout=ANSWER_MS)
    await expect(state).to_have_text("Listening")
    async with sound.recording() as heard:
        await speak(page, spoken(JAPAN, lead_s=1.0))
        turn = turns.nth(1)
        await expect(turn.locator("an-audio-player")).to_have_count(2, timeout=ANSWER_MS)
        await until(heard.has_sound)
    await expect(state).to_have_text("Listening")
    asked = (await turn.locator(".user-text").inner_text()).strip()
    answered = await turn.locator(".reply").inner_text()
    assert share_recognised("capital of Japan", asked) > 0.6
    assert asked != JAPAN or "Tokyo" in answered
    [_, model] = await turn.locator("an-audio-player").all()
    assert share_voiced(answered, await sound_of(model, OUTPUT_RATE)) >= 0.7
    await page.get_by_role("button", name="End conversation", exact=True).click()
    await expect(state).to_have_text("Conversation ended")
    link = await page.get_by_role("link", name="Open", exact=True).get_attribute("href")
    await page.goto(f"{visitor.url}{link}")
    await _recording_plays(page, answered)


async def test_a_written_question(visitor: Visitor, sound: SoundServer) -> None:
    page = await visitor.open("/turnbased")
    await page.get_by_label("Your message").fill(GERMANY)
    await page.get_by_role("button", name="Send").click()
    answer = page.locator("an-answer")
    await expect(answer.locator(".message-content")).to_contain_text("Berlin", timeout=ANSWER_MS)
    player = answer.locator("an-audio-player")
    await expect(player).to_be_visible(timeout=ANSWER_MS)
    text = await answer.locator(".message-content").inner_text()
    assert share_voiced(text, await sound_of(player, OUTPUT_RATE)) >= 0.7
    async with sound.recording() as heard:
        await answer.get_by_role("button", name="Play: spoken answer").click()
        await until(heard.has_sound)


async def test_a_recorded_question(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased", speaks=True)
    await page.get_by_role("button", name="Record audio").click()
    await speak(page, spoken(JAPAN, lead_s=0.5))
    assert "capital" in transcribe(await _recorded(page)).lower()
    await page.get_by_role("button", name="Send").click()
    answer = page.locator("an-answer .message-content")
    await expect(answer).to_contain_text(re.compile("capital", re.IGNORECASE), timeout=ANSWER_MS)


async def test_the_microphone(visitor: Visitor, sound: SoundServer) -> None:
    page = await visitor.open("/turnbased")
    await page.get_by_role("button", name="Record audio").click()
    level = page.get_by_role("meter", name="Microphone level")
    async with sound.speaking(tone(2.0, 400, INPUT_RATE)):
        await expect(level).not_to_have_attribute("aria-valuenow", "0", timeout=ANSWER_MS)
        await asyncio.sleep(1.0)  # the recording contains more than its beginning
    assert audible_s(await _recorded(page), OUTPUT_RATE) > 0.3


async def test_a_chat_without_an_audio_output(
    stack: Stack, sound: SoundServer, pages: None, tmp_path: Path
) -> None:
    silent = {**sound.environment, "PULSE_SERVER": f"unix:{tmp_path / 'none'}"}
    async with (
        Firefox(tmp_path, silent) as browsers,
        Visitor(browsers, stack.http_url, tmp_path) as visitor,
    ):
        page = await visitor.open("/turnbased")
        await page.get_by_label("Your message").fill(GERMANY)
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_text("spoken answers are off")).to_be_visible()
        answer = page.locator("an-answer .message-content")
        await expect(answer).to_contain_text("Berlin", timeout=ANSWER_MS)
        await expect(page.get_by_role("button", name="Turn on spoken answers")).to_be_visible()
        assert visitor.page_errors == []


async def _recorded(page: Page) -> Samples:
    await page.get_by_role("button", name="Use recording").click()
    player = page.locator("an-composer an-audio-player")
    await expect(player).to_be_visible()
    return await sound_of(player, INPUT_RATE)


async def _recording_plays(page: Page, answered: str) -> None:
    """The viewer has the model's words, and its position moves."""
    said = page.locator("an-viewer-transcript li").filter(has_text="Model")
    await expect(said.filter(has_text=answered.split()[0]).first).to_be_visible(timeout=ANSWER_MS)
    await page.get_by_role("button", name="Play", exact=True).click()
    player = page.locator("audio, video").first

    async def has_moved() -> bool:
        return float(await player.evaluate("(it) => it.currentTime")) > 0.4

    await until(has_moved)
