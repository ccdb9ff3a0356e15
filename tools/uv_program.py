"""Finds uv, which installs the packages of `uv.lock`, or installs it into `.uv`.

`python tools/uv_program.py WORDS` runs `uv WORDS`. Uses only the standard library.
"""

import configparser
import hashlib
import importlib.util
import io
import os
import platform
import re
import shutil
import ssl
import subprocess
import sys
import urllib.request
import venv
import zipfile
from pathlib import Path
from urllib.parse import urldefrag, urljoin

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".uv"
VERSION = "0.13.9"
PYPI = "https://pypi.org/simple"

_TIMEOUT_S = 60


class NoUv(Exception):
    """uv cannot be installed; the message has the remedy."""


def find_uv() -> Path:
    """The uv on PATH if it is recent enough, else the one in `.uv`. Raises NoUv."""
    on_path = shutil.which("uv")
    if on_path and _release(on_path) >= _numbers(VERSION):
        return Path(on_path)
    own = FOLDER / "bin" / "uv"
    if not own.exists() or _release(own) != _numbers(VERSION):
        _install()
    return own


def uv_environment() -> dict[str, str]:
    """The variables of this process, with the settings of pip as variables of uv, which win over them.

    uv uses the Pythons of this machine only, and every index for every package, as pip does.
    """
    pip = _pip_settings()
    links = [link for link in pip.get("find-links", "").split() if _exists(link)]
    derived = {
        "UV_DEFAULT_INDEX": pip.get("index-url"),
        "UV_INDEX": pip.get("extra-index-url"),
        "UV_FIND_LINKS": ",".join(links),
        "UV_INSECURE_HOST": pip.get("trusted-host"),
        "UV_HTTP_TIMEOUT": pip.get("default-timeout", pip.get("timeout")),
        "ALL_PROXY": pip.get("proxy"),
        "SSL_CERT_FILE": pip.get("cert"),
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": None if sys.stderr.isatty() else "1",
    }
    if ssl.create_default_context().cert_store_stats()["x509_ca"] or _has_certificates():
        derived["UV_SYSTEM_CERTS"] = "1"  # a company's authority may be among them
    return {name: value for name, value in derived.items() if value} | os.environ


def _pip_settings() -> dict[str, str]:
    """Settings in pip's files and variables: `index-url`, `find-links` and so on."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    own = [Path.home() / ".pip" / "pip.conf", config / "pip" / "pip.conf"]
    named = os.environ.get("PIP_CONFIG_FILE")
    parser = configparser.RawConfigParser()
    parser.read(["/etc/xdg/pip/pip.conf", "/etc/pip.conf", *own, *([named] if named else [])])
    settings: dict[str, str] = {}
    for section in ("global", "install"):
        settings |= parser[section] if parser.has_section(section) else {}
    for name, value in os.environ.items():
        if name.startswith("PIP_") and value:
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    return settings


def _exists(link: str) -> bool:
    """False for a folder that is not here: pip ignores it, but uv refuses it."""
    return "://" in link or Path(link).exists()


def _has_certificates() -> bool:
    folder = ssl.get_default_verify_paths().capath
    return bool(folder) and any(Path(folder).iterdir())


def _release(program: str | Path) -> tuple[int, ...]:
    shown = subprocess.run([program, "--version"], capture_output=True, text=True)
    return _numbers(shown.stdout)


def _numbers(version: str) -> tuple[int, ...]:
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, match.groups())) if match else ()


def _install() -> None:
    sys.stdout.write(f"▸ installing uv {VERSION} into {FOLDER}\n")
    sys.stdout.flush()
    shutil.rmtree(FOLDER, ignore_errors=True)
    index = _pip_settings().get("index-url", PYPI).rstrip("/") + "/uv/"
    try:
        _install_from(index)
    except (OSError, LookupError) as error:
        _install_with_pip(f"uv {VERSION} could not be fetched from {index} ({error})")
    if _release(FOLDER / "bin" / "uv") != _numbers(VERSION):
        raise NoUv(f"uv {VERSION} was installed into {FOLDER}, but does not run on this machine")


def _install_from(index: str) -> None:
    """Take the program out of the wheel: Debian's `python3` has neither pip nor ensurepip.

    Raises OSError or LookupError.
    """
    wheel = _fetch(_wheel_url(index, _fetch(index).decode()))
    program = FOLDER / "bin" / "uv"
    program.parent.mkdir(parents=True)
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        program.write_bytes(archive.read(f"uv-{VERSION}.data/scripts/uv"))
    program.chmod(0o755)


def _install_with_pip(problem: str) -> None:
    """For other systems than Linux, and indexes and certificates that only pip knows."""
    if importlib.util.find_spec("ensurepip") is None:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise NoUv(
            f"{problem}. Run the same command again if the network was the cause. Otherwise run: "
            f"apt-get install -y ca-certificates python{version}-venv"
        )
    venv.create(FOLDER, clear=True, with_pip=True)
    pip = [str(FOLDER / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    if subprocess.run([*pip, "install", "--quiet", f"uv=={VERSION}"]).returncode != 0:
        shutil.rmtree(FOLDER)
        raise NoUv(
            f"{problem}, nor with pip, whose messages are above. If the network was the cause, run the "
            "same command again."
        )


def _wheel_url(index: str, page: str) -> str:
    """The wheel for this machine, with its hash as the fragment. Raises LookupError."""
    for match in re.finditer(r'href="([^"]+)"', page):
        link: str = match[1]
        name = urldefrag(link).url.rpartition("/")[2]
        if name.startswith(f"uv-{VERSION}-py3-none-manylinux") and platform.machine() in name:
            return urljoin(index, link)
    raise LookupError(f"it has no wheel for Linux on {platform.machine()}")


def _fetch(url: str) -> bytes:
    """Raises OSError, also if the content is not that of the hash in the fragment."""
    address, fragment = urldefrag(url)
    asked = urllib.request.Request(address, headers={"Accept": "text/html"})  # noqa: S310 - an index
    with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        content: bytes = answer.read()
    if fragment and fragment != f"sha256={hashlib.sha256(content).hexdigest()}":
        raise OSError(f"{address} has another hash than the index says")
    return content


if __name__ == "__main__":
    os.execve(find_uv(), ["uv", *sys.argv[1:]], uv_environment())  # noqa: S606
