"""Calls with the simulated engine: queue, pause, barge-in, a lost edge, file input, accessibility."""

import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.async_api import Page, expect

from antiphon.broker.client import open_broker
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.states import SessionKind
from support.browser_user import Visitor, a11y_findings
from support.call_page import CallPage
from support.page_microphone import encoded, speak
from support.ports import free_port
from support.raw_client import open_wire
from support.shared_stack import TALKATIVE
from support.stack import Stack, new_stack, until
from support.synthetic_speech import ITALY, silence, spoken
from support.tcp_proxy import tcp_proxy
from support.turn_page import watch_frames

BLOCK_SAMPLES = INPUT_RATE // 50

BARGE_IN_S = 0.25
"""A quarter of a unit: only the page can be so fast. The server answers once per unit."""

OBSERVE_BARGE_IN = """
window.user = { blocks: [], overModel: [] };
window.model = { blocks: [], startS: Infinity };
window.cut = null;
const isLoud = (block) =>
  10 * Math.log10(block.reduce((sum, sample) => sum + sample * sample, 0) / block.length) > -45;
window.AudioWorkletNode = class extends AudioWorkletNode {
  constructor(context, name, options) {
    super(context, name, options);
    const { rate } = options.processorOptions;
    this.port.addEventListener("message", ({ data: [block] }) => {
      const side = rate === 16000 ? user : model;
      side.blocks.push(isLoud(block));
      if (side === user) user.overModel.push(model.blocks.slice(-10).includes(true));
      if (side === user) return;
      model.startS = Math.min(model.startS, context.currentTime - model.blocks.length / 50);
    });
  }
};
window.onCut = () => {};
window.ranDry = (from) => {
  const begun = user.blocks.indexOf(true, from);
  const heard = cut ? cut.userBlocks : user.blocks.length;
  return begun >= 0 && user.overModel.slice(begun, Math.min(begun + 13, heard)).includes(false);
};
const stop = AudioBufferSourceNode.prototype.stop;
AudioBufferSourceNode.prototype.stop = function (when) {
  if (!window.cut) setTimeout(onCut);
  window.cut ??= {
    userBlocks: user.blocks.length,
    modelBlocks: (this.context.currentTime - model.startS) * 50,
  };
  return stop.call(this, when);
};
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (data) {
  window.socket = this;
  return send.call(this, data);
};"""
"""`user` and `model`: which of the blocks of 20 ms that the page has processed are audible. `cut`: how
many blocks the page had processed and played when it stopped the model for the first time. `onCut` is
called then. `ranDry`: whether the model was silent at the first sound of the user after `from` blocks,
because its next unit was late: then there is nothing to stop."""

MODEL_IS_AUDIBLE = "() => model.blocks.slice(-10).filter(Boolean).length === 10"
SILERO_IS_LOADED = """() => performance.getEntriesByType("resource")
  .some(({ name, responseEnd }) => name.includes("silero-v6") && responseEnd > 0)"""
MODEL_GOES_ON = """() => {
  const after = cut ? model.blocks.slice(Math.floor(cut.modelBlocks) + 5) : [];
  return after.includes(false) && after.slice(-10).filter(Boolean).length === 10;
}"""
SILENCE_FOLLOWS = "() => cut && model.blocks.length > cut.modelBlocks + 50"

ASK_WITH_THE_FIRST_CHUNK = """
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (data) {
  const { question } = window;
  if (question && typeof data !== "string") {
    window.question = undefined;
    void speak(question, 16000);
  }
  return send.call(this, data);
};
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (when) {
  if (this.context.sampleRate === 24000) window.answerAt ??= user.blocks.length;
  return start.call(this, when);
};"""
"""Speaks `question` as soon as the page sends audio. `answerAt`: how many of the user's blocks the page
had processed when it played something for the first time."""

UNCERTAIN_NETWORK = """
export const load = async () => {
  window.networkIsLoaded = true;
  return { step: (samples) => (samples.some((sample) => Math.abs(sample) > 0.05) ? 0.9 : 0) };
};"""
"""In place of Silero, so that each sound is a voice and none is certain to be speech."""

