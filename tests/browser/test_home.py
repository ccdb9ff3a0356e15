"""The start page, the menu, disabled pages, API keys and the device check."""

import re
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from playwright.async_api import Locator, Page, expect

from support.browser_user import Visitor, a11y_findings, contrast_findings
from support.ports import free_port
from support.stack import Service, Stack
from support.turn_page import attach_image, claim

DENY_MICROPHONE = """() => {
  const devices = navigator.mediaDevices;
  devices.getUserMedia = async () => { throw new DOMException("forbidden", "NotAllowedError"); };
  window.allow = () => { delete devices.getUserMedia; };
}"""


ORDER_OF_LAYERS = """() => {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  const names = rules.flatMap((rule) =>
    rule.nameList ?? (rule instanceof CSSLayerBlockRule ? [rule.name] : []));
  return [...new Set(names)];
}"""
"""The cascade layers of a page, the weakest first."""


async def test_home_links_to_every_enabled_page(stack: Stack, visitor: Visitor) -> None:
    page = await visitor.open("/")
    await expect(page.locator("an-service-badge")).to_have_text("Simulated engine · 2 free slots")
    for name in ("API", "Admin"):
        await expect(page.get_by_role("link", name=name)).to_be_visible()
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    names = ["Voice call", "Video call", "Chat", "Take turns"]
    await expect(links).to_have_text(names)
    for name in names:
        await links.filter(has_text=name).click()
        await expect(page).to_have_title(f"{name} · Antiphon")
        await expect(links.filter(has_text=name)).to_have_attribute("aria-current", "page")


@pytest.mark.extended
async def test_pages_offer_no_pictures_to_a_model_that_cannot_see(
    stack: Stack, visitor: Visitor
) -> None:
    page = await visitor.open("/")
    await claim(page, simulated=False, sees=False, model="Small", hears=["en"])
    modes = page.locator(".modes")
    await expect(modes.get_by_text("Small cannot see")).to_be_visible()
    await expect(modes.get_by_text("images")).to_have_count(0)
    await page.goto(f"{stack.http_url}/turnbased")
    await expect(page.get_by_text("The model sees no images")).to_be_visible()
    await expect(page.get_by_label("Attach audio")).to_have_attribute("accept", "audio/*")
    folds = page.locator("aside summary")
    await expect(folds.filter(has_text="Answers")).to_be_visible()
    await expect(folds.filter(has_text="Images and videos")).to_have_count(0)
    await expect(folds.filter(has_text="Voice")).to_have_count(0)  # it clones no voices
    await attach_image(page, "drop", "dropped.png")
    await expect(page.get_by_text("This model cannot see.")).to_be_visible()
    await expect(page.locator("an-composer img")).to_have_count(0)
    await page.goto(f"{stack.http_url}/omni")
    await page.get_by_role("button", name="Settings").click()
    presets = page.get_by_label("Preset")
    await expect(presets.locator("option")).to_have_count(1)
    await expect(page.locator(".presets label")).to_have_count(0)  # one is no choice
    await expect(page.get_by_label("Reference voice")).to_have_count(0)


async def test_an_answer_of_another_form_is_reported_and_the_page_works(visitor: Visitor) -> None:
    page = await visitor.open("/")
    await page.route("**/api/capabilities", lambda route: route.fulfill(json={"model": 7}))
    await page.goto(visitor.url + "/")
    problem = page.get_by_role("alert").filter(has_text="cannot read")
    await expect(problem).to_contain_text("/api/capabilities: model is missing or wrong")
    await expect(page.get_by_role("button", name="Start")).to_be_enabled()


@pytest.mark.extended
async def test_pages_override_components_and_components_override_the_base(
    stack: Stack, visitor: Visitor
) -> None:
    page = await visitor.open("/")
    for path in ("/", "/turnbased", "/half_duplex", "/omni", "/audio_duplex", "/admin"):
        await page.goto(stack.http_url + path)
        order = await page.evaluate(ORDER_OF_LAYERS)
        assert order == ["tokens", "base", "ui", "components", "pages"], path


