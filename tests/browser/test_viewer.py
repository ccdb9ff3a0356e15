"""The session viewer: playback, transcript, comments and share links."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
from playwright.async_api import Page, expect

from antiphon.recorder_service.journal.state import RecordingJob, SessionEnding
from antiphon.shared_schemas.entries import PausedOut, ResumedOut
from antiphon.shared_schemas.ids import new_recording_id
from antiphon.shared_schemas.states import EndReason, SessionKind
from support.browser_user import Visitor, a11y_findings, press_key
from support.ports import free_port
from support.recorder_conversations import record_in_order
from support.recordings import change_meta, recorded
from support.stack import Stack, until
from support.timed_conversations import TimedTalk, jpeg, tone
from support.turn_conversations import chat_talk, numbered

SECONDS = 12
ANSWERS = {3: "It is Rome.", 8: "Three million people live there."}
QUESTIONS = {2: "What is the capital of Italy?"}
FIRST_WORDS = QUESTIONS[2]
KEY = "a-key-that-is-long-enough"
NO_SUCH = "0" * 32


def talk(kind: SessionKind = SessionKind.AUDIO_DUPLEX) -> TimedTalk:
    """The user sends one second of tone per second. The model gives two answers of two seconds."""
    call = TimedTalk.prepared(kind)
    for second in range(SECONDS):
        frames = [jpeg(64, 48, (20 * second, 90, 120))] if kind is SessionKind.OMNI_DUPLEX else []
        call.chunk(second + 1.0, tone(1.0, 300, 16_000, level=0.2), *frames)
        if second in ANSWERS:
            call.speak(second + 1.1, tone(2.0, 700, 24_000), text=ANSWERS[second], end=True)
        elif second in QUESTIONS:
            call.listen(second + 1.1, memo={"user": QUESTIONS[second]})
        else:
            call.listen(second + 1.1)
    call.out(6.2, PausedOut(input_n=7, timeout_s=60))
    call.out(6.4, ResumedOut(input_n=7))
    return call


def add_browser_recording(stack: Stack, recording: str) -> None:
    """Adds a browser recording with the user left and the model right."""
    sides = np.stack([tone(30.0, 300, 24_000, level=0.2), tone(30.0, 700, 24_000)], axis=1)
    file = stack.data_dir / "sessions" / recording / "frontend_replay.wav"
    soundfile.write(file, sides, 24_000, subtype="PCM_16")


async def play_browser_recording(page: Page) -> None:
    """Playing one of the two recordings pauses the other."""
    own = page.get_by_role("region", name="Browser recording")
    await own.get_by_role("button", name="Play browser recording").click()
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    player = own.locator("video")
    await expect(player).to_have_class("playing")
    await expect(player).not_to_have_js_property("readyState", 0)
    assert await player.evaluate("(it) => it.duration") == pytest.approx(30.0, abs=0.01)
    await page.get_by_role("button", name="Play", exact=True).click()
    await expect(player).to_have_js_property("paused", True)


async def saves_messages(page: Page) -> None:
    """The texts of both sides and their audio, as MessagePack."""
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Messages (.msgpack)").click()
    file = await saving.value
    assert re.fullmatch(r"antiphon-omni_duplex-[\d-]{15}\.msgpack", file.suggested_filename)
    data = Path(await file.path()).read_bytes()
    assert data.startswith(b"\x81\xa8messages")
    for text in (*ANSWERS.values(), *QUESTIONS.values()):
        assert text.encode() in data
    assert data.count(b"\xaetext_and_audio") == len(ANSWERS)
    assert data.count(b"RIFF") == len(ANSWERS) + len(QUESTIONS)


async def saves_transcript(page: Page) -> None:
    """Both sides as text, in a file and in the clipboard."""
    async with page.expect_download() as saving:
        await page.get_by_role("button", name="Save as text").click()
    file = await saving.value
    assert re.fullmatch(r"antiphon-transcript-[\d-]{15}\.txt", file.suggested_filename)
    text = Path(await file.path()).read_text()
    for line in (*(f"Model: {said}" for said in ANSWERS.values()), f"You: {FIRST_WORDS}"):
        assert line in text
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Copy transcript").click()
    await expect(page.get_by_text("Transcript copied")).to_be_visible()
    assert await page.evaluate("navigator.clipboard.readText()") == text


async def place(page: Page) -> float:
    """Playback position in seconds."""
    seconds: float = await page.locator("audio, video").first.evaluate("(it) => it.currentTime")
    return seconds


def is_at(page: Page, wanted: float, within: float = 0.15) -> Callable[[], Awaitable[bool]]:
    """Whether the playback position is at `wanted`."""

    async def is_there() -> bool:
        return abs(await place(page) - wanted) < within

    return is_there


def is_past(page: Page, second: float) -> Callable[[], Awaitable[bool]]:
    """Whether the playback position is after `second`."""

    async def is_past() -> bool:
        return await place(page) > second

    return is_past


async def playhead(page: Page) -> float:
    """Position of the playhead in pixels."""
    box = await page.locator(".playhead").bounding_box()
    assert box is not None
    return float(box["x"])


async def test_playback_and_navigation(stack: Stack, visitor: Visitor) -> None:
    recording = talk().store(stack.data_dir, ended_s=SECONDS + 1.0)
    page = await visitor.open(f"/s/{recording}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(FIRST_WORDS)
    await expect(page).to_have_title(f"{FIRST_WORDS} · Antiphon")
    await saves_transcript(page)
    waves = page.locator(".wave")
    await expect(waves.first).to_have_attribute("d", re.compile("M.*v"))
    await expect(waves.last).to_have_attribute("d", re.compile("M.*v"))
    before = await playhead(page)
    await page.get_by_role("button", name="Play", exact=True).click()
    await expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    await until(is_past(page, 0.4))

    async def has_moved() -> bool:
        return await playhead(page) > before

    await until(has_moved)
    await page.get_by_role("heading", level=1).click()
    await page.keyboard.press("Space")
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    await expect(page.locator("audio")).to_have_js_property("paused", True)
    await page.get_by_role("combobox", name="Speed").select_option("2")
    await expect(page.locator("audio")).to_have_js_property("playbackRate", 2)
    await page.keyboard.press("Escape")

    said = page.locator("an-viewer-transcript li")
    await expect(said.filter(has_text="It is Rome.")).to_contain_text("Model")
    await expect(said.filter(has_text="What is the capital of Italy?")).to_contain_text("User")
    await expect(said.filter(has_text="Paused")).to_have_count(1)
    await said.filter(has_text="Three million").get_by_role("button", name="Go to 0:09").click()
    await until(is_at(page, 9.1))
    await expect(page.locator("li[aria-current]")).to_contain_text("Three million")
    await page.get_by_role("button", name="Previous turn").click()
    await until(is_at(page, 4.1))
    await page.keyboard.press("Home")
    await until(is_at(page, 0.0))
    await page.locator("h1").click()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowRight")
    await expect(page.get_by_role("slider", name="Position")).not_to_have_value("0")


@pytest.mark.extended
async def test_a_link_names_a_moment(stack: Stack, visitor: Visitor) -> None:
    recording = talk().store(stack.data_dir, ended_s=SECONDS + 1.0)
    page = await visitor.open(f"/s/{recording}#t=9.2")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await until(is_at(page, 9.2))
    await expect(page.locator("li[aria-current]")).to_contain_text("Three million")
    await expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    await expect(page.locator("main")).not_to_contain_text("unit")
    await page.get_by_role("heading", level=1).click()
    await page.keyboard.press("ArrowLeft")
    await expect(page).to_have_url(re.compile(r"#t=7\.2$"))
    await page.get_by_role("button", name="Copy link to this moment").click()
    await expect(page.get_by_text("Link copied")).to_be_visible()
    assert (await page.evaluate("navigator.clipboard.readText()")).endswith(f"{recording}#t=7.2")
    await page.evaluate("location.hash = '#t=1.5'")
    await until(is_at(page, 1.5))


@pytest.mark.extended
async def test_the_whole_recording_is_shown_and_silence_is_skipped(
    stack: Stack, visitor: Visitor
) -> None:
    call = TimedTalk.prepared(SessionKind.AUDIO_DUPLEX)
    for second in range(20):
        call.chunk(second + 1.0, tone(1.0, 300, 16_000, level=0.2 if second == 8 else 0.0))
        call.listen(second + 1.1)
    page = await visitor.open(f"/s/{call.store(stack.data_dir, ended_s=SECONDS + 1.0)}")
    await until(is_at(page, 7.5, within=0.3))
    assert "#" not in page.url
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    await page.reload()
    await until(is_at(page, 7.5, within=0.3))
    await page.wait_for_load_state("networkidle")
    assert not [url for url in loaded if "merged_replay" in url], "before Play"
    await page.get_by_role("button", name="Play", exact=True).click()
    await until(is_past(page, 7.7))
    assert [url for url in loaded if "merged_replay" in url]
    await page.get_by_role("button", name="Pause", exact=True).click()
    shown = page.get_by_role("group", name="Timeline")
    assert await shown.evaluate("(it) => it.scrollWidth - it.clientWidth") <= 1
    part = page.locator("an-overview .window")
    await expect(part).to_be_hidden()
    await page.get_by_role("button", name="Zoom in").click(click_count=3)
    await expect(part).to_be_visible()
    strip = page.get_by_role("img", name="Overview")
    box = await strip.bounding_box()
    assert box is not None
    await strip.click(position={"x": box["width"] * 0.9, "y": 10})
    await until(is_at(page, 18.0, within=0.6))
    follows = "(it) => it.offsetLeft / it.parentElement.clientWidth > 0.3"
    await until(lambda: part.evaluate(follows))  # as the timeline does


@pytest.mark.extended
async def test_a_minute_costs_few_bytes(stack: Stack, visitor: Visitor) -> None:
    call = TimedTalk.prepared(SessionKind.AUDIO_DUPLEX)
    for second in range(60):
        call.chunk(second + 1.0, tone(1.0, 300 + 10 * second, 16_000, level=0.2))
        call.listen(second + 1.1)
        if second % 2:
            call.speak(second + 1.2, tone(1.0, 700 + second, 24_000), text="Yes.", end=True)
    recording = call.store(stack.data_dir, ended_s=61.0)
    page = await visitor.open("/admin")
    await expect(page.get_by_text("Live").first).to_be_attached()
    network = await page.context.new_cdp_session(page)
    await network.send("Network.enable")
    await network.send("Network.setCacheDisabled", {"cacheDisabled": True})
    received: list[float] = []
    network.on("Network.dataReceived", lambda event: received.append(event["encodedDataLength"]))
    await page.goto(f"{visitor.url}/s/{recording}")
    await expect(page.locator(".wave").last).to_have_attribute("d", re.compile("M.*v"))
    await page.get_by_role("button", name="Play", exact=True).click()
    audio = page.locator("audio")
    loaded = "({ buffered }) => buffered.length > 0 && buffered.end(buffered.length - 1) > 59"
    await until(lambda: audio.evaluate(loaded), within_s=60, every_s=0.2)
    assert await audio.evaluate("(it) => it.duration") == pytest.approx(61, abs=1)
    assert 150_000 < sum(received) < 500_000, sum(received)


async def test_a_comment_and_a_share_link_without_a_key(stack: Stack, visitor: Visitor) -> None:
    recording = talk(SessionKind.OMNI_DUPLEX).store(stack.data_dir, ended_s=SECONDS + 1.0)
    add_browser_recording(stack, recording)
    port = free_port()
    edge = stack.edge(api_keys=KEY, port=port)
    visitor.url = f"http://127.0.0.1:{port}"
    page = await visitor.open(f"/s/{recording}")
    await page.get_by_role("textbox", name="Key").fill(KEY)
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(FIRST_WORDS)
    await page.get_by_role("button", name="Play", exact=True).click()
    await until(is_past(page, 0.1))
    await play_browser_recording(page)
    await page.get_by_role("button", name="Share").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Comment").fill("It was right about Rome.")
    save = dialog.get_by_role("button", name="Save", exact=True)
    await press_key(save)  # once the dialog has read the recording
    await expect(page.get_by_text("Comment saved")).to_be_visible()
    await expect(save).to_be_disabled()
    await expect(save).to_be_focused()
    assert await a11y_findings(page) == []
    await saves_messages(page)
    await dialog.get_by_label("Expires in").select_option("1 hour")
    create = dialog.get_by_role("button", name="Create link")
    await press_key(create)
    await expect(create).to_be_focused()
    link = await dialog.get_by_label("Link, until").input_value()
    assert recording not in link

    guest = await visitor.open(link.removeprefix(visitor.url))
    await expect(guest.get_by_text("Shared with you")).to_be_visible()
    await expect(guest.get_by_text("It was right about Rome.")).to_be_visible()
    await expect(guest.get_by_role("button", name="Share")).to_have_count(0)
    await guest.get_by_role("button", name="Play", exact=True).click()
    await until(is_past(guest, 0.3))
    await expect(guest.locator(".thumb").first).to_have_js_property("naturalWidth", 64)
    await play_browser_recording(guest)
    assert await a11y_findings(guest) == []
    async with guest.expect_download() as saving:
        await guest.get_by_role("button", name="Download browser recording").click()
    assert (await saving.value).suggested_filename == "frontend_replay.wav"
    await guest.get_by_role("button", name="Download", exact=True).click()
    sheet = guest.get_by_role("dialog", name="Save recording")
    await expect(sheet).to_contain_text("You can play and save the recording")
    await expect(sheet.get_by_role("textbox")).to_have_count(0)
    assert await a11y_findings(guest, part="dialog[open]") == []
    async with guest.expect_download() as saving:
        await sheet.get_by_role("button", name="Archive (ZIP)").click()
    name = (await saving.value).suggested_filename
    assert re.fullmatch(r"antiphon-omni_duplex-[\d-]{15}\.zip", name), name
    assert Path(await (await saving.value).path()).read_bytes()[:2] == b"PK"

    await press_key(dialog.get_by_role("button", name="Revoke link"))
    await expect(page.get_by_text("Link revoked")).to_be_visible()
    await expect(dialog.locator(":focus")).to_have_count(1)
    await guest.reload()
    heading = guest.get_by_role("heading", level=1)
    await expect(heading).to_have_text("This link is no longer valid")
    assert edge.stop() == 0
    expect_statuses(visitor, "401", "404")


async def test_missing_and_unfinished_recordings_are_explained(
    stack: Stack, visitor: Visitor
) -> None:
    merging = talk().store(stack.data_dir, ended_s=SECONDS + 1.0)
    change_meta(stack.data_dir / "sessions", merging, replay="merging", merged_replay=None)
    gap = {"stream": "in", "first": 3, "last": 4, "why": "the disk was full"}
    hurt = recorded(stack.data_dir / "sessions", kind=SessionKind.AUDIO_DUPLEX)
    change_meta(stack.data_dir / "sessions", hurt, state="interrupted", missing=[gap])
    live = recorded(stack.data_dir / "sessions", kind=SessionKind.AUDIO_DUPLEX)
    change_meta(
        stack.data_dir / "sessions", live, state="recording", replay=None, merged_replay=None
    )
    page = await visitor.open(f"/s/{NO_SUCH}")
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_have_text("Recording not found")
    assert await a11y_findings(page) == []
    await page.goto(f"{stack.http_url}/s/{live}")
    await expect(heading).to_have_text("This session is still active")
    change_meta(
        stack.data_dir / "sessions",
        live,
        state="complete",
        replay="ready",
        merged_replay="merged_replay.wav",
    )
    await expect(heading).to_have_text("word3 word5")  # its first words
    await page.goto(f"{stack.http_url}/s/{hurt}")
    await expect(page.get_by_role("note")).to_contain_text("the disk was full")
    await page.goto(f"{stack.http_url}/s/{merging}")
    await expect(page.get_by_role("note")).to_contain_text("Merging audio")
    await expect(page.locator("an-viewer-transcript")).to_contain_text("It is Rome.")
    change_meta(
        stack.data_dir / "sessions", merging, replay="ready", merged_replay="merged_replay.wav"
    )
    await expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    await expect(page.get_by_role("note")).to_have_count(0)
    expect_statuses(visitor, "404")


@pytest.mark.extended
async def test_the_viewer_is_accessible(stack: Stack, visitor: Visitor) -> None:
    """Desktop and phone, light and dark: no accessibility findings and no horizontal scrolling."""
    film = talk(SessionKind.OMNI_DUPLEX).store(stack.data_dir, ended_s=SECONDS + 1.0)
    chat = new_recording_id()
    job = RecordingJob(sid="chat_1", ticket=7, kind=SessionKind.CHAT, recording=chat)
    ending = SessionEnding(at=1_700_000_002_000, reason=EndReason.STOPPED, worker="w1")
    record_in_order(stack.data_dir / "sessions", job, numbered(chat_talk(), 7), ending)
    for path, phone, dark in ((film, False, True), (chat, True, False)):
        page = await visitor.open(f"/s/{path}", phone=phone, dark=dark)
        await expect(page.locator("an-viewer-transcript li").first).to_be_visible()
        await expect(page.locator(".wave").last).to_have_attribute("d", re.compile("M.*v"))
        assert await a11y_findings(page) == []
        too_wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert too_wide <= 0
    await page.get_by_role("button", name="中文").click()
    await expect(page.locator(".page-head p")).to_contain_text("聊天")
    shares = httpx.get(f"{stack.http_url}/api/sessions/{chat}/shares").json()
    assert shares == {"shares": []}, "viewing creates no links"


def expect_statuses(visitor: Visitor, *statuses: str) -> None:
    """Ignores error responses that the test expects."""
    visitor.page_errors = [
        text for text in visitor.page_errors if not any(status in text for status in statuses)
    ]
