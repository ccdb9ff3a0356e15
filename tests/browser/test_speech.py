"""Spoken and written questions to the local engine, asked on every page with its own settings.

The question that a page suggests first must have the correct answer.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
from PIL import Image
from playwright.async_api import Locator, Page, expect

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE
from support.browser_user import Visitor, a11y_findings
from support.call_page import CallPage
from support.camera_video import left_and_right, two_colours
from support.page_microphone import speak
from support.shared_stack import running_stack
from support.speech import share_recognised, share_voiced, transcribe
from support.stack import Stack, until
from support.synthetic_speech import GERMANY, JAPAN, spoken
from support.turn_page import attach_image, sound_of, use_repeatable_settings, watch_frames

pytestmark = pytest.mark.speech

GREETING = "Hello! How can I help you?"

PNG = b"\x89PNG\r\n\x1a\n"
ANSWER_MS = 90_000

RECORD_STATES = """() => {
  window.states = [];
  window.countdowns = 0;
  new MutationObserver(() => {
    countdowns += document.querySelectorAll("[role=timer]").length;
    const status = document.querySelector("h2 > [role=status]");
    const text = status?.textContent.trim();
    if (text && text !== states.at(-1)) states.push(text);
  }).observe(document.body, { childList: true, characterData: true, subtree: true });
}"""
"""`states`: all states of a conversation. Some are too short to be polled on a busy machine."""

LISTENS_FOR_TWO_SECONDS = """() => {
  const title = document.querySelector(".stage .title")?.textContent.trim();
  window.listensSince = title === "Listening" ? (window.listensSince ?? performance.now()) : undefined;
  return performance.now() - window.listensSince > 2000;
}"""
"""A late unit makes a shorter gap in the model's speech."""

HAS_HAD_STATES = """(wanted) => {
  let reached = 0;
  for (const state of states) if (state === wanted[reached]) reached += 1;
  return reached === wanted.length;
}"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that loads models."""
    with running_stack(tmp_path_factory.mktemp("local"), "local", slots=2) as own:
        yield own


# The first question that a page suggests

ANSWERS = {JAPAN: "Tokyo"}
"""The question that the pages suggest first, and a word of its answer."""


async def _suggested(page: Page) -> str:
    """The first question that the page shows, which it reads from its own texts."""
    hint = page.get_by_text(re.compile("For example: “.+”")).first
    example = re.search("“(.+)”", await hint.inner_text())
    assert example is not None
    return example[1]


@pytest.mark.extended
async def test_the_first_question_of_a_chat_is_answered_written_and_spoken(
    visitor: Visitor,
) -> None:
    page = await visitor.open("/turnbased", speaks=True)
    await expect(page.locator(".page-head .badge")).to_contain_text("SmolLM2")
    suggestion = page.locator(".welcome button").first
    question = (await suggestion.inner_text()).strip()
    await suggestion.click()
    answers = page.locator("an-answer .message-content")
    await expect(answers.last).to_contain_text(ANSWERS[question], timeout=ANSWER_MS)
    await page.get_by_role("button", name="New chat").click()
    await expect(answers).to_have_count(0)
    await page.get_by_role("button", name="Record audio").click()
    await speak(page, spoken(question))
    await page.get_by_role("button", name="Use recording").click()
    await page.get_by_role("button", name="Send").click()
    await expect(answers.last).to_contain_text(ANSWERS[question], timeout=ANSWER_MS)


# Calls


