"""Installs the programs that some tests need; `make test` runs this.

In CI, as root, it installs Debian's packages. It changes nothing on a developer's machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from support.chromium import find_chromium, in_ci

PACKAGES = {
    "chromium": ("chromium", "fonts-noto-cjk"),
    "prometheus": ("prometheus",),
    "openssl": ("openssl",),
    "redis-server": ("redis-server",),
}


def main() -> int:
    """Exit status."""
    found = {name: shutil.which(name) for name in PACKAGES} | {"chromium": find_chromium()}
    missing = [name for name, path in found.items() if path is None]
    if not missing:
        return 0
    packages = [package for name in missing for package in PACKAGES[name]]
    if not in_ci() or os.geteuid() != 0:
        sys.stdout.write(
            f"▸ {', '.join(missing)}: not here, so tests that need it will be skipped. "
            f"To run them: apt-get install {' '.join(packages)}\n"
        )
        return 0
    subprocess.run(["apt-get", "update"], check=True)
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    return subprocess.run(install).returncode


if __name__ == "__main__":
    sys.exit(main())