@pytest.mark.extended
async def test_the_api_page_loads_from_this_server_only(stack: Stack, visitor: Visitor) -> None:
    """The visitor collects violations of the content security policy as errors."""
    page = await visitor.open("/", phone=True)
    servers: set[str] = set()
    page.on("request", lambda request: servers.add(urlsplit(request.url).netloc))
    await page.goto(f"{stack.http_url}/docs")
    await page.locator("#operations-chat-chat_api_chat_post").click()
    await expect(page.get_by_text("Request body").first).to_be_visible()
    assert servers == {urlsplit(stack.http_url).netloc}
    assert (await page.locator(".opblock-tag > a").all_inner_texts())[0] == "Talk"
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
    for dark in (False, True):
        await page.emulate_media(color_scheme="dark" if dark else "light")
        chat = "#operations-tag-chat, #operations-chat-chat_api_chat_post"
        assert await a11y_findings(page, "color-contrast", part=chat) == []
    await page.get_by_role("link", name="Antiphon, home").click()
    await expect(page).to_have_title("Antiphon")


async def test_a_disabled_page_is_not_in_the_menu(stack: Stack, visitor: Visitor) -> None:
    switch = f"{stack.http_url}/api/admin/apps/omni"
    assert httpx.put(switch, json={"enabled": False}).status_code == 200
    try:
        page = await visitor.open("/omni")
        await expect(page.get_by_role("heading")).to_have_text("This page is turned off")
        assert await a11y_findings(page) == []
        await expect(page.get_by_role("link", name="Video call")).to_have_count(0)
        await expect(page.get_by_role("button", name="Help")).to_have_count(0)
    finally:
        assert httpx.put(switch, json={"enabled": True}).status_code == 200
    visitor.page_errors = [text for text in visitor.page_errors if "403" not in text]


async def test_an_unknown_address_leads_to_the_start_page(stack: Stack, visitor: Visitor) -> None:
    page = await visitor.open("/nowhere")
    await expect(page.get_by_role("heading")).to_have_text("Page not found")
    assert await a11y_findings(page) == []
    await page.get_by_role("button", name="中文").click()
    await expect(page.get_by_role("heading")).to_have_text("找不到页面")
    await page.get_by_role("link", name="首页", exact=True).click()
    await expect(page.get_by_role("button", name="开始通话")).to_be_visible()
    visitor.page_errors = [text for text in visitor.page_errors if "404" not in text]


async def test_language_and_appearance_are_remembered(stack: Stack, visitor: Visitor) -> None:
    page = await visitor.open("/")
    await page.get_by_role("button", name="中文").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("边听边说的 AI，自然对话。")
    await page.get_by_role("button", name="外观").click()
    await page.get_by_role("button", name="外观").click()
    await page.reload()
    root = page.locator("html")
    await expect(root).to_have_attribute("lang", "zh-CN")
    await expect(root).to_have_attribute("data-theme", "dark")


async def test_language_title_and_description_of_a_page_change(
    stack: Stack, visitor: Visitor
) -> None:
    page = await visitor.open("/")
    about = page.locator("meta[name=description]")
    for path in ("/", "/omni", "/audio_duplex", "/turnbased", "/half_duplex", "/admin"):
        file = httpx.get(stack.http_url + path).text
        await page.goto(stack.http_url + path)
        await expect(page.get_by_role("button", name="中文")).to_be_visible()
        english, title = await about.get_attribute("content"), await page.title()
        assert f'name="description" content="{english}"' in file
        await page.get_by_role("button", name="中文").click()
        await expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
        await expect(about).to_have_attribute("content", re.compile("[一-龥]{3}"))
        if path != "/":
            await expect(page).not_to_have_title(title)
        await page.get_by_role("button", name="English").click()
        await expect(about).to_have_attribute("content", str(english))


