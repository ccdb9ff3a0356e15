"""The half-duplex and chat pages with the simulated engine: interruptions, voices, files, history."""

import base64
import json
import re

import numpy as np
import pytest
from playwright.async_api import Page, expect

from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.wire import split_frame
from support.browser_user import Visitor, a11y_findings, press_key
from support.page_microphone import speak
from support.speech import transcribe, words
from support.stack import Stack, until
from support.synthetic_speech import GERMANY, ITALY, spoken
from support.tcp_proxy import TcpProxy, tcp_proxy
from support.turn_page import (
    accept_dialogs,
    at_24_khz,
    claim,
    greet_at_length,
    positions,
    sound_of,
    watch_frames,
    watch_position,
    wav_of,
)

MARKDOWN = """## Cities
**“罗马”**是 `x < 1`, 3~5天，10~15
*next* line

| City | River |
|---|--:|
| Rome | Tiber |

1. [map](https://example.org/a?b=1&c=2)
2. [bad](javascript:alert(1)) ![view](https://example.org/pixel.png)

```py
a = "<b>"
```
<img src="/x" onerror="alert(1)"><script>alert(1)</script>

<div><b>raw</b></div>"""

_LINK = 'target="_blank" rel="noopener noreferrer"'
SAFE_HTML = (
    "<h4>Cities</h4><p><strong>“罗马”</strong>是 <code>x &lt; 1</code>, 3~5天，10~15<br>"
    '<em>next</em> line</p><div class="table-box" tabindex="0"><table><thead><tr><th>City</th>'
    '<th align="right">River</th></tr></thead><tbody><tr><td>Rome</td><td align="right">Tiber</td></tr>'
    f'</tbody></table></div><ol><li><a href="https://example.org/a?b=1&amp;c=2" {_LINK}>map</a></li>'
    f'<li><a>bad</a> <a href="https://example.org/pixel.png" {_LINK}>view</a></li></ol>'
    '<pre tabindex="0"><code>a = "&lt;b&gt;"</code></pre>'
    '<p>&lt;img src="/x" onerror="alert(1)"&gt;&lt;script&gt;alert(1)&lt;/script&gt;</p>'
    "<p>&lt;div&gt;&lt;b&gt;raw&lt;/b&gt;&lt;/div&gt;</p>"
)


WINDOWS = ((1280, 860), (844, 390), (320, 568))

NEWEST_IS_SHOWN = """() => {
  const list = document.querySelector(".turns");
  return list.scrollTop + list.clientHeight >= list.scrollHeight - 2;
}"""


@pytest.mark.extended
async def test_the_keyboard_keeps_the_focus(visitor: Visitor) -> None:
    """Also if the button that is pressed disappears, or waits for the answer."""
    page = await visitor.open("/half_duplex", speaks=True)
    await greet_at_length(page)
    await press_key(page.get_by_role("button", name="Start conversation"))
    await expect(page.get_by_role("button", name="Mute")).to_be_focused()
    await expect(page.locator("an-header")).to_be_hidden()
    stop_answer = page.get_by_role("button", name="Stop answer")
    await press_key(stop_answer)
    await expect(page.get_by_role("status").filter(has_text="Listening")).to_be_visible()
    await expect(stop_answer).to_be_disabled()
    await expect(stop_answer).to_be_focused()
    await press_key(page.get_by_role("button", name="End conversation", exact=True))
    await expect(page.get_by_role("button", name="Start new conversation")).to_be_focused()
    await expect(page.locator("an-header")).to_be_visible()

    page = await visitor.open("/turnbased")
    await claim(page, clones_voices=True)
    area = page.get_by_label("Your message")
    await press_key(page.locator(".welcome button").first)
    await expect(area).to_be_focused()
    answers = page.locator("an-answer")
    for again in (False, True):
        if again:
            await press_key(answers.get_by_role("button", name="Try again"))
            await expect(area).to_be_focused()
        await expect(answers.locator(".message-content[aria-busy=true]")).not_to_be_empty()
        await press_key(page.get_by_role("button", name="Stop generating"))
        await expect(area).to_be_focused()
    await press_key(answers.get_by_role("button", name="Edit"))
    await expect(answers.get_by_label("Edit answer")).to_be_focused()
    await press_key(answers.get_by_role("button", name="Cancel"))
    await expect(area).to_be_focused()
    await press_key(page.locator("an-question").get_by_role("button", name="Delete"))
    await expect(area).to_be_focused()
    await press_key(page.get_by_role("button", name="Undo"))
    await expect(area).to_be_focused()
    await press_key(answers.get_by_role("button", name="Delete"))
    await expect(area).to_be_focused()

    await press_key(page.locator("summary", has_text="Instructions"))
    first = page.locator("an-part-list li").first
    await press_key(first.get_by_role("button", name="Move down"))
    await expect(page.get_by_role("button", name="Move down: Text 2")).to_be_focused()
    await press_key(first.get_by_role("button", name="Remove"))
    await expect(first.get_by_role("button", name="Move up")).to_be_focused()


