"""`merged_replay.mp4` plays in Chromium with audio and correctly timed frames."""

import base64
from pathlib import Path

import pytest

from antiphon.shared_schemas.states import SessionKind
from support.browser_user import Browsers
from support.timed_conversations import TimedTalk, jpeg, tone

COLOURS = [(200, 30, 20), (20, 190, 30), (20, 30, 200)]

LOOK = """async (source) => {
  const video = document.createElement("video");
  const event = (name) => new Promise((done, failed) => {
    video.addEventListener(name, done, {once: true});
    video.addEventListener("error", () => failed(new Error(video.error.message)), {once: true});
  });
  const known = event("loadeddata");
  video.src = source;
  await known;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  const pen = canvas.getContext("2d");
  const seen = [];
  for (const second of [0.5, 1.5, 2.5]) {
    const there = event("seeked");
    video.currentTime = second;
    await there;
    pen.drawImage(video, 0, 0);
    seen.push([...pen.getImageData(canvas.width / 2, canvas.height / 2, 1, 1).data].slice(0, 3));
  }
  const ended = event("ended");
  video.currentTime = 2.0;
  await video.play();
  await ended;
  return {
    seen, duration: video.duration, size: [canvas.width, canvas.height],
    sound: video.webkitAudioDecodedByteCount,
  };
}"""


async def test_chromium_plays_the_merged_video(browsers: Browsers, tmp_path: Path) -> None:
    talk = TimedTalk.prepared(SessionKind.OMNI_DUPLEX)
    for second, colour in enumerate(COLOURS):
        talk.chunk(1.0 + second, tone(1.0, 300, 16_000), jpeg(321, 241, colour))
    talk.speak(1.5, tone(1.0, 700, 24_000), text="Das ist schön.", end=True)
    movie = (talk.record(tmp_path).folder / "merged_replay.mp4").read_bytes()
    page = await (await browsers.shared()).new_page()
    source = f"data:video/mp4;base64,{base64.b64encode(movie).decode()}"
    found = await page.evaluate(LOOK, source)
    await page.close()
    assert found["duration"] == pytest.approx(3.0, abs=0.1)
    assert found["size"] == [320, 240]
    assert found["sound"] > 0
    for seen, colour in zip(found["seen"], COLOURS, strict=True):
        assert seen == pytest.approx(colour, abs=15)