async def test_a_voice_call_from_start_to_shared_recording(
    stack: Stack, visitor: Visitor, tmp_path: Path
) -> None:
    page = await visitor.open("/audio_duplex", speaks=True)
    call = CallPage(page)
    assert await a11y_findings(page) == []
    await call.press("Start call")
    await call.is_in("active")
    await expect(page.get_by_text(JAPAN)).to_be_visible()
    await expect(page.locator(".caption.model")).to_contain_text(GREETING)
    await page.wait_for_function(LISTENS_FOR_TWO_SECONDS, polling=200, timeout=60_000)
    await expect(page.get_by_text(JAPAN)).to_be_visible()
    await page.evaluate(RECORD_STATES.replace("h2 > [role=status]", ".stage .title"))
    await speak(page, spoken(JAPAN, lead_s=0.5))
    asked, answered = await call.finish_answer()
    await page.wait_for_function(HAS_HAD_STATES, arg=["Hearing you", "Thinking", "Speaking"])
    assert share_recognised("capital of Japan", asked) > 0.6
    assert "Tokyo" in answered
    assert await a11y_findings(page) == []
    await call.show("Metrics")
    await expect(page.locator("an-metrics-charts canvas")).to_have_count(6)
    assert await a11y_findings(page) == []
    await call.end()
    assert await a11y_findings(page) == []
    await _audio_was_played(stack, call, answered, tmp_path)
    await _recording_is_uploaded_and_shared(stack, call)


RECORD_CAPTIONS = """() => {
  window.captions = { user: [], model: [], announced: [] };
  const keep = (list, entry) => {
    if (JSON.stringify(entry) !== JSON.stringify(list.at(-1))) list.push(entry);
  };
  const nodes = [];
  new MutationObserver(() => {
    for (const role of ["user", "model"]) {
      const caption = document.querySelector(`.caption.${role}`);
      if (!caption) continue;
      if (!nodes.includes(caption)) nodes.push(caption);
      const copy = caption.querySelector("span").cloneNode(true);
      copy.querySelector(".visually-hidden").remove();
      const whole = copy.textContent.trim();
      const grey = [...caption.querySelectorAll(".grey")].map((part) => part.textContent).join("");
      const hidden = caption.getAttribute("aria-hidden");
      const { top } = caption.getBoundingClientRect();
      keep(captions[role], { whole, grey, hidden, node: nodes.indexOf(caption), top: Math.round(top) });
    }
    const said = document.querySelector(".stage > [aria-live=polite]").textContent;
    if (said !== "") keep(captions.announced, said);
  }).observe(document.body, {
    childList: true, characterData: true, subtree: true, attributeFilter: ["aria-hidden", "class"],
  });
}"""
"""`captions`: every state of both captions, and what screen readers announce."""

SLOW_LOUDSPEAKER = """
Object.defineProperty(AudioContext.prototype, "outputLatency", { get: () => 0.6 });
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...when) {
  this.addEventListener("ended", () => { window.soundEndedAt = performance.now(); });
  return start.apply(this, when);
};
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (data) {
  if (String(data).includes('"type":"stop"')) window.leftAt = performance.now();
  return send.call(this, data);
};"""
"""A loudspeaker that plays 600 ms late, as some wireless ones do. `soundEndedAt`: when the page had
played its last sound, ms. `leftAt`: when it ended the call."""

ALL_IS_SPOKEN = """(answer) => {
  const { whole, grey } = captions.model.at(-1);
  return whole === answer && grey === "";
}"""


@pytest.mark.extended
async def test_captions_follow_the_words_of_both_sides(visitor: Visitor) -> None:
    """Grey until they are final, or until they are spoken. They change in place.

    A goodbye ends the call when it has been heard.
    """
    page = await visitor.open("/audio_duplex", speaks=True)
    await page.add_init_script(SLOW_LOUDSPEAKER)
    call = CallPage(page)
    await call.start("/audio_duplex")
    await call.is_in("active")
    await page.evaluate(RECORD_CAPTIONS)
    await speak(page, spoken(JAPAN, lead_s=0.5))
    await expect(page.locator(".stage .title")).to_have_text("Speaking", timeout=60_000)
    assert await a11y_findings(page) == []
    _, answered = await call.finish_answer()
    await page.wait_for_function(ALL_IS_SPOKEN, arg=answered, polling=200)
    found = await page.evaluate("captions")
    await speak(page, spoken("Bye bye."))
    await call.is_in("ended")
    await expect(page.locator(".words .line.model p").last).to_contain_text("talk with you.")
    assert await page.evaluate("leftAt - soundEndedAt") >= 600

    interim = [state for state in found["user"] if state["grey"]]
    final = found["user"][len(interim)]
    assert interim
    assert all(state["grey"] == state["whole"] and state["hidden"] == "true" for state in interim)
    assert found["user"][: len(interim)] == interim
    assert (final["grey"], final["hidden"]) == ("", None)
    assert len({(state["node"], state["top"]) for state in [*interim, final]}) == 1
    assert found["announced"] == [f"You: {final['whole']}"]

    spoken_so_far = [
        state["whole"].removesuffix(state["grey"].strip()).strip() for state in found["model"]
    ]
    assert all(answered.startswith(text) for text in spoken_so_far)
    lengths = [len(text) for text in spoken_so_far]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) >= len(answered.split()) / 2  # a busy machine lights some together
    assert spoken_so_far[-1] == answered


