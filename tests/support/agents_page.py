"""A page with OpenAI's package for browsers, a microphone of the test, and a recorder of the reply."""

import asyncio
import base64
import io
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import av
import numpy as np
from av import AudioResampler
from playwright.async_api import Page

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from support.browser_user import Browsers
from support.page_microphone import encoded
from web_pages import WEB

_BUNDLE = WEB / "node_modules/@openai/agents-realtime/dist/bundle/openai-realtime-agents.umd.js"
_PAGE = """<!doctype html><title>call</title><script src="/agents.js"></script><script>
const { OpenAIRealtimeWebRTC, RealtimeAgent, RealtimeSession } = OpenAIAgentsRealtime;
const context = new AudioContext();
const microphone = context.createMediaStreamDestination();
window.events = [];
window.heard = [];
const record = ({ streams }) => {
  window.recorder = new MediaRecorder(streams[0]);
  recorder.ondataavailable = ({ data }) => heard.push(data);
  recorder.start();
};
window.call = async (url, apiKey) => {
  window.transport = new OpenAIRealtimeWebRTC({
    baseUrl: url,
    mediaStream: microphone.stream,
    changePeerConnection: (connection) => {
      connection.addEventListener("track", record);
      return connection;
    },
  });
  const agent = new RealtimeAgent({ name: "a", instructions: "Answer in one short sentence." });
  window.session = new RealtimeSession(agent, { transport });
  session.on("transport_event", (event) => events.push(event));
  await session.connect({ apiKey });
  return transport.callId;
};
window.speak = (pcm, speed) => {
  const bytes = Uint8Array.from(atob(pcm), (letter) => letter.charCodeAt(0));
  const samples = new Float32Array(bytes.buffer);
  const buffer = new AudioBuffer({ length: samples.length, sampleRate: speed });
  buffer.copyToChannel(samples, 0);
  const source = new AudioBufferSourceNode(context, { buffer });
  source.connect(microphone);
  source.start();
};
window.recorded = async () => {
  const came = new Promise((resolve) => {
    recorder.addEventListener("dataavailable", resolve, { once: true });
  });
  recorder.requestData();
  await came;
  let text = "";
  const bytes = new Uint8Array(await new Blob(heard).arrayBuffer());
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
};
</script>"""


class AgentsPage:
    """The page of one user. `errors`: what it has logged."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    async def call(self, url: str, key: str) -> str:
        """Returns the id of the call."""
        found: str = await self.page.evaluate("([url, key]) => call(url, key)", [url, key])
        return found

    async def speak(self, speech: Samples) -> None:
        await self.page.evaluate("([pcm, rate]) => speak(pcm, rate)", [encoded(speech), INPUT_RATE])

    async def until(self, kind: str) -> dict[str, Any]:
        """The first event of this type."""
        came = "(kind) => events.some(({ type }) => type === kind)"
        await self.page.wait_for_function(came, arg=kind, timeout=90_000)
        event: dict[str, Any] = await self.page.evaluate(
            "(kind) => events.find(({ type }) => type === kind)", kind
        )
        return event

    async def until_silent(self) -> Samples:
        """What was heard at 24 kHz, once its last half second is silent: a browser plays late."""
        async with asyncio.timeout(90):
            while True:
                await asyncio.sleep(0.1)
                sound = await self._heard()
                if np.abs(sound[-OUTPUT_RATE // 2 :]).max() < 0.001:
                    return sound

    async def _heard(self) -> Samples:
        data = base64.b64decode(await self.page.evaluate("recorded()"))
        resampler = AudioResampler(format="flt", layout="mono", rate=OUTPUT_RATE)
        with av.open(io.BytesIO(data)) as file:
            frames = [part for each in file.decode(audio=0) for part in resampler.resample(each)]
        return np.concatenate([frame.to_ndarray()[0] for frame in frames])


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        script = self.path.endswith(".js")
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if script else "text/html")
        self.end_headers()
        self.wfile.write(_BUNDLE.read_bytes() if script else _PAGE.encode())

    def log_message(self, *_: object) -> None: ...


@contextmanager
def page_server() -> Iterator[str]:
    """The origin of the page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@asynccontextmanager
async def agents_page(browsers: Browsers, origin: str) -> AsyncIterator[AgentsPage]:
    page = await (await browsers.shared()).new_page()
    await page.goto(f"{origin}/")
    yield AgentsPage(page)
    await page.close()