async def test_a_half_duplex_conversation_fills_the_window(
    patient_stack: Stack, visitor: Visitor
) -> None:
    """Also while it reconnects, and then the controls are where they were."""
    async with tcp_proxy(patient_stack.edge_port) as proxy:
        visitor.url = f"http://{proxy.address}"
        page = await visitor.open("/half_duplex", speaks=True)
        await _fills_the_window(page, proxy)
    visitor.page_errors = [text for text in visitor.page_errors if "WebSocket" not in text]


async def _fills_the_window(page: Page, proxy: TcpProxy) -> None:
    settings = page.get_by_role("complementary", name="Settings")
    await expect(settings).to_be_visible()
    await page.get_by_role("button", name="Start conversation").click()
    turns = page.get_by_role("region", name="Turns")
    end = page.get_by_role("button", name="End conversation", exact=True)
    await expect(turns).to_contain_text("Hello!")
    await expect(settings).to_be_hidden()
    await expect(page.get_by_text("Recorded", exact=True)).to_be_visible()
    places = []
    for width, height in WINDOWS:
        await page.set_viewport_size({"width": width, "height": height})
        for part in (turns, end):
            await expect(part).to_be_in_viewport(ratio=1)
        places.append(await end.bounding_box())
        assert await page.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0
        await press_key(page.get_by_role("button", name="Settings"))
        await expect(settings).to_be_visible()
        await expect(settings.get_by_role("button", name="Help")).to_be_visible()
        assert await a11y_findings(page) == []
        await page.keyboard.press("Escape")
        await expect(settings).to_be_hidden()
        await expect(page.get_by_role("button", name="Settings")).to_be_focused()
    target, proxy.target = proxy.target, None
    proxy.reset()
    for place, (width, height) in zip(places, WINDOWS, strict=True):
        await page.set_viewport_size({"width": width, "height": height})
        for part in (page.get_by_text("Connection lost. Reconnecting…"), end):
            await expect(part).to_be_in_viewport(ratio=1)
        await expect(turns).to_be_in_viewport(ratio=0.5)
        assert await end.bounding_box() == place
    proxy.target = target
    await expect(page.get_by_text("Connection lost")).to_have_count(0)
    conversations = page.get_by_role("button", name="Your conversations")
    await expect(conversations).to_be_hidden()
    await end.click()
    await expect(page.get_by_role("button", name="Settings")).to_be_in_viewport(ratio=1)
    await conversations.click()
    await expect(page.get_by_role("dialog", name="Your conversations")).to_contain_text(
        "Take turns"
    )


@pytest.mark.extended
@pytest.mark.parametrize("path", ["/turnbased", "/half_duplex"])
async def test_settings_are_reset_and_restored(visitor: Visitor, path: str) -> None:
    page = await visitor.open(path)
    await page.locator("summary", has_text="Answers").click()
    penalty = page.get_by_role("slider", name="Length penalty")
    balanced = page.get_by_role("radio", name="Balanced")
    reset = page.get_by_role("button", name="Reset settings")
    await expect(balanced).to_be_checked()
    await expect(reset).to_be_disabled()
    await page.get_by_text("Detailed", exact=True).click()
    await expect(penalty).to_have_value("1.4")
    await penalty.press("Home")
    await expect(penalty).to_have_value("0.5")
    await expect(page.locator("input[name=length]:checked")).to_have_count(0)
    await press_key(reset)
    await expect(balanced).to_be_checked()
    await expect(reset).to_be_focused()
    await page.get_by_role("button", name="Undo").click()
    await expect(penalty).to_have_value("0.5")


# Half-duplex


async def test_stopping_the_greeting_and_an_answer_and_the_idle_countdown(visitor: Visitor) -> None:
    page = await visitor.open("/half_duplex", speaks=True, phone=True, dark=True)
    state = page.get_by_role("region", name="Conversation").get_by_role("status")
    await greet_at_length(page)
    await page.get_by_role("button", name="Start conversation").click()
    await watch_position(page, ".stage.running .end")
    turn = page.locator("an-half-duplex-turn").last
    await expect(turn).to_contain_text("Hello!")
    await page.get_by_role("button", name="Stop answer").click(timeout=60_000)
    await expect(turn).to_contain_text("stopped")
    example = page.get_by_text("For example:")
    await expect(example).to_be_visible()
    assert await example.evaluate("(text) => parseFloat(getComputedStyle(text).paddingLeft)") > 8
    await expect(state).to_have_text("Listening")
    await speak(page, spoken(ITALY, lead_s=1.0))
    await expect(page.locator("an-half-duplex-turn")).to_have_count(2, timeout=60_000)
    await page.get_by_role("button", name="Stop answer").click(timeout=60_000)
    await expect(turn).to_contain_text(re.compile("stopped|No answer"))
    await expect(state).to_have_text("Listening")
    await expect(page.get_by_role("timer")).to_have_count(0)
    await page.get_by_role("button", name="Mute").click()
    await expect(page.get_by_role("timer")).to_have_text(re.compile(r"Ends in 2:\d\d"))
    assert len(await positions(page)) == 1, "End moves"
    assert await a11y_findings(page) == []
    await page.get_by_role("button", name="End conversation", exact=True).click()
    await expect(state).to_have_text("Conversation ended")
    await expect(page.get_by_role("button", name="Copy transcript")).to_be_visible()
    for action in (
        page.get_by_role("link", name="Open", exact=True),
        page.get_by_role("button", name="Share"),
    ):
        await expect(action).to_be_in_viewport(ratio=1)
    await page.wait_for_function(NEWEST_IS_SHOWN)


