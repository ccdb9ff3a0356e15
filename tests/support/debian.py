"""Installs the programs that some tests need: `python -m support.debian [all]`.

In CI, as root, it installs Debian's packages. On a developer's machine it names them. For `all` tests,
it adds Redis 8 and programs of others for OpenAI's APIs to the virtual environment.
"""

import os
import shutil
import subprocess
import sys

from support import client_programs, redis_8
from support.chromium import HEADLESS_SHELL, find_chromium, in_ci

PACKAGES = {
    HEADLESS_SHELL: (HEADLESS_SHELL, "fonts-noto-cjk", "libatomic1"),
    "faketime": ("faketime",),
    "openssl": ("openssl",),
    "redis-server": ("redis-server",),
    "sox": ("sox",),
}
EXTENDED = {
    "firefox-esr": ("firefox-esr",),
    "pulseaudio": ("pulseaudio", "pulseaudio-utils"),
    "WebKitWebDriver": (
        "webkit2gtk-driver",
        "gstreamer1.0-plugins-good",
        "gstreamer1.0-pulseaudio",
    ),
    "Xvfb": ("xvfb",),
    "prometheus": ("prometheus",),
    "caddy": ("caddy",),
}
"""Of tests with the mark `extended`."""


def main(*, everything: bool) -> int:
    """Exit status."""
    needed = PACKAGES | EXTENDED if everything else PACKAGES
    if everything and not redis_8.REDIS_8.exists() and shutil.which("dpkg-deb"):
        _install_redis_8()
    if everything:
        _install_client_programs()
    found = {name: shutil.which(name) for name in needed}
    if not in_ci():
        found[HEADLESS_SHELL] = find_chromium()  # another one will do
    missing = [name for name, path in found.items() if path is None]
    if not missing:
        return 0
    packages = [package for name in missing for package in needed[name]]
    if not in_ci() or os.geteuid() != 0:
        sys.stdout.write(
            f"▸ {', '.join(missing)}: not here, so tests that need it will be skipped. "
            f"To run them: apt-get install {' '.join(packages)}\n"
        )
        return 0
    subprocess.run(["apt-get", "update"], check=True)
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    return subprocess.run(install).returncode


def _install_redis_8() -> None:
    try:
        redis_8.install()
    except subprocess.CalledProcessError as error:
        sys.stdout.write(f"▸ No test will run on Redis 8, which cannot be installed: {error}\n")


def _install_client_programs() -> None:
    try:
        client_programs.install()
    except subprocess.CalledProcessError as error:
        sys.stdout.write(
            f"▸ No programs of others will be tested, as they cannot be installed: {error}\n"
        )


if __name__ == "__main__":
    sys.exit(main(everything=sys.argv[1:] == ["all"]))
