"""Calls with the local engine: spoken questions get spoken answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
from PIL import Image
from playwright.async_api import expect

from support.call_page import CallPage
from support.camera_film import left_and_right, two_colours
from support.redis_server import RedisServer
from support.speech import share_heard, share_voiced
from support.spoken import GERMANY, ITALY, silence, spoken
from support.stack import Stack, until
from support.visitor import Visitor, barriers

pytestmark = [pytest.mark.timeout(120), pytest.mark.speech]

STEADY = {
    "temperature": 0,
    "preset": "assistant_en",
    "prompt": "Answer in one short sentence.",
    "forceListen": 0,
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Shared by all tests of this module."""
    folder = tmp_path_factory.mktemp("calls")
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


async def test_a_voice_call_from_the_first_click_to_the_shared_recording(
    stack: Stack, visitor: Visitor, tmp_path: Path
) -> None:
    question = np.concatenate([silence(1.5), spoken(ITALY), silence(30.0)])
    page = await visitor.open("/audio_duplex", says=question, again=True)
    call = CallPage(page)
    await call.keep("/audio_duplex", **STEADY)
    assert await barriers(page) == []
    await call.press("Start call")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Allow microphone").click()
    await dialog.get_by_role("button", name="Start call").click()
    await call.is_in("active")
    asked, answered = await call.hears_out()
    assert share_heard("capital of Italy", asked) > 0.6  # the small model mishears names
    assert await barriers(page) == []
    await call.show("Metrics")
    await expect(page.locator("an-metrics-charts canvas")).to_have_count(6)
    assert await barriers(page) == []
    await call.end()
    assert await barriers(page) == []
    await _was_heard(stack, call, answered, tmp_path)
    await _is_kept_and_shared(stack, call)


async def _was_heard(stack: Stack, call: CallPage, answered: str, folder: Path) -> None:
    """The browser played the words and every second of the audio."""
    heard = await call.heard(folder)
    assert share_voiced(answered, heard.model) > 0.6
    sounds = stack.data_dir / "sessions" / await call.recording_id() / "ai_audio"
    seconds = [soundfile.read(path, dtype="float32")[0] for path in sorted(sounds.glob("*.wav"))]
    assert seconds
    assert all(heard.has_heard(second) > 0.9 for second in seconds if np.abs(second).max() > 0.05)


async def _is_kept_and_shared(stack: Stack, call: CallPage) -> None:
    recording = await call.recording_id()
    folder = stack.data_dir / "sessions" / recording
    await call.press("Upload: Audio")
    await expect(call.page.get_by_text("Uploaded to the recording")).to_be_visible()
    assert (folder / "frontend_replay.wav").stat().st_size > 100_000
    await call.press("Share")
    await call.press("Create link")
    assert await barriers(call.page) == []
    link = await call.page.get_by_label("Link, until").input_value()
    token = link.rpartition("/")[2]
    assert recording not in link
    assert httpx.get(f"{stack.http_url}/api/sessions/{token}").status_code == 200


async def test_a_video_call_shows_the_model_what_the_camera_sees(
    stack: Stack, visitor: Visitor, tmp_path: Path
) -> None:
    question = np.concatenate([silence(1.5), spoken(GERMANY), silence(30.0)])
    film = two_colours(tmp_path / "camera.y4m", left=(200, 20, 20), right=(20, 20, 200))
    page = await visitor.open("/omni", says=question, shows=film, phone=True)
    call = CallPage(page)
    await call.start("/omni", keep="film", **STEADY)
    await call.is_in("active")
    assert await page.locator(".video-preview.mirrored video").count() == 1
    assert await barriers(page) == []
    _, answered = await call.hears_out()
    await call.end()
    assert (await call.saved(tmp_path, "Video")).stat().st_size > 20_000
    await _was_heard(stack, call, answered, tmp_path)
    await _every_chunk_has_a_picture(stack.data_dir / "sessions" / await call.recording_id())


async def _every_chunk_has_a_picture(folder: Path) -> None:
    await until(lambda: json.loads((folder / "meta.json").read_text())["state"] == "complete")
    timeline = json.loads((folder / "recording.json").read_text())
    pictures = [chunk["user_frame"] for chunk in timeline["chunks"]]
    assert len(pictures) > 5
    for name in pictures:
        left, right = left_and_right(Image.open(folder / name))
        assert left[0] > 120 > left[2], "sent frames are not mirrored"
        assert right[2] > 120 > right[0]