@pytest.mark.extended
@pytest.mark.speech
async def test_voices_are_uploaded_recorded_played_used_and_deleted(visitor: Visitor) -> None:
    """One voice as reference voice, another as output voice."""
    page = await visitor.open("/half_duplex", speaks=True)
    await claim(page, clones_voices=True)
    sent = watch_frames(page)
    await page.locator("summary", has_text="Instructions").click()
    sound = page.locator("an-part-list .sound")
    await expect(sound).to_contain_text("english.wav")  # now nothing moves below the pointer
    await page.locator("summary", has_text="Voice").click()
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
    await page.locator("summary", has_text="Voice").click()
    await expect(sound).to_contain_text("Ada")
    await page.get_by_role("button", name="Add voice").click()
    await dialog.get_by_role("button", name="Record").click()
    await expect(dialog.get_by_role("timer")).to_be_visible()
    await speak(page, spoken(GERMANY))
    await dialog.get_by_role("button", name="Stop recording").click()
    await dialog.get_by_label("Name").fill(" ")
    await expect(dialog.get_by_role("button", name="Save")).to_be_disabled()
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
    accept_dialogs(page)
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


@pytest.mark.extended
async def test_an_unusable_file_is_named_and_another_is_sent(visitor: Visitor) -> None:
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
    assert await a11y_findings(page) == []
    await page.get_by_role("button", name="发送").click()
    await expect(page.locator("an-answer .message-content")).not_to_be_empty(timeout=60_000)


@pytest.mark.extended
@pytest.mark.speech
async def test_space_records_a_question_while_it_is_held(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased", speaks=True)
    recorder, players = (
        page.locator("an-audio-recorder"),
        page.locator("an-composer an-audio-player"),
    )
    area = page.get_by_label("Your message")
    await area.fill("Not")
    await area.press("End")
    await page.keyboard.press("Space")
    await expect(area).to_have_value("Not ")
    await expect(recorder).to_have_count(0)
    await page.get_by_role("button", name="Turn off spoken answers").focus()
    await page.keyboard.press("Space")
    await expect(page.get_by_role("button", name="Turn on spoken answers")).to_be_focused()
    await expect(recorder).to_have_count(0)
    await area.focus()
    await area.evaluate("(area) => area.blur()")
    await page.keyboard.down("Space")
    await page.keyboard.down("Space")  # the key repeats
    await expect(recorder.get_by_text("Release to attach")).to_be_visible()
    assert await a11y_findings(page) == []
    await speak(page, spoken(ITALY))
    await page.keyboard.up("Space")
    recorded = await sound_of(players, INPUT_RATE)
    assert "capital" in transcribe(recorded).lower()
    await expect(area).to_be_focused()
    await expect(area).to_have_value("Not ")
    await area.evaluate("(area) => area.blur()")
    await page.keyboard.down("Space")
    await page.evaluate("dispatchEvent(new Event('blur'))")  # another window is used
    await expect(recorder).to_have_count(0)
    await page.keyboard.up("Space")


async def test_a_question_during_an_answer_is_sent_after_it(visitor: Visitor) -> None:
    page = await visitor.open("/turnbased")
    await page.get_by_role("button", name="Turn off spoken answers").click()
    area = page.get_by_label("Your message")
    await area.fill("Write a very long story about a lighthouse and a storm.")
    await area.press("Enter")
    answers = page.locator("an-answer")
    await expect(answers.locator(".message-content")).to_contain_text(re.compile(r"\w+ \w+ \w+"))
    await area.fill("And a short one?")
    await area.press("Enter")
    await expect(
        page.get_by_role("status").filter(has_text="Sent after the answer")
    ).to_be_visible()
    assert await a11y_findings(page) == []
    await page.get_by_role("button", name="Stop generating").click()
    await expect(answers).to_have_count(2)
    await expect(area).to_have_value("")
    await page.get_by_role("button", name="Stop generating").click()


async def test_an_answer_is_stopped_regenerated_and_deleted(visitor: Visitor) -> None:
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
    await answers.get_by_role("button", name="Edit").click()
    save = answers.get_by_role("button", name="Save")
    await expect(save).to_be_disabled()
    await answers.get_by_label("Edit answer").fill(" ")
    await expect(save).to_be_disabled()
    await answers.get_by_label("Edit answer").fill(MARKDOWN)
    await save.click()
    prose = answers.locator(".prose")
    await expect(prose.get_by_role("row")).to_have_text(["City River", "Rome Tiber"])
    assert re.sub(r"\s*<!--.*?-->\s*|\n", "", await prose.inner_html()) == SAFE_HTML
    assert await a11y_findings(page) == []
    await page.get_by_role("button", name="New chat").click()
    await expect(page.get_by_role("heading", name="How can I help?")).to_be_visible()
