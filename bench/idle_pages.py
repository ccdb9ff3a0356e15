"""Measures the CPU time of Chromium while a page is idle, for each page.

    antiphon up -d                                            # or any other edge
    python bench/idle_pages.py --url http://127.0.0.1:8006 --seconds 20 --recording RECORDING

Prints the percentage of a core that the processes of the page and of painting use. Without a GPU, Chromium
paints on the CPU. `--recording` adds the session viewer with this recording.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections import Counter

from playwright.async_api import Browser, CDPSession, async_playwright

PAGES = ("/", "/turnbased", "/half_duplex", "/omni", "/audio_duplex", "/admin")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
SETTLE_S = 8.0
"""Loading, the first paint and garbage collection."""


async def cpu_s(system: CDPSession) -> Counter[str]:
    """Seconds of CPU time so far, by kind of process."""
    spent: Counter[str] = Counter()
    for one in (await system.send("SystemInfo.getProcessInfo"))["processInfo"]:
        spent[one["type"]] += one["cpuTime"]
    return spent


async def measure(browser: Browser, url: str, seconds: float) -> str:
    system = await browser.new_browser_cdp_session()
    page = await browser.new_page()
    await page.goto(url, wait_until="load")
    await asyncio.sleep(SETTLE_S)
    before = await cpu_s(system)
    await asyncio.sleep(seconds)
    after = await cpu_s(system)
    await page.close()
    shares = {kind: 100 * (after[kind] - before[kind]) / seconds for kind in ("renderer", "GPU")}
    return "  ".join(f"{kind} {share:4.1f} %" for kind, share in shares.items())


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8006")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--recording", help="id of a recording, to measure the viewer too")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    arguments = parser.parse_args()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=arguments.chromium, args=list(FLAGS)
        )
        viewer = [f"/s/{arguments.recording}"] if arguments.recording else []
        for path in (*PAGES, *viewer):
            shares = await measure(browser, arguments.url + path, arguments.seconds)
            print(f"{path[:12]:14}{shares}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
