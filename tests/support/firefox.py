"""Firefox for the tests: a real audio system without hardware, and a test picture as the camera."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.async_api import Browser

from support import firefox_bidi
from support.browser_user import Browsers
from support.chromium import in_ci
from support.sound_server import MICROPHONE

PROGRAMS = ("firefox-esr", "pulseaudio", "pacat")
REMEDY = "Install them: apt-get install firefox-esr pulseaudio pulseaudio-utils"

_PREFERENCES: dict[str, str | float | bool] = {
    "media.navigator.permission.disabled": True,
    "media.autoplay.default": 0,  # allowed
    "media.navigator.streams.fake": True,
    "media.audio_loopback_dev": MICROPHONE,  # a real microphone beside the fake camera
    "media.navigator.video.default_fps": 5,
    "ui.prefersReducedMotion": 1,
    "layout.frame_rate": 10,
    "fission.autostart": False,
    "dom.ipc.processPrelaunch.enabled": False,
}


@dataclass
class Firefox(Browsers):
    """One process. `environment` has its audio devices. Its camera shows a picture that changes."""

    folder: Path
    environment: dict[str, str]

    async def start(self, *flags: str) -> Browser:
        """Playwright's channels named `moz-` are controlled over WebDriver BiDi."""
        assert not flags, "only Chromium has these"
        program = self.folder / "firefox"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{firefox_bidi.__file__}" "$@"\n')
        program.chmod(0o755)
        return await self._playwright.firefox.launch(
            channel="moz-firefox",
            executable_path=program,
            firefox_user_prefs=_PREFERENCES,
            env={**self.environment},
            timeout=120_000,
        )


def require_firefox() -> None:
    """Skips the test without Firefox and PulseAudio, and fails in CI."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if not missing:
        return
    text = f"not on this machine: {', '.join(missing)}. {REMEDY}"
    if in_ci():
        pytest.fail(text)
    pytest.skip(text)