CLEARS_THROAT = """() => {
  window.states = [];
  window.cut = null;
  window.onCut = () => {
    window.onCut = () => {};
    THEN;
  };
  return user.blocks.length;
}"""

PRESS = """
window.press = (name) =>
  [...document.querySelectorAll("button")].find((one) => one.textContent.trim() === name).click();"""

RECORD_STATES = """() => {
  window.states = [];
  const title = document.querySelector(".stage .title");
  new MutationObserver(() => {
    const text = title.textContent.trim();
    if (text !== states.at(-1)) states.push(text);
  }).observe(title, { childList: true, characterData: true, subtree: true });
}"""
"""`states`: all states of a call."""

RECORD_CHIMES = """
window.chimes = [];
const start = OscillatorNode.prototype.start;
OscillatorNode.prototype.start = function (...when) {
  chimes.push(Math.round(this.frequency.value));
  return start.apply(this, when);
};"""
"""`chimes`: frequencies of all chimes, Hz."""

E5, G5 = 659, 784
"""The note for a better position, and the highest note for the own turn."""


async def test_speech_silences_the_model_and_a_cough_does_not(
    visitor: Visitor, tmp_path: Path
) -> None:
    """Counts audio, not time: a busy machine delays the page, but also what the page is given."""
    page = await visitor.open("/audio_duplex", speaks=True)
    await page.add_init_script(OBSERVE_BARGE_IN)
    call = CallPage(page)
    await call.start("/audio_duplex", forceListen=1, delayMs=800)
    await call.show("Transcript")
    await page.wait_for_function(SILERO_IS_LOADED)
    await page.wait_for_function(MODEL_IS_AUDIBLE)
    await speak(page, cough())
    await _hears_blocks(page, 50)
    assert await page.evaluate("cut") is None
    spoken_from = await _interrupts(page)
    await expect(page.get_by_text("interrupted").first).to_be_visible()
    user, model, cut = [await page.evaluate(name) for name in ("user", "model", "cut")]
    await call.end()
    figures = page.locator(".ended-screen dl")
    await expect(figures).to_contain_text(re.compile(r"Interruptions\s*[1-9]\s*silent after"))
    await expect(page.locator(".words .line.model .cut").first).to_be_visible()
    begun = user["blocks"].index(True, spoken_from)
    heard_s = (cut["userBlocks"] - begun) * 0.02
    after = model["blocks"][int(cut["modelBlocks"]) :]
    played_s = next(i for i in range(len(after)) if not any(after[i : i + 25])) * 0.02
    assert heard_s + played_s <= BARGE_IN_S
    audio = await call.audio(tmp_path)
    assert audio.silent_after_s(audio.loud(audio.user).index(True) * 0.02) > 0


@pytest.mark.extended
async def test_a_voice_that_is_no_speech_pauses_the_answer(
    visitor: Visitor, tmp_path: Path
) -> None:
    """What the user does in the pause counts as well."""
    page = await visitor.open("/audio_duplex", speaks=True)
    await page.add_init_script(OBSERVE_BARGE_IN + PRESS)
    network = {"content_type": "text/javascript", "body": UNCERTAIN_NETWORK}
    await page.route("**/silero-network-*.js", lambda route: route.fulfill(**network))
    sent = watch_frames(page)
    call = CallPage(page)
    await call.start("/audio_duplex", forceListen=1, delayMs=800)
    await page.wait_for_function("() => window.networkIsLoaded")
    await page.wait_for_function(MODEL_IS_AUDIBLE)
    await page.evaluate(RECORD_STATES)

    await _clears_throat(page)
    await page.wait_for_function(MODEL_GOES_ON)
    assert await page.evaluate("states") == ["Hearing you", "Speaking"]
    await _clears_throat(page, "press('Mute')")
    await page.wait_for_function(MODEL_GOES_ON)
    await call.press("Mute")
    await _clears_throat(page, "socket.close()")
    await page.wait_for_function(MODEL_GOES_ON)
    await _clears_throat(page, "press('Pause')")
    await call.is_in("paused")
    played = await page.evaluate("model.blocks.length")
    await call.press("Resume")
    await page.wait_for_function(f"() => model.blocks.length > {played} + 50")
    await page.wait_for_function(MODEL_IS_AUDIBLE)
    await call.show("Transcript")
    await expect(page.get_by_text("interrupted")).to_have_count(0)
    assert not any(b'"force_listen":true' in frame for frame in sent)

    await _clears_throat(page, "press('Interrupt')")
    await expect(page.get_by_text("interrupted").first).to_be_visible()
    await until(lambda: any(b'"force_listen":true' in frame for frame in sent))
    await _clears_throat(page, "press('End call')")
    await call.is_in("ended")
    audio = await call.audio(tmp_path)
    assert len(audio.without_pauses(audio.model)) < len(audio.model)


