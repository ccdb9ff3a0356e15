"""Devices of a call: cameras, files, and sound cards with limitations."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image
from playwright.async_api import Page, expect

from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from support.browser_user import Visitor
from support.call_page import CallPage
from support.camera_video import left_and_right, two_colours
from support.stack import Stack, until
from support.synthetic_speech import ITALY, spoken
from support.turn_page import watch_frames
from support.video_files import video

RED, BLUE = (200, 20, 20), (20, 20, 200)

RECORD_FACING_MODES = """
const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
window.facing = [];
navigator.mediaDevices.getUserMedia = (wanted) => {
  if (wanted.video) facing.push(wanted.video.facingMode?.ideal ?? null);
  return ask(wanted);
};"""
"""`facing`: the camera directions that the page requested."""

LIMITED_AUDIO = """
localStorage.setItem("antiphon.settings.devices",
  JSON.stringify({ version: 1, values: { noiseSuppression: false } }));
window.refused = 0;
window.AudioContext = class extends AudioContext {
  constructor(options) {
    if (options?.sampleRate === 16000) {
      refused += 1;
      throw new DOMException("not at 16 kHz", "NotSupportedError");
    }
    super(options);
  }
};
const play = HTMLMediaElement.prototype.play;
HTMLMediaElement.prototype.play = function () {
  if (this.srcObject?.getAudioTracks().length) window.loudspeaker = this;
  return play.call(this);
};"""
"""Refuses contexts at 16 kHz. `loudspeaker`: the element that plays a stream."""

SIZE_OF_A_SPEAKING_CALL = """() => {
  const hint = document.querySelector(".call-status .soft"), page = document.documentElement;
  if (!hint?.innerText || !document.querySelector(".caption")) return null;
  return [page.scrollWidth, page.scrollHeight];
}"""
"""Width and height of the page while the model speaks: its words and the longest hint are shown."""

TITLE_IS_LIGHT = """() => {
  const pixel = document.createElement("canvas").getContext("2d");
  pixel.fillStyle = getComputedStyle(document.querySelector(".stage .title")).color;
  pixel.fillRect(0, 0, 1, 1);
  return pixel.getImageData(0, 0, 1, 1).data[0] > 200;
}"""
"""The text over the video is light in both themes."""

LISTEN = """async () => {
  const context = new AudioContext({ sampleRate: 24000 });
  const ear = new AnalyserNode(context, { fftSize: 4096 });
  context.createMediaStreamSource(loudspeaker.srcObject).connect(ear);
  const wave = new Float32Array(ear.fftSize), tones = new Float32Array(ear.frequencyBinCount);
  for (let tries = 0; tries < 400; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    ear.getFloatTimeDomainData(wave);
    if (!wave.every((sample) => Math.abs(sample) > 0)) continue;
    ear.getFloatFrequencyData(tones);
    return tones.indexOf(Math.max(...tones)) * context.sampleRate / ear.fftSize;
  }
  return null;
}"""
"""The strongest frequency of the loudspeaker output, Hz."""

MODEL_HZ = 220.0
"""Frequency of the simulated engine's voice."""


async def recorded(stack: Stack, call: CallPage) -> tuple[Path, list[dict[str, Any]]]:
    """Returns the folder and the chunks of the server recording of an ended call."""
    folder = stack.data_dir / "sessions" / await call.recording_id()
    await until(lambda: json.loads((folder / "meta.json").read_text())["state"] == "complete")
    chunks: list[dict[str, Any]] = json.loads((folder / "recording.json").read_text())["chunks"]
    return folder, chunks


def user_sound(folder: Path) -> Samples:
    """The user audio in the server recording, 16 kHz."""
    parts = []
    for file in sorted((folder / "user_audio").glob("*.wav")):
        samples, rate = soundfile.read(file, dtype="float32")
        assert rate == INPUT_RATE
        parts.append(samples)
    return np.concatenate(parts)


async def shows(page: Page, folder: Path, *, left: str, right: str) -> None:
    """Waits until the video preview has these colours on its sides."""

    async def there() -> bool:
        shot = folder / "picture.png"
        await page.locator(".video-preview video").screenshot(path=shot)
        return tuple(map(colour, left_and_right(Image.open(shot)))) == (left, right)

    await until(there)


def colour(pixel: tuple[int, int, int]) -> str:
    """The name of a colour as the camera captures it, roughly."""
    red, _, blue = pixel
    return "red" if red > 120 > blue else "blue" if blue > 120 > red else "neither"