async def _audio_was_played(stack: Stack, call: CallPage, answered: str, folder: Path) -> None:
    """The browser played the words and every second of the audio."""
    audio = await call.audio(folder)
    assert share_voiced(answered, audio.without_pauses(audio.model)) > 0.6
    sounds = stack.data_dir / "sessions" / await call.recording_id() / "ai_audio"
    seconds = [soundfile.read(path, dtype="float32")[0] for path in sorted(sounds.glob("*.wav"))]
    assert seconds
    assert all(
        audio.correlation_with_model(second) > 0.9
        for second in seconds
        if np.abs(second).max() > 0.05
    )


async def _recording_is_uploaded_and_shared(stack: Stack, call: CallPage) -> None:
    recording = await call.recording_id()
    folder = stack.data_dir / "sessions" / recording
    await call.press("Upload: Audio")
    await expect(call.page.get_by_text("Uploaded to the recording")).to_be_visible()
    assert (folder / "frontend_replay.wav").stat().st_size > 100_000
    await call.press("Share")
    await call.press("Create link")
    assert await a11y_findings(call.page) == []
    link = await call.page.get_by_label("Link, until").input_value()
    token = link.rpartition("/")[2]
    assert recording not in link
    assert httpx.get(f"{stack.http_url}/api/sessions/{token}").status_code == 200


@pytest.mark.extended
async def test_a_video_call_sends_and_records_the_camera(
    stack: Stack, visitor: Visitor, tmp_path: Path
) -> None:
    film = two_colours(tmp_path / "camera.y4m", left=(200, 20, 20), right=(20, 20, 200))
    page = await visitor.open("/omni", speaks=True, camera=film, phone=True)
    call = CallPage(page)
    await expect(page.locator(".stage").get_by_text("recognises everyday")).to_be_visible()
    await call.start("/omni", keep="film")
    await call.is_in("active")
    await expect(page.locator(".video-preview.mirrored video")).to_have_count(1)
    assert await a11y_findings(page) == []
    assert await _suggested(page) == "What do you see?"
    await speak(page, spoken("What do you see?", lead_s=4.0))
    asked, answered = await call.finish_answer()
    assert re.search("I see (red on blue|blue on red)", answered), asked
    await call.end()
    assert (await call.saved(tmp_path, "Video")).stat().st_size > 20_000
    await _audio_was_played(stack, call, answered, tmp_path)
    await _every_second_has_a_camera_frame(stack.data_dir / "sessions" / await call.recording_id())


