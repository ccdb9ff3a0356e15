"""Processes whose name server never answers."""

import functools
import os
import shutil
import socket
import subprocess
from pathlib import Path

_MOUNT = """
mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/nsswitch.conf && shift 2 && exec "$@"
"""


@functools.cache
def can_replace_name_server() -> bool:
    """Port 53 and a mount namespace need root; many containers refuse the latter."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


class SilentNameServer:
    """A lookup lasts for 150 s, longer than a test waits."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        address = f"127.53.{os.getpid() // 256 % 256}.{os.getpid() % 256}"
        self._socket.bind((address, 53))
        self._resolver, self._sources = folder / "resolv.conf", folder / "nsswitch.conf"
        self._resolver.write_text(f"nameserver {address}\noptions timeout:30 attempts:5\n")
        self._sources.write_text("hosts: files dns\n")
        self._asked: set[tuple[bytes, int]] = set()

    def command(self, *command: str) -> list[str]:
        """Runs `command` with this name server. The process keeps its id."""
        files = str(self._resolver), str(self._sources)
        return ["unshare", "--mount", "sh", "-c", _MOUNT, "sh", *files, *command]

    def lookups(self, host: str) -> int:
        """How many lookups of this host have begun. Each has a socket for all of its questions."""
        try:
            while True:
                question, (_, port) = self._socket.recvfrom(512)
                self._asked.add((question[12:], port))
        except BlockingIOError:
            name = b"".join(bytes([len(part)]) + part.encode() for part in host.split("."))
            return len({port for asked, port in self._asked if asked.startswith(name)})

    def close(self) -> None:
        self._socket.close()