async def test_the_camera_is_mirrored_flipped_and_turned_off(
    stack: Stack, visitor: Visitor, tmp_path: Path
) -> None:
    film = two_colours(tmp_path / "camera.y4m", left=RED, right=BLUE)
    page = await visitor.open("/omni", camera=film)
    sent = watch_frames(page)
    await page.add_init_script(RECORD_FACING_MODES)
    call = CallPage(page)
    await call.store_settings("/omni")
    await call.show("Settings")
    await page.locator("summary", has_text="Camera").click()
    await page.get_by_role("slider", name="Video detail").press("ArrowRight")
    await call.press("Preview camera")
    await expect(page.locator(".video-preview.mirrored video")).to_be_visible()
    await page.wait_for_function(
        "() => document.querySelector('.video-preview video').videoWidth > 0"
    )
    await shows(page, tmp_path, left="blue", right="red")  # a mirror
    await page.get_by_role("switch", name="Mirror my video").click()
    await expect(page.locator(".video-preview.mirrored")).to_have_count(0)
    await shows(page, tmp_path, left="red", right="blue")

    await call.press("Start call")
    await call.reaches_units(2)
    assert await page.evaluate(TITLE_IS_LIGHT)
    assert not any(b'"audio_chunk"' in frame and b'"max_slice_nums"' in frame for frame in sent)
    await call.show("Settings")
    await page.locator("summary", has_text="Camera").click()
    await page.get_by_role("slider", name="Video detail").press("ArrowRight")
    await until(lambda: _has_pictures_with(sent, b'"max_slice_nums":3'))
    sent.clear()
    await page.get_by_role("button", name="Reset settings").click()
    await until(lambda: _has_pictures_with(sent, b'"max_slice_nums":1'))
    await page.get_by_role("button", name="Undo").click()
    await call.hide()
    await call.press("Flip")
    await page.wait_for_function("() => facing.at(-1) === 'environment'")
    await expect(page.locator(".video-preview video")).to_be_visible()
    await _fits_on_its_side(page)
    await call.press("Camera off")
    await expect(page.locator(".video-preview")).to_have_count(0)
    await call.reaches_units(await call.units() + 3)
    await call.end()
    folder, chunks = await recorded(stack, call)
    assert json.loads((folder / "meta.json").read_text())["config"]["max_slice_nums"] == 2
    assert "user_frame" in chunks[0]
    assert "user_frame" not in chunks[-1]


def _has_pictures_with(sent: list[bytes], field: bytes) -> bool:
    return any(b'"frame_base64_list"' in frame and field in frame for frame in sent)


async def _fits_on_its_side(page: Page) -> None:
    """On a phone in landscape the whole call is visible, also with the model's words and a hint."""
    before = page.viewport_size
    assert before is not None
    for width, height in ((844, 390), (640, 360)):
        await page.set_viewport_size({"width": width, "height": height})
        for part in (".video-preview video", ".stage .title", ".call-control.end"):
            await expect(page.locator(part)).to_be_in_viewport(ratio=1)
        size = await page.wait_for_function(SIZE_OF_A_SPEAKING_CALL)
        assert await size.json_value() == [width, height]
    await page.set_viewport_size(before)


@pytest.mark.extended
async def test_a_video_file_replaces_camera_and_microphone(
    stack: Stack, visitor: Visitor, tmp_path: Path
) -> None:
    speech = spoken(ITALY)
    film = tmp_path / "film.webm"
    film.write_bytes(video(seconds=2.5, size=(320, 240), sound=speech, kind="webm"))
    page = await visitor.open("/omni", speaks=True)
    call = CallPage(page)
    await call.show("Settings")
    await page.get_by_role("radio", name="File").check(force=True)
    await page.locator("#call-file").set_input_files(film)
    await call.press("Start call with file")
    await expect(page.locator(".video-preview video")).to_be_visible()
    await expect(page.get_by_text("The file has ended")).to_be_visible(timeout=60_000)
    await call.end()
    folder, chunks = await recorded(stack, call)
    light = [
        np.asarray(Image.open(folder / chunk["user_frame"]).convert("L")).mean()
        for chunk in chunks[:2]
    ]
    assert light[1] - light[0] > 50, "the video grows lighter"
    audio = user_sound(folder)
    assert np.sqrt(np.mean(np.square(audio[: len(speech)]))) > 0.01


@pytest.mark.extended
async def test_a_sound_card_without_16_khz_and_with_limited_echo_cancellation(
    stack: Stack, visitor: Visitor
) -> None:
    """No 16 kHz context, and an echo canceller that covers only peer connections."""
    seconds = np.arange(INPUT_RATE * 60) / INPUT_RATE
    beeps = 0.3 * np.sin(2 * np.pi * 500 * seconds) * (seconds % 1 < 0.5)
    page = await visitor.open("/audio_duplex", microphone=beeps.astype(np.float32))
    await page.add_init_script(LIMITED_AUDIO)
    call = CallPage(page)
    await call.start("/audio_duplex", forceListen=1, bargeIn=False)
    await call.is_in("active")
    assert await page.evaluate("refused") > 0
    await call.show("Audio")
    await expect(page.get_by_text("your browser's echo canceller can process")).to_be_visible()
    assert await page.evaluate(LISTEN) == pytest.approx(MODEL_HZ, abs=8)
    await call.reaches_units(4)
    await call.end()
    folder, chunks = await recorded(stack, call)
    assert {chunk["user_audio_duration_ms"] for chunk in chunks} == {1000}
    audio = user_sound(folder)
    spectrum = np.abs(np.fft.rfft(audio * np.hanning(len(audio))))
    assert np.argmax(spectrum) * INPUT_RATE / len(audio) == pytest.approx(500, abs=5)