@pytest.mark.extended
async def test_the_microphone_check_reports_denied_access_and_echo(
    stack: Stack, visitor: Visitor
) -> None:
    """First denied, then allowed by the browser."""
    page = await visitor.open("/")
    await page.evaluate(DENY_MICROPHONE)
    check = await _open_device_check(page)
    await expect(check).to_contain_text("Microphone access is blocked.")
    assert await a11y_findings(page) == []
    await page.evaluate("allow()")
    await check.get_by_role("button", name="Try again").click()
    await expect(check).to_contain_text("Your microphone works.")
    await check.get_by_role("button", name="Test echo").click()
    await expect(check).to_contain_text("The model will not hear itself")


async def _open_device_check(page: Page) -> Locator:
    await page.get_by_role("button", name="Settings", exact=True).click()
    await page.locator("summary", has_text="Check devices").click()
    await page.get_by_role("button", name="Allow microphone").click()
    return page.locator("an-device-check")


@pytest.mark.extended
async def test_each_page_has_help(stack: Stack, visitor: Visitor) -> None:
    page = await visitor.open("/turnbased")
    message = page.get_by_label("Your message")
    await message.fill("what")
    await message.press("?")
    await expect(message).to_have_value("what?")
    help_ = page.get_by_role("dialog", name="Help")
    button = page.get_by_role("button", name="Help")
    await button.click()
    await expect(help_).to_contain_text("Start a new line")
    await expect(help_).to_be_focused()
    assert await a11y_findings(page) == []
    await page.keyboard.press("Escape")
    await expect(help_).to_be_hidden()
    await expect(button).to_be_focused()
    for path, text in (("/", "It listens while it speaks"), ("/admin", "Drain")):
        await page.goto(stack.http_url + path)
        await button.focus()
        await page.keyboard.press("?")
        await expect(help_).to_contain_text(text)
        await page.keyboard.press("?")
        await expect(help_).to_be_hidden()
        await expect(button).to_be_focused()
    await button.click()
    await help_.get_by_role("switch", name="Open the help with the key").click()
    await page.keyboard.press("Escape")
    await page.keyboard.press("?")
    await expect(help_).to_be_hidden()


@pytest.mark.extended
async def test_a_preset_of_the_user_is_used_changed_and_deleted(visitor: Visitor) -> None:
    """Saved on the start page, used after a reload, changed and deleted in the chat."""
    page = await visitor.open("/")
    preset = page.get_by_role("group", name="Preset")
    await page.get_by_role("button", name="Settings", exact=True).click()
    instructions = page.get_by_label("Instructions")
    await instructions.fill("Talk like a pirate.")
    await page.get_by_label("Greeting").fill("Ahoy!")
    await page.get_by_role("button", name="Save as preset").click()
    dialog = page.get_by_role("dialog", name="Save as preset")
    await dialog.get_by_label("Name").fill("Pirate")
    assert await a11y_findings(page) == []
    await dialog.get_by_label("Name").press("Enter")
    await expect(preset.get_by_label("Pirate")).to_be_checked()
    await preset.get_by_text("Assistant", exact=True).click()
    await expect(instructions).not_to_have_value(re.compile("pirate"))
    await page.reload()
    await preset.get_by_text("Pirate").click()
    await page.get_by_role("button", name="Settings", exact=True).click()
    await expect(instructions).to_have_value("Talk like a pirate.")
    await expect(page.get_by_label("Greeting")).to_have_value("Ahoy!")

    await page.goto(urljoin(visitor.url, "/turnbased"))
    await claim(page, clones_voices=True)
    selector = page.get_by_role("combobox", name="Preset")
    await selector.select_option("Pirate")
    await page.locator("summary", has_text="Instructions").click()
    text, sound = page.locator("an-part-list textarea"), page.locator("an-part-list .sound")
    await expect(sound).to_be_visible()
    await expect(text).to_have_value("Talk like a pirate.")
    await text.fill("Talk like a captain.")
    await page.get_by_role("button", name="Edit preset").click()
    dialog = page.get_by_role("dialog", name="Edit preset")
    await dialog.get_by_label("Name").fill("Captain")
    await dialog.get_by_role("button", name="Save", exact=True).click()
    await expect(selector.locator("option:checked")).to_have_text("Captain")
    await selector.select_option("Assistant")
    await expect(text.first).not_to_have_value(re.compile("captain"))
    await selector.select_option("Captain")
    await expect(text).to_have_value("Talk like a captain.")
    await expect(sound).to_be_visible()
    await page.get_by_role("button", name="Edit preset").click()
    await dialog.get_by_role("button", name="Delete").click()
    await expect(selector.locator("option:checked")).to_have_text("Assistant")
    await expect(selector.locator("option", has_text="Captain")).to_have_count(0)


