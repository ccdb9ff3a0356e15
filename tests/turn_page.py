"""What tests do to the half-duplex and the chat page alike."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect


async def without_instructions(page: Page) -> None:
    """Take the preset's texts and its voice away: the engine has its own."""
    await page.locator("summary", has_text="Instructions").click()
    parts = page.locator("an-part-list li")
    await expect(parts).to_have_count(3)
    for left in (2, 1, 0):
        await page.get_by_role("button", name=re.compile("^Remove: ")).first.click()
        await expect(parts).to_have_count(left)
