"""The admin page: live view and operator actions."""

import asyncio
import base64
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import httpx
import numpy as np
import pytest
from playwright.async_api import Locator, Page, expect

from support.browser_user import Visitor, a11y_findings, press_key
from support.ports import free_port
from support.raw_client import open_wire
from support.shared_stack import running_stack
from support.stack import Stack
from support.synthetic_speech import ITALY, spoken
from support.turn_page import accept_dialogs, wav_of

Row = dict[str, Any]
PATIENCE_S = 60
TOKEN = "a-token-for-the-admin"
PARTS = 5


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One slot. The last test changes the settings and drains the worker."""
    with running_stack(tmp_path_factory.mktemp("admin"), "simulated", slots=1) as own:
        yield own


async def test_nothing_is_claimed_before_the_first_update(visitor: Visitor) -> None:
    page = await visitor.open("/admin")
    await expect(page.get_by_text("Live").first).to_be_attached()
    await page.route("**/api/admin/live", lambda route: route.abort())
    await page.reload()
    await expect(page.get_by_role("status").filter(has_text="Reconnecting")).to_be_visible()
    await expect(page.locator(".spinner")).to_be_visible()
    await expect(page.get_by_text("No worker is running")).to_have_count(0)
    await page.get_by_role("link", name="Settings").click()
    await expect(page.get_by_label("Voice call, seconds")).to_be_visible()
    visitor.page_errors = [text for text in visitor.page_errors if "ERR_FAILED" not in text]


async def test_a_queued_client_is_shown_and_removed(stack: Stack, visitor: Visitor) -> None:
    page = await visitor.open("/admin")
    status = page.locator(".page-head").get_by_role("status")
    await expect(status).to_have_text("Live")
    sessions = page.get_by_role("region", name="Active sessions")
    queue = page.get_by_role("region", name="Queue")

    async with open_wire(stack.ws_url, "adx_talks") as talks:
        await talks.begin()
        async with open_wire(stack.ws_url, "omni_waits") as waits:
            await waits.expect("queued")
            await expect(sessions.get_by_role("row")).to_contain_text(["State", "Active"])
            await expect(page.get_by_text("1 of 1 slots in use")).to_be_visible()
            await talks.send_second()
            await talks.expect("result")
            latency = sessions.get_by_role("img", name=re.compile("Newest latency"))
            await expect(latency).to_be_visible()

            await queue.get_by_role("button", name="Remove omni_waits").click()
            dialog = page.get_by_role("dialog", name="Remove from queue?")
            await dialog.get_by_role("button", name="Remove").click()
            while (message := await waits.message())["type"] == "queue_update":
                pass
            assert message["code"] == "cancelled"
            await expect(page.get_by_text("The queue is empty")).to_be_visible()
        await _listed(stack, lambda row: row["state"] == "recording")
        await page.get_by_role("link", name="Recordings").click()
        recording = page.get_by_role("row", name="adx_talks")
        await expect(recording.get_by_role("link")).to_have_text(re.compile("^Voice call, .*:"))
        await _delete(page, recording)
        await expect(page.get_by_text("The recording is not finished")).to_be_visible()
        await expect(recording).to_be_visible()
        await page.get_by_role("link", name="Live").click()
        await talks.send_second()
        while (await talks.until("result"))["is_listen"]:
            await talks.send_second()
        await talks.send(type="stop")
        await talks.until("stopped")
    await expect(page.get_by_text("No active sessions")).to_be_visible()

    await page.get_by_role("link", name="Events").click()
    events = page.get_by_role("region", name="Events")
    await events.get_by_label("State").select_option("Ended")
    await expect(events.get_by_role("listitem")).to_contain_text(
        ["ended by the client", "cancelled by an operator"]
    )
    await events.get_by_label("Search").fill("OMNI")
    await expect(events.get_by_role("listitem")).to_have_count(1)

    await page.get_by_role("link", name="Recordings").click()
    recordings = page.get_by_role("region", name="Recordings").first
    await recordings.get_by_label("Kind").select_option("Voice call")
    await expect(recordings.get_by_role("row")).to_contain_text(["Started", "adx_talks"])
    async with page.expect_download() as download:
        await recordings.get_by_role("button", name="Download").click()
    name = (await download.value).suggested_filename
    assert re.fullmatch(r"antiphon-audio_duplex-[\d-]{15}\.zip", name), name
    await recordings.get_by_label("Search").fill("no recording has this text")
    await expect(recordings.get_by_text("No recordings")).to_be_visible()
    row = await _listed(stack, lambda row: bool(row["first_words"]))
    await _merged(stack)
    await recordings.get_by_label("Search").fill("adx_TALKS")
    title = recording.get_by_role("link", name=row["first_words"], exact=True)
    await expect(title).to_have_attribute("href", row["url"])
    await _delete(page, recording)
    await expect(page.get_by_text("Recording deleted")).to_be_visible()
    await expect(recordings.get_by_text("No recordings")).to_be_visible()
    await expect(recordings.locator(":focus")).to_have_count(1)
    assert httpx.get(f"{stack.http_url}/api/sessions/adx_talks").status_code == 404
    visitor.page_errors = [text for text in visitor.page_errors if "409" not in text]


async def _listed(stack: Stack, is_awaited: Callable[[Row], bool]) -> Row:
    """The row of `adx_talks` in the list of recordings."""
    async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(base_url=stack.http_url) as http:
        while True:
            found = (await http.get("/api/sessions", params={"text": "adx_talks"})).json()
            for row in found["sessions"]:
                if is_awaited(row):
                    return cast("Row", row)
            await asyncio.sleep(0.1)


async def _merged(stack: Stack) -> None:
    async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(base_url=stack.http_url) as http:
        while (await http.get("/api/sessions/adx_talks")).json()["replay"] != "ready":
            await asyncio.sleep(0.1)


async def _delete(page: Page, recording: Locator) -> None:
    await recording.get_by_role("button", name="Delete").click()
    question = page.get_by_role("dialog", name="Delete recording?")
    await question.get_by_role("button", name="Delete").click()


@pytest.mark.extended
async def test_voices_are_played_and_uploaded_ones_are_deleted(
    stack: Stack, visitor: Visitor
) -> None:
    voices = f"{stack.http_url}/api/assets/ref_audio"
    sound = base64.b64encode(wav_of(np.tile(spoken(ITALY), 5))).decode()
    added = httpx.post(voices, json={"name": "Ada", "audio_base64": sound}).json()["id"]
    page = await visitor.open("/admin#voices")
    rows = page.locator("an-voice-list li")
    await expect(rows).to_have_count(httpx.get(voices).json()["total"])
    await page.get_by_role("button", name="Play English female").click()
    await expect(page.get_by_role("button", name="Stop playing")).to_be_visible()
    await page.get_by_role("button", name="Play Ada").click()
    await expect(rows.filter(has_text="Ada").get_by_label("Stop playing")).to_be_visible()
    accept_dialogs(page)
    await page.get_by_role("button", name=re.compile("^Delete ")).click()  # only Ada has it
    await expect(page.get_by_text("Voice deleted")).to_be_visible()
    await expect(rows.filter(has_text="Ada")).to_have_count(0)
    assert httpx.get(f"{voices}/{added}").status_code == 404
    await page.set_viewport_size({"width": 320, "height": 568})
    for tab in await page.locator(".tabs a").all():
        await expect(tab).to_be_in_viewport(ratio=1)
    await page.get_by_text("中文").click()
    await expect(page.get_by_role("button", name="试听 英语女声")).to_be_visible()


@pytest.mark.extended
async def test_the_admin_page_is_accessible(stack: Stack, visitor: Visitor) -> None:
    async with open_wire(stack.ws_url, "adx_talks") as talks:
        await talks.begin()
        async with open_wire(stack.ws_url, "adx_waits") as waits:
            await waits.expect("queued")
            page = await visitor.open("/admin", phone=True, locale="zh-CN")
            await expect(page.locator(".pips")).to_be_visible()
            for number in range(PARTS):
                await _is_accessible(page, number)
            await page.set_viewport_size({"width": 1280, "height": 860})
            await page.emulate_media(color_scheme="dark")
            await _is_accessible(page, 0)
        await talks.send(type="stop")
        await talks.until("stopped")


async def _is_accessible(page: Page, part: int) -> None:
    await page.locator(".tabs a").nth(part).click()
    await expect(page.locator("an-admin-page .spinner")).to_have_count(0)
    assert await a11y_findings(page) == []
    wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0


async def test_pages_estimates_and_workers_are_changed(stack: Stack, visitor: Visitor) -> None:
    """The page also reconnects after a restart of the edge."""
    port = free_port()
    edge = stack.edge(admin_token=TOKEN, port=port)
    visitor.url = f"http://127.0.0.1:{port}"
    [worker] = [one for one in stack.services if one.name == "inference_worker"]
    page = await visitor.open("/admin#settings")
    dialog = page.get_by_role("dialog", name="Enter the admin token")
    await dialog.get_by_role("button", name="Cancel").click()
    await page.get_by_role("button", name="Enter token").click()
    await dialog.get_by_label("Admin token").fill(TOKEN)
    await dialog.get_by_role("button", name="Continue").click()

    await page.get_by_role("switch", name="Video call").click()
    menu = page.get_by_role("navigation", name="Main")
    await expect(menu.get_by_role("link", name="Video call")).to_have_count(0)
    assert httpx.get(f"{visitor.url}/omni").status_code == 403

    save, seconds = (
        page.get_by_role("button", name="Save"),
        page.get_by_label("Voice call, seconds"),
    )
    await expect(save).to_be_disabled()
    await save.press("Enter")  # a disabled button submits nothing
    await seconds.fill("222.5")
    await press_key(save)
    await expect(page.get_by_text("Waiting times saved")).to_have_count(1)
    await expect(save).to_be_disabled()
    await expect(save).to_be_focused()
    config = httpx.get(f"{visitor.url}/api/config/eta").json()["config"]
    assert (config["eta_audio_duplex_s"], config["eta_chat_s"]) == (222.5, 15)

    await page.get_by_role("link", name="Live").click()
    await page.get_by_role("button", name="Drain").click()
    question = page.get_by_role("dialog", name="Drain worker-")
    await question.get_by_role("button", name="Drain").click()
    await expect(page.get_by_text("No worker is running")).to_be_visible()
    assert worker.process.wait(timeout=60) == 0

    edge.kill()
    await expect(page.get_by_text("Reconnecting…")).to_be_visible()
    stack.edge(admin_token=TOKEN, port=port)
    await expect(page.get_by_text("Reconnecting…")).to_have_count(0)
    visitor.page_errors = [
        text for text in visitor.page_errors if "401" not in text and "ERR_" not in text
    ]
