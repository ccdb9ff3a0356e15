"""The half-duplex and chat pages with the local engine: voice, text and files."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.async_api import Locator, expect

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from antiphon.shared_schemas.media import split_frame
from support.redis_server import RedisServer
from support.speech import share_voiced, transcribe, words
from support.spoken import GERMANY, ITALY, silence, spoken
from support.stack import Stack, until
from support.turn_page import agree, at_24_khz, bring, calm, sound_of, watch_frames, wav_of
from support.visitor import Visitor, barriers

pytestmark = [pytest.mark.timeout(120), pytest.mark.speech]

PNG = b"\x89PNG\r\n\x1a\n"
ANSWER_MS = 30_000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Shared by all tests of this module."""
    folder = tmp_path_factory.mktemp("turns")
    with RedisServer(folder / "redis") as redis:
        running = Stack(folder, redis)
        try:
            running.edge()
            running.recorder()
            running.worker("local", slots=2)
            yield running
        finally:
            running.close()
    assert running.tracebacks() == []


# Half-duplex


async def test_two_spoken_turns_can_be_read_and_heard_again(stack: Stack, visitor: Visitor) -> None:
    parts = [silence(3.0), spoken(ITALY), silence(9.0), spoken(GERMANY), silence(9.0)]
    page = await visitor.open("/half_duplex", says=np.concatenate(parts), again=True)
    await calm(page)
    assert await barriers(page) == []
    await page.get_by_role("button", name="Start conversation").click()
    state = page.get_by_role("region", name="Conversation").get_by_role("status")
    for _ in range(2):
        for name in ("Listening", "Hearing you", "Speaking", "Listening"):
            await expect(state).to_have_text(name, timeout=ANSWER_MS)
    await page.get_by_role("button", name="Mute").click()
    assert await barriers(page) == []
    turns = page.locator("an-half-duplex-turn")
    await expect(turns).to_have_count(2)
    for turn in await turns.all():
        await _says_what_it_writes(turn)
    await page.get_by_role("button", name="Unmute").click()
    await page.get_by_role("button", name="Play: the answer, turn 2").click()
    await expect(state).to_have_text("Muted")  # the microphone must not capture playback
    await expect(state).to_have_text("Listening", timeout=10_000)
    await page.get_by_role("button", name="End conversation", exact=True).click()
    await expect(state).to_have_text("Conversation ended")
    assert await barriers(page) == []
    link = await page.get_by_role("link", name="Open recording").get_attribute("href")
    assert link is not None
    assert (stack.data_dir / "sessions" / link.removeprefix("/s/")).is_dir()


async def _says_what_it_writes(turn: Locator) -> None:
    text = await turn.locator(".reply").inner_text()
    assert text
    [user, model] = await turn.locator("an-audio-player").all()
    assert share_voiced(text, await sound_of(model, OUTPUT_RATE)) >= 0.7
    assert "capital" in transcribe(await sound_of(user, INPUT_RATE)).lower()
    spoke = re.search(r"You spoke for ([\d.]+) sec", await turn.inner_text())
    assert spoke is not None
    assert 1.0 < float(spoke[1]) < 2.5


async def test_an_answer_is_cut_short_and_a_silent_conversation_counts_down(
    visitor: Visitor,
) -> None:
    question = np.concatenate([silence(2.0), spoken(ITALY), silence(30.0)])
    page = await visitor.open("/half_duplex", says=question, phone=True, dark=True)
    await page.get_by_role("button", name="Start conversation").click()
    await page.get_by_role("button", name="Stop answer").click(timeout=ANSWER_MS)
    turn = page.locator("an-half-duplex-turn")
    await expect(turn).to_contain_text(re.compile("stopped|No answer"))
    state = page.get_by_role("region", name="Conversation").get_by_role("status")
    await expect(state).to_have_text("Listening")
    await expect(page.get_by_role("timer")).to_have_count(0)
    await page.get_by_role("button", name="Mute").click()
    await expect(page.get_by_role("timer")).to_have_text(re.compile("Ends in 2:5"))
    assert await barriers(page) == []


