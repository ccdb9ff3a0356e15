"""The chat page with an engine that supports images but not speech: the tiny checkpoint."""

from __future__ import annotations

import importlib.util
import io
import re
from pathlib import Path

import pytest
from PIL import Image
from playwright.async_api import expect

from support.browser_user import Visitor, a11y_findings
from support.stack import Stack
from support.turn_page import without_instructions

CHECKPOINT = Path(__file__).parent.parent / "support" / "minicpmo" / "golden" / "ckpt"

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]


async def test_an_image_is_answered_without_speech(stack: Stack, visitor: Visitor) -> None:
    stack.edge()
    options = {"engine_options": '{"device": "cpu"}', "model_path": CHECKPOINT}
    stack.worker("minicpmo", slots=1, **options)
    file = io.BytesIO()
    Image.new("RGB", (64, 48), (200, 60, 30)).save(file, "PNG")
    page = await visitor.open("/turnbased")
    await without_instructions(page)
    picture = {"name": "red.png", "mimeType": "image/png", "buffer": file.getvalue()}
    await page.locator("an-composer input[type=file]").set_input_files(picture)
    await page.get_by_label("Your message").fill("What is this?")
    await page.get_by_role("button", name="Send").click()
    trouble = page.get_by_role("alert")
    await expect(trouble).to_contain_text("this engine has no vocoder")
    await expect(trouble).to_be_in_viewport()
    assert await a11y_findings(page) == []
    await trouble.get_by_role("button", name="Retry without speech").click()
    answer = page.locator("an-answer")
    await expect(answer.get_by_role("button", name="Try again")).to_be_visible()
    await expect(answer.get_by_role("alert")).to_have_count(0)
    await expect(
        page.get_by_role("button", name="Turn on spoken answers", exact=True)
    ).to_be_visible()
    read = await answer.locator("[title*='input tokens']").get_attribute("title")
    assert int(re.findall(r"\d+", read or "0")[0]) > 64  # the image has 64 tokens
