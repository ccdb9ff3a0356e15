"""Where Chromium is, for the tests that drive one; as a command, gets it where CI has none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
REMEDY = "install it (apt-get install chromium) or name it in ANTIPHON_CHROMIUM"

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync"),  # root, no display
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    "--autoplay-policy=no-user-gesture-required",
)


def find_chromium() -> str | None:
    """The program, or None."""
    named = os.environ.get("ANTIPHON_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def in_ci() -> bool:
    """Where a missing browser is a failure, not a reason to skip."""
    return os.environ.get("CI") == "true"


def main() -> int:
    """Exit status. A person's machine is left as it is."""
    if find_chromium() is not None:
        return 0
    if not in_ci() or os.geteuid() != 0:
        sys.stdout.write(
            f"▸ no Chromium here: the browser tests will be skipped. To run them, {REMEDY}\n"
        )
        return 0
    subprocess.run(["apt-get", "update"], check=True)
    packages = ["chromium", "fonts-noto-cjk"]
    return subprocess.run(
        ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