async def test_voices_are_uploaded_recorded_heard_used_and_deleted(visitor: Visitor) -> None:
    """One voice as reference voice, another as output voice."""
    page = await visitor.open(
        "/half_duplex", says=np.concatenate([silence(0.5), spoken(GERMANY)]), again=True
    )
    sent = watch_frames(page)
    await page.locator("summary", has_text="Instructions").click()
    await page.locator("summary", has_text="Voice").click()
    sound = page.locator("an-part-list .sound")
    await expect(sound).to_contain_text("english.wav")
    await page.get_by_role("button", name="Add voice").click()
    dialog = page.get_by_role("dialog")
    voice = {"name": "Ada.wav", "mimeType": "audio/wav", "buffer": wav_of(spoken(ITALY))}
    await dialog.locator("input[type=file]").set_input_files(voice)
    await expect(dialog.get_by_label("Name")).to_have_value("Ada")
    await dialog.get_by_role("button", name="Save").click()
    model = page.get_by_label("Reference voice")
    await expect(model.locator("option:checked")).to_have_text("Ada")
    await expect(sound).to_contain_text("Ada")
    await page.reload()
    await expect(page.locator("an-part-list .sound")).to_contain_text("Ada")
    await page.locator("summary", has_text="Voice").click()
    await page.get_by_role("button", name="Add voice").click()
    await dialog.get_by_role("button", name="Record").click()
    await expect(dialog.get_by_role("timer")).to_have_text(re.compile("0:0[3-9]"))
    await dialog.get_by_role("button", name="Stop recording").click()
    await dialog.get_by_label("Name").fill("Bea")
    await dialog.get_by_role("button", name="Save").click()
    await expect(model.locator("option:checked")).to_have_text("Bea")
    await model.select_option("Ada")
    await page.get_by_label("Output voice").select_option("Bea")
    await page.get_by_role("button", name="Play Bea").click()
    await expect(page.get_by_role("button", name="Stop playing")).to_be_visible()
    await page.get_by_role("button", name="Start conversation").click()
    await expect(page.get_by_role("button", name="End conversation", exact=True)).to_be_visible()
    await _both_voices_are_sent(sent)
    await page.get_by_role("button", name="End conversation", exact=True).click()
    await page.get_by_role("button", name="Add voice").click()
    agree(page)
    await page.get_by_role("button", name="Delete Ada").click()
    await expect(page.locator("an-part-list .sound")).to_contain_text("english.wav")
    await expect(model.locator("option", has_text="Ada")).to_have_count(0)


async def _both_voices_are_sent(sent: list[bytes]) -> None:
    """The reference voice is part of the instructions, the output voice is a field."""
    await until(lambda: any(b'"prepare"' in frame for frame in sent))
    frame = next(frame for frame in sent if b'"prepare"' in frame)
    header, _ = split_frame(frame)
    prepare = json.loads(header)
    [place] = [part["data"] for part in prepare["system_content"] if part["type"] == "audio"]
    start = frame.index(header) + len(header) + place["at"]
    of_model = np.frombuffer(frame[start : start + place["bytes"]], np.int16) / np.float32(0x8000)
    speech = np.frombuffer(base64.b64decode(prepare["ref_audio_base64"]), np.float32)
    assert "capital" in transcribe(at_24_khz(of_model)).lower()
    assert {"capital", "germany"} & set(words(transcribe(at_24_khz(speech))))


# Chat


