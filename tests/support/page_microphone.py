"""A microphone in the page that is silent until the test speaks into it.

The test speaks when it has seen that the page listens. The speech is played inside the page's audio
graph, so a busy machine delays it, but drops none of it. Chromium's fake device does drop audio.
"""

import base64

from playwright.async_api import Page

from antiphon.shared_schemas.audio import INPUT_RATE, Samples

SCRIPT = """
window.microphones = [];
const openMicrophone = (context) => {
  const microphone = new GainNode(context);
  microphones.push(microphone);
  return microphone;
};
AudioContext.prototype.createMediaStreamSource = function () { return openMicrophone(this); };
const recorded = () => {
  const context = new AudioContext();
  const recorded = context.createMediaStreamDestination();
  openMicrophone(context).connect(recorded);
  return recorded.stream;
};
window.MediaRecorder = class extends MediaRecorder {
  constructor(stream, options) {
    super(stream.getVideoTracks().length > 0 ? stream : recorded(), options);
  }
};
window.speak = async (pcm, rate) => {
  const bytes = Uint8Array.from(atob(pcm), (letter) => letter.charCodeAt(0));
  const samples = new Float32Array(bytes.buffer);
  const running = microphones.filter(({ context }) => context.state === "running");
  await Promise.all(running.map((microphone) => {
    const buffer = new AudioBuffer({ length: samples.length, sampleRate: rate });
    buffer.copyToChannel(samples, 0);
    const source = new AudioBufferSourceNode(microphone.context, { buffer });
    source.connect(microphone);
    source.start();
    return new Promise((resolve) => { source.onended = resolve; });
  }));
};"""

IS_OPEN = "() => microphones.some(({ context }) => context.state === 'running')"


async def speak(page: Page, speech: Samples) -> None:
    """Speaks as soon as a microphone is open; returns after the last sample."""
    await page.wait_for_function(IS_OPEN)
    await page.evaluate("([pcm, rate]) => speak(pcm, rate)", [encoded(speech), INPUT_RATE])


def encoded(speech: Samples) -> str:
    """What the page's own `speak` takes, with INPUT_RATE."""
    return base64.b64encode(speech.astype("<f4").tobytes()).decode()