async def _interrupts(page: Page) -> int:
    """Asks while the model is audible. Returns how many of the user's blocks came before."""
    while True:
        await page.wait_for_function(MODEL_IS_AUDIBLE)
        spoken_from = await page.evaluate("() => { cut = null; return user.blocks.length; }")
        await speak(page, spoken(ITALY, lead_s=0.0))
        await page.wait_for_function(SILENCE_FOLLOWS)
        if not await page.evaluate("ranDry", spoken_from):
            return int(spoken_from)


async def _clears_throat(page: Page, then: str = "") -> None:
    """While the model is audible. `then` runs in the pause."""
    sound = encoded(cough()[: INPUT_RATE // 4])
    while True:
        await page.wait_for_function(MODEL_IS_AUDIBLE)
        heard = await page.evaluate(CLEARS_THROAT.replace("THEN", then))
        await page.evaluate(
            "([pcm, rate]) => void speak(pcm, rate)", [sound, INPUT_RATE]
        )  # may not end
        await page.wait_for_function("(from) => cut || ranDry(from)", arg=heard)
        if await page.evaluate("cut !== null"):
            return


def cough() -> Samples:
    """Half a second of noise that fades. It is loud enough to count as speech by its level."""
    decay = np.exp(-np.arange(INPUT_RATE // 2) / (0.15 * INPUT_RATE))
    noise = np.random.default_rng(0).normal(scale=0.3, size=len(decay))
    return (noise * decay).astype(np.float32)


async def _hears_blocks(page: Page, more: int) -> None:
    """Waits for more blocks from the microphone."""
    before = int(await page.evaluate("user.blocks.length"))
    await page.wait_for_function("(wanted) => user.blocks.length >= wanted", arg=before + more)


@pytest.mark.extended
async def test_an_answer_waits_until_the_user_is_silent(visitor: Visitor) -> None:
    """The user speaks for three seconds. The engine begins to answer after two.

    The server drops what is said over the user. The page plays all of what follows.
    """
    page = await visitor.open("/audio_duplex", speaks=True)
    await page.add_init_script(OBSERVE_BARGE_IN)
    await page.add_init_script(ASK_WITH_THE_FIRST_CHUNK)
    call = CallPage(page)
    await call.store_settings("/audio_duplex", forceListen=2)
    question = np.tile(spoken(ITALY, lead_s=0.0), 2)
    await page.evaluate("(pcm) => { window.question = pcm; }", encoded(question))
    await call.press("Start call")
    await page.wait_for_function("() => window.answerAt !== undefined")
    heard = [bool(loud) for loud in await page.evaluate("user.blocks.slice(0, answerAt)")]
    assert sum(heard) > 0.7 * len(question) / BLOCK_SAMPLES
    assert not any(heard[-10:])
    await call.show("Transcript")
    answer = page.locator("an-transcript .line.model p").first
    await expect(answer).to_contain_text(re.compile(r"(unit \d+\s*){2}"))
    units = [int(number) for number in re.findall(r"unit (\d+)", await answer.inner_text())]
    assert units == list(range(units[0], units[0] + len(units)))
    await expect(page.locator("an-transcript .cut")).to_have_count(0)
    await call.end()
    assert not any((await page.evaluate("user.blocks"))[len(heard) :])


async def test_the_queue_panel(stack: Stack, visitor: Visitor) -> None:
    """Another client has the second slot. Calls are expected to be longer than this test."""
    async with open_broker(stack.settings) as broker:
        await broker._redis.call("DEL", broker.keys.eta)
        await broker.eta.configure({SessionKind.AUDIO_DUPLEX: 3000.0})
    async with open_wire(stack.ws_url, "adx_holds") as holds:
        await holds.begin()
        await _queues_two_callers(stack, visitor)
        await holds.send(type="stop")
        await holds.until("stopped")


async def _queues_two_callers(stack: Stack, visitor: Visitor) -> None:
    one, two = [CallPage(await visitor.open("/audio_duplex")) for _ in range(2)]
    await two.page.add_init_script(RECORD_CHIMES)
    await one.start("/audio_duplex")
    await one.is_in("active")
    async with open_wire(stack.ws_url, "adx_before") as before:
        await before.expect("queued")
        await two.start("/audio_duplex")
        await two.is_in("queued")
        line = two.page.get_by_role("region", name="Waiting in queue")
        await expect(line).to_contain_text("Position 2 of 2")
        assert await two.page.evaluate("chimes") == []
    await expect(line).to_contain_text("You are next")
    await expect(line).to_contain_text("Position 1 of 1")
    await two.page.wait_for_function(f"() => chimes.includes({E5})")
    await expect(line).to_contain_text(re.compile(r"about [\d:]+"))
    left = re.search(r"about [\d:]+", await line.inner_text())
    assert left is not None
    await expect(line).not_to_contain_text(left[0])  # the estimate counts down
    assert await a11y_findings(two.page) == []
    await two.press("Leave queue")
    await two.is_in("idle")
    await two.press("Start call")
    await two.is_in("queued")
    assert G5 not in await two.page.evaluate("chimes")
    await one.end()
    await two.is_in("active")
    await two.page.wait_for_function(f"() => chimes.includes({G5})")
    await two.end()


@pytest.mark.extended
async def test_pause_and_keyboard_shortcuts(visitor: Visitor) -> None:
    page = await visitor.open("/audio_duplex")
    call = CallPage(page)
    await call.start("/audio_duplex", record=False)
    await call.is_in("active")
    await expect(page.get_by_text("Not recorded")).to_be_visible()
    await page.locator("body").press("Space")
    await expect(page.get_by_role("button", name="Mute", pressed=True)).to_be_visible()
    await page.locator("body").press("Space")
    await expect(page.get_by_role("button", name="Mute", pressed=False)).to_be_visible()
    await call.reaches_units(2)
    await page.locator("body").press("p")
    await call.is_in("paused")
    await expect(page.get_by_text("The call ends in")).to_contain_text(re.compile(r"0:\d\d"))
    assert await a11y_findings(page) == []
    before = await _rests_at(call)
    await page.locator("body").press("p")
    await call.reaches_units(before + 2)
    await expect(page.locator(".stage .title")).to_have_text("Speaking")
    await page.locator("body").press("l")
    await call.show("Transcript")
    await expect(page.get_by_text("interrupted").first).to_be_visible()
    await page.locator("body").press("Shift+X")
    await call.is_in("ended")
    await expect(page.get_by_text("The server did not record")).to_be_visible()


async def _rests_at(call: CallPage) -> int:
    """The number of units after which none follows for two seconds."""
    for _ in range(5):  # results may still be in transit
        before = await call.units()
        await call.page.wait_for_timeout(2000)
        if await call.units() == before:
            return before
    raise AssertionError("a paused call still receives results")


async def test_a_call_resumes_after_its_edge_is_killed(
    patient_stack: Stack, visitor: Visitor
) -> None:
    port = free_port()
    edge = patient_stack.edge(port=port)
    async with tcp_proxy(port) as proxy:
        visitor.url = f"http://{proxy.address}"
        page = await visitor.open("/omni")
        call = CallPage(page)
        await call.start("/omni")
        await call.reaches_units(2)
        proxy.target = None
        edge.kill()
        await expect(page.get_by_text("Connection lost. Reconnecting…")).to_be_visible()
        await expect(page.locator(".stage .title")).to_have_text("Reconnecting…")
        assert await a11y_findings(page, part="an-connection-banner") == []
        proxy.target = patient_stack.edge_port
        await expect(page.get_by_text("Reconnected")).to_be_visible(timeout=60_000)
        await call.reaches_units(await call.units() + 2)
        await call.end()
    visitor.page_errors = [text for text in visitor.page_errors if "WebSocket" not in text]


@pytest.mark.extended
async def test_a_call_resumes_after_a_stall_of_its_attempts(
    patient_stack: Stack, visitor: Visitor
) -> None:
    """Several attempts arrive together when the network forwards again."""
    async with tcp_proxy(patient_stack.edge_port) as proxy:
        visitor.url = f"http://{proxy.address}"
        page = await visitor.open("/audio_duplex")
        call = CallPage(page)
        await call.start("/audio_duplex")
        await call.reaches_units(2)
        before = proxy.accepted
        proxy.freeze()
        proxy.reset()
        await expect(page.get_by_text("Connection lost. Reconnecting…")).to_be_visible()
        await until(lambda: proxy.accepted >= before + 2)
        proxy.thaw()
        await expect(page.get_by_text("Reconnected")).to_be_visible(timeout=60_000)
        await call.reaches_units(await call.units() + 2)
        await call.end()
    visitor.page_errors = [text for text in visitor.page_errors if "WebSocket" not in text]


@pytest.mark.extended
async def test_a_call_waits_for_another_worker(visitor: Visitor, tmp_path: Path) -> None:
    """Its only worker is killed: the call stays, and shows its place until it is served again."""
    with new_stack(tmp_path) as own:
        own.edge()
        worker = own.worker(engine_options=TALKATIVE)
        visitor.url = own.http_url
        page = await visitor.open("/audio_duplex")
        call = CallPage(page)
        await call.start("/audio_duplex")
        await call.reaches_units(2)
        worker.kill()
        line = page.get_by_role("region", name="Waiting in queue")
        await expect(line).to_contain_text("Position 1 of 1")
        await expect(page.get_by_role("button", name="End call")).to_be_visible()
        assert await a11y_findings(page) == []
        own.worker(engine_options=TALKATIVE)
        await expect(line).to_be_hidden()
        await call.reaches_units(await call.units() + 2)
        await call.end()


@pytest.mark.extended
async def test_a_file_replaces_the_microphone(visitor: Visitor, tmp_path: Path) -> None:
    question = np.concatenate([silence(0.5), spoken(ITALY, lead_s=0.0), silence(0.5)])
    soundfile.write(tmp_path / "question.wav", question, INPUT_RATE)
    page = await visitor.open("/audio_duplex", speaks=True)
    call = CallPage(page)
    await call.show("Settings")
    await page.get_by_role("radio", name="File").check(force=True)
    await page.locator("#call-file").set_input_files(tmp_path / "question.wav")
    await call.press("Start call with file")
    await expect(page.get_by_text("The file has ended")).to_be_visible(timeout=60_000)
    await call.press("Switch to microphone")
    await call.reaches_units(4)
    await call.end()
    audio = await call.audio(tmp_path)
    loud = audio.loud(audio.without_pauses(audio.user))
    said_s = (len(loud) - loud[::-1].index(True) - loud.index(True)) * 0.02
    assert said_s == pytest.approx(len(question) / INPUT_RATE - 1.0, abs=0.3)


@pytest.mark.extended
@pytest.mark.parametrize(("phone", "dark"), [(False, True), (True, False)])
async def test_the_panels_are_accessible(visitor: Visitor, phone: bool, dark: bool) -> None:
    page = await visitor.open("/omni", phone=phone, dark=dark, locale="zh-CN")
    await expect(page.get_by_role("heading", level=1)).to_have_text("边听边说的 AI，自然对话。")
    chosen = page.get_by_role("navigation", name="模式").locator("[aria-current]")
    await expect(chosen).to_have_text("视频")
    for name in ("转写", "开发者", "设置"):
        await page.get_by_role("button", name=name, exact=True).click()
        panel = page.get_by_role("complementary", name=name)
        await expect(panel).to_be_focused()
        for tab in await panel.get_by_role("tab").all():
            await tab.click()
            assert await a11y_findings(page, part=".call-panel") == []
        assert await a11y_findings(page, part=".call-panel") == []
        if name != "设置":
            await page.keyboard.press("Escape")
            await expect(page.get_by_role("button", name=name, exact=True)).to_be_focused()
    for fold in await page.locator(".call-panel details > summary").all():
        if await fold.is_visible():
            await fold.click()
    assert await a11y_findings(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