async def test_a_file_that_cannot_be_used_is_named_and_another_taken(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased", phone=True, dark=True, locale="zh-CN")
    chooser = page.locator("an-composer input[type=file]")
    await chooser.set_input_files(
        [
            {"name": "broken.png", "mimeType": "image/png", "buffer": b"no picture"},
            {"name": "italy.wav", "mimeType": "audio/wav", "buffer": wav_of(spoken(ITALY))},
        ]
    )
    await expect(page.get_by_role("status").filter(has_text="broken.png")).to_be_visible()
    await expect(page.locator("an-composer an-audio-player")).to_have_count(1)
    assert await barriers(page) == []
    await page.get_by_role("button", name="发送").click()
    await expect(page.locator("an-answer .message-content")).not_to_be_empty(timeout=ANSWER_MS)


async def test_a_question_in_writing_is_answered_in_words_and_speech(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased")
    assert await barriers(page) == []
    await calm(page)
    area = page.get_by_label("Your message")
    await area.press_sequentially("What is the capital")
    await area.press("Shift+Enter")
    await area.press_sequentially("of Italy?")
    await area.press("Enter")
    answer = page.locator("an-answer")
    await expect(answer.locator(".message-content")).to_contain_text("Rome", timeout=ANSWER_MS)
    await expect(page.locator("an-question p")).to_have_text("What is the capital\nof Italy?")
    await expect(answer.locator("an-audio-player")).to_be_visible(timeout=ANSWER_MS)
    text = await answer.locator(".message-content").inner_text()
    sound = await sound_of(answer.locator("an-audio-player"), OUTPUT_RATE)
    assert share_voiced(text, sound) >= 0.7
    await answer.get_by_role("button", name="Play: spoken answer").click()
    await expect(answer.get_by_role("button", name="Pause: spoken answer")).to_be_visible()
    assert await barriers(page) == []

    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await answer.get_by_role("button", name="Copy").click()
    assert await page.evaluate("navigator.clipboard.readText()") == text.strip()
    await page.locator("an-question").get_by_role("button", name="Edit").click()
    await page.locator("an-question").get_by_label("Your message").fill(GERMANY)
    await page.locator("an-question").get_by_label("Your message").press("Enter")
    await expect(answer.locator(".message-content")).to_contain_text("Berlin", timeout=ANSWER_MS)
    await expect(page.locator("an-question p")).to_have_text(GERMANY)


async def test_a_recorded_question_is_heard_and_a_picture_is_refused_by_name(
    visitor: Visitor,
) -> None:
    question = np.concatenate([silence(0.3), spoken(ITALY), silence(10.0)])
    page = await visitor.open("/turnbased", says=question, phone=True)
    sent = watch_frames(page)
    await page.get_by_role("button", name="Settings").click()
    await calm(page)
    await page.get_by_role("button", name="Close").click()
    await page.get_by_role("button", name="Record audio").click()
    assert await barriers(page) == []
    await expect(page.get_by_role("timer")).to_have_text("0:03", timeout=10_000)
    await page.get_by_role("button", name="Use recording").click()
    recorded = await sound_of(page.locator("an-composer an-audio-player"), INPUT_RATE)
    assert "capital" in transcribe(recorded).lower()
    await bring(page, "paste", "pasted.png")
    await bring(page, "drop", "dropped.png")
    await expect(page.locator("an-composer img")).to_have_count(2)
    assert await barriers(page) == []
    await page.get_by_role("button", name="Send").click()
    trouble = page.get_by_role("alert").filter(has_text="This model does not support images")
    await expect(trouble).to_contain_text("the local engine does not see images", timeout=ANSWER_MS)
    await expect(trouble).to_be_in_viewport()
    assert sum(frame.count(PNG) for frame in sent) == 2
    assert await barriers(page) == []
    await trouble.get_by_role("button", name="Retry without images").click()
    answer = page.locator("an-answer .message-content")
    await expect(answer).to_contain_text(re.compile("capital", re.IGNORECASE), timeout=ANSWER_MS)
    await expect(page.locator("an-question .excluded")).to_have_count(2)
    too_wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert too_wide <= 0


async def test_an_answer_is_stopped_asked_for_again_and_taken_back(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased", dark=True)
    await page.get_by_role("button", name="Turn off spoken answers").click()
    area = page.get_by_label("Your message")
    await area.fill("Write a very long story about a lighthouse and a storm.")
    await area.press("Enter")
    answers = page.locator("an-answer")
    await expect(answers.locator(".message-content")).to_contain_text(re.compile(r"\w+ \w+ \w+"))
    await page.get_by_role("button", name="Stop generating").click()
    await expect(answers).to_contain_text("stopped")
    await expect(answers.locator("an-audio-player")).to_have_count(0)
    await answers.get_by_role("button", name="Try again").click()
    await expect(answers.locator(".message-content[aria-busy=true]")).to_have_count(1)
    await page.get_by_role("button", name="Stop generating").click()
    await answers.get_by_role("button", name="Delete").click()
    await expect(answers).to_have_count(0)
    await page.get_by_role("button", name="Undo").click()
    await expect(answers).to_have_count(1)
    assert await barriers(page) == []
    agree(page)
    await page.get_by_role("button", name="New chat").click()
    await expect(page.get_by_role("heading", name="How can I help?")).to_be_visible()