async def _every_second_has_a_camera_frame(folder: Path) -> None:
    await until(lambda: json.loads((folder / "meta.json").read_text())["state"] == "complete")
    timeline = json.loads((folder / "recording.json").read_text())
    chunks = timeline["chunks"]
    pictures = [chunk["user_frame"] for chunk in chunks if "user_frame" in chunk]
    assert chunks[0]["user_audio_duration_ms"] == 200
    assert len(pictures) == -(-len(chunks) // 5) > 5
    for name in pictures:
        left, right = left_and_right(Image.open(folder / name))
        assert left[0] > 120 > left[2], "sent frames are not mirrored"
        assert right[2] > 120 > right[0]


@pytest.mark.extended
async def test_a_chosen_voice_is_played_and_sent_by_every_page(visitor: Visitor) -> None:
    page = await visitor.open("/audio_duplex", speaks=True)
    sent, call = watch_frames(page), CallPage(page)
    await call.show("Settings")
    voice = page.get_by_role("combobox", name="Voice", exact=True)
    await voice.select_option(label="Emma · British, female")
    async with page.expect_response("**/api/voices/emma/sample") as fetched:
        await page.get_by_role("button", name="Play Emma").click()
    assert (await fetched.value).status == 200
    await expect(page.get_by_role("button", name="Stop playing")).to_be_visible()
    await expect(page.get_by_role("button", name="Play Emma")).to_be_visible()  # to its end
    await call.press("Start call")
    await call.is_in("active")  # the engine has accepted the voice
    assert _voices(sent) == ["emma"]
    await call.end()
    for path, start in (("/half_duplex", "Start conversation"), ("/turnbased", JAPAN)):
        sent.clear()
        await page.goto(f"{visitor.url}{path}")
        await expect(voice).to_have_value("emma")
        await page.get_by_role("button", name=start).click()
        await until(lambda: _voices(sent) == ["emma"])


def _voices(sent: list[bytes]) -> list[str]:
    """Of all sessions that began."""
    return [name.decode() for frame in sent for name in re.findall(rb'"voice":"(\w+)"', frame)]


# Half-duplex


@pytest.mark.extended
async def test_two_half_duplex_turns_can_be_replayed(stack: Stack, visitor: Visitor) -> None:
    """A goodbye ends the conversation."""
    page = await visitor.open("/half_duplex", speaks=True)
    await expect(page.locator(".page-head .badge")).to_contain_text("SmolLM2")
    assert await _suggested(page) == JAPAN
    assert await a11y_findings(page) == []
    await page.evaluate(RECORD_STATES)
    await page.get_by_role("button", name="Start conversation").click()
    await _has_had_states(page, turns=0)
    assert await _suggested(page) == JAPAN
    for turn, question in enumerate([JAPAN, GERMANY]):
        await _has_had_states(page, turn)
        await speak(page, spoken(question, lead_s=1.0))
    await _has_had_states(page, turns=2)
    assert await page.evaluate("countdowns") == 0
    state = page.get_by_role("region", name="Conversation").get_by_role("status")
    await page.get_by_role("button", name="Mute").click()
    assert await a11y_findings(page) == []
    turns = page.locator("an-half-duplex-turn")
    await expect(turns).to_have_count(3)
    greeting, *asked = await turns.all()
    await expect(greeting.locator(".message")).to_have_count(1)
    await expect(greeting.locator(".reply")).to_have_text(GREETING)
    for turn, question, capital in zip(asked, [JAPAN, GERMANY], ["Tokyo", "Berlin"], strict=True):
        await expect(turn.locator(".user-text")).to_contain_text("capital", ignore_case=True)
        heard = (await turn.locator(".user-text").inner_text()).strip()
        if question == JAPAN or heard == question:  # the small model mishears some names
            await expect(turn.locator(".reply")).to_contain_text(capital)
        await _audio_matches_text(turn)
    await page.get_by_role("button", name="Mute", pressed=True).click()
    await page.get_by_role("button", name="Play: the answer, turn 3").click()
    await expect(state).to_have_text("Muted")  # the microphone must not capture playback
    await expect(state).to_have_text("Listening")
    await speak(page, spoken("Bye bye.", lead_s=1.0))
    await expect(turns.last.locator(".reply")).to_contain_text("talk with you.", timeout=ANSWER_MS)
    await expect(state).to_have_text("Conversation ended")
    assert await a11y_findings(page) == []
    link = await page.get_by_role("link", name="Open", exact=True).get_attribute("href")
    assert link is not None
    assert (stack.data_dir / "sessions" / link.removeprefix("/s/")).is_dir()


async def _has_had_states(page: Page, turns: int) -> None:
    greeted = ["Speaking", "Listening"]
    states = [*greeted, *["Hearing you", "Speaking", "Listening"] * turns]
    await page.wait_for_function(HAS_HAD_STATES, arg=states, timeout=ANSWER_MS, polling=200)


async def _audio_matches_text(turn: Locator) -> None:
    text = await turn.locator(".reply").inner_text()
    assert text
    [user, model] = await turn.locator("an-audio-player").all()
    assert share_voiced(text, await sound_of(model, OUTPUT_RATE)) >= 0.7
    assert "capital" in transcribe(await sound_of(user, INPUT_RATE)).lower()
    spoke = re.search(r"You spoke for ([\d.]+) s", await turn.inner_text())
    assert spoke is not None
    assert 1.0 < float(spoke[1]) < 2.5


# Chat


@pytest.mark.extended
async def test_a_written_question_gets_text_and_speech(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased")
    sent = watch_frames(page)
    assert await a11y_findings(page) == []
    await page.get_by_role("button", name=JAPAN).click()
    answer = page.locator("an-answer")
    await expect(answer.locator(".message-content")).to_contain_text("Tokyo", timeout=ANSWER_MS)
    await expect(page.locator("an-question p")).to_have_text(JAPAN)
    assert max(map(len, sent)) < 2000  # without a voice, which the engine cannot use
    await expect(answer.locator("an-audio-player")).to_be_visible(timeout=ANSWER_MS)
    text = await answer.locator(".message-content").inner_text()
    sound = await sound_of(answer.locator("an-audio-player"), OUTPUT_RATE)
    assert share_voiced(text, sound) >= 0.7
    await answer.get_by_role("button", name="Play: spoken answer").click()
    await expect(answer.get_by_role("button", name="Pause: spoken answer")).to_be_visible()
    assert await a11y_findings(page) == []

    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await answer.get_by_role("button", name="Copy").click()

    async def is_copied() -> bool:
        return bool(await page.evaluate("navigator.clipboard.readText()") == text.strip())

    await until(is_copied)
    await page.locator("an-question").get_by_role("button", name="Edit").click()
    area = page.locator("an-question").get_by_label("Edit message")
    await area.fill("What is the capital")
    await area.press("Shift+Enter")
    await area.press_sequentially("of Germany?")
    await area.press("Enter")
    await expect(answer.locator(".message-content")).to_contain_text("Berlin", timeout=ANSWER_MS)
    await expect(page.locator("an-question p")).to_have_text("What is the capital\nof Germany?")


@pytest.mark.extended
async def test_a_recorded_question_about_pictures_is_answered(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased", speaks=True, phone=True)
    await expect(page.get_by_text("recognises everyday objects")).to_be_visible()
    sent = watch_frames(page)
    await page.get_by_role("button", name="Settings").click()
    await use_repeatable_settings(page)
    await page.get_by_role("button", name="Close").click()
    await page.get_by_role("button", name="Record audio").click()
    assert await a11y_findings(page) == []
    await speak(page, spoken("Please describe the picture."))
    await expect(page.get_by_role("timer")).to_have_text(re.compile(r"\d:\d\d"))
    await page.get_by_role("button", name="Use recording").click()
    recorded = await sound_of(page.locator("an-composer an-audio-player"), INPUT_RATE)
    assert "picture" in transcribe(recorded).lower()
    await attach_image(page, "paste", "pasted.png")
    await attach_image(page, "drop", "dropped.png")
    await expect(page.locator("an-composer img")).to_have_count(2)
    assert await a11y_findings(page) == []
    await page.get_by_role("button", name="Send").click()
    answer = page.locator("an-answer .message-content")
    await expect(answer).to_contain_text("only red", timeout=ANSWER_MS)
    assert sum(frame.count(PNG) for frame in sent) == 2
    assert await a11y_findings(page) == []
    too_wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert too_wide <= 0