_KEY = "a-key-that-is-long-enough"


async def _open_with_key(stack: Stack, visitor: Visitor) -> tuple[Service, Page]:
    """The home page of an edge that asks for _KEY."""
    port = free_port()
    edge = stack.edge(api_keys=_KEY, port=port)
    visitor.url = f"http://127.0.0.1:{port}"
    return edge, await visitor.open("/")


async def test_a_server_with_keys_asks_for_a_key_once(stack: Stack, visitor: Visitor) -> None:
    edge, page = await _open_with_key(stack, visitor)
    dialog = page.get_by_role("dialog", name="Enter your key")
    await dialog.get_by_label("Key").fill("x" * 20)
    await dialog.get_by_role("button", name="Continue").click()
    await expect(dialog).to_contain_text("This key is not valid.")
    await dialog.get_by_label("Key").fill(_KEY)
    await dialog.get_by_role("button", name="Continue").click()
    await expect(page.get_by_role("link", name="Voice call").first).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("link", name="Voice call").first).to_be_visible()
    visitor.page_errors = [text for text in visitor.page_errors if "401" not in text]
    assert edge.stop() == 0


async def test_one_cancel_refuses_the_key_for_all_requests_of_a_press(
    stack: Stack, visitor: Visitor
) -> None:
    edge, page = await _open_with_key(stack, visitor)
    dialog = page.get_by_role("dialog", name="Enter your key")
    await dialog.get_by_role("button", name="Cancel").click()
    alert = page.get_by_role("alert").first
    await expect(alert.get_by_role("button", name="Enter key")).to_be_visible()
    await page.get_by_role("button", name="Start call").click()
    await dialog.get_by_role("button", name="Cancel").click()
    ended = page.locator(".ending")
    await expect(ended).to_contain_text("Key required")
    await expect(dialog).to_have_count(0)
    await ended.get_by_role("button", name="Enter key").click()
    await dialog.get_by_label("Key").fill(_KEY)
    await dialog.get_by_role("button", name="Continue").click()
    await expect(page.get_by_role("link", name="Voice call").first).to_be_visible()
    await expect(ended).to_have_count(0)
    expected = ("401", "426", "WebSocket")
    visitor.page_errors = [
        text for text in visitor.page_errors if not any(part in text for part in expected)
    ]
    assert edge.stop() == 0


@pytest.mark.extended
@pytest.mark.parametrize("phone", [False, True])
async def test_home_is_accessible_on_every_screen(visitor: Visitor, phone: bool) -> None:
    """No findings in both themes and no horizontal scrolling. The desktop page is animated."""
    page = await visitor.open("/", phone=phone, animated=not phone)
    await expect(page.get_by_role("link", name="Voice call").last).to_be_visible()
    await _is_accessible(page)
    check = await _open_device_check(page)
    await expect(check).to_contain_text("Your microphone works.")
    await _is_accessible(page)


async def _is_accessible(page: Page) -> None:
    await page.emulate_media(color_scheme="light")
    assert await a11y_findings(page) == []
    assert await contrast_findings(page, dark=True) == []
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
