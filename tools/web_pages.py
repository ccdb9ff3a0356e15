"""Builds the browser pages from `web/` into `edge/pages/` if something changed.

`python tools/web_pages.py build` builds them; any other word runs a script of `web/package.json` with
its packages installed. Uses only the standard library.
"""

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodejs import Node, NodeError, fetch_node, find_node

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
PAGES = ROOT / "edge" / "pages"

_STAMP = ".built-from"
_SOURCES = ("*.html", "*.json", "*.ts", ".npmrc", "src/**/*", "public/**/*", "scripts/**/*")
_LATER = "Everything else works without the pages. To build them later, run: make web"


def main(words: list[str]) -> int:
    """Exit status: 0, or 1 with the remedy on stderr."""
    try:
        if words == ["build"]:
            build_pages()
        else:
            run_script(words)
    except NodeError as error:
        sys.stderr.write(f"\n{error}\n")
        return 1
    return 0


def build_pages() -> None:
    """Build the pages unless they are up to date. Raises NodeError."""
    wanted = fingerprint(WEB)
    stamp = PAGES / _STAMP
    with _one_process():
        if stamp.exists() and stamp.read_text() == wanted:
            return
        node = find_node() or _download_node()
        _require_packages(node, development=False)
        _print("building the pages")
        _build(node, wanted)


def run_script(words: list[str]) -> None:
    """`npm run` with the development packages installed. Raises NodeError."""
    node = find_node() or _download_node()
    require_packages(node, development=True)
    if not node.run([*node.npm, "run", "--silent", *words], WEB):
        raise NodeError(f"npm run {' '.join(words)} failed; its messages are above")


def fingerprint(web: Path) -> str:
    """Changes whenever the pages must be built again."""
    digest = hashlib.sha256()
    files = {path for pattern in _SOURCES for path in web.glob(pattern) if path.is_file()}
    for path in sorted(path for path in files if ".test." not in path.name):
        digest.update(f"{path.relative_to(web)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _build(node: Node, wanted: str) -> None:
    """Builds in a temporary folder first, so that an edge never sees incomplete pages."""
    fresh = PAGES.with_name(f"{PAGES.name}.{os.getpid()}")
    vite = [str(node.node), "node_modules/vite/bin/vite.js", "build", "--logLevel", "warn"]
    finish = [str(node.node), "scripts/finish.mjs", str(fresh)]
    try:
        built = node.run([*vite, "--outDir", str(fresh)], WEB) and node.run(finish, WEB)
        if not built:
            raise NodeError(f"the pages could not be built; the messages are above. {_LATER}")
        (fresh / _STAMP).write_text(wanted)
        shutil.rmtree(PAGES, ignore_errors=True)
        fresh.rename(PAGES)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@contextmanager
def _one_process() -> Iterator[None]:
    """Two installations at once would delete each other's files."""
    with (WEB / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def require_packages(node: Node, *, development: bool) -> None:
    """`npm ci`, unless every package of the lock file is installed. Raises NodeError."""
    with _one_process():
        _require_packages(node, development=development)


def _require_packages(node: Node, *, development: bool) -> None:
    if installed(WEB, development=development):
        return
    _print("downloading the packages for the pages (npm)")
    command = [*node.npm, "ci", "--ignore-scripts", "--prefer-offline", "--fetch-retries=1"]
    if not development:
        command.append("--omit=dev")
    if not node.run(command, WEB, quiet=True):
        raise NodeError(
            f"npm could not download the packages; its messages are above. Check the network. {_LATER}"
        )


def installed(web: Path, *, development: bool) -> bool:
    """Compares npm's list of installed packages with the lock file."""
    found = web / "node_modules" / ".package-lock.json"
    if not found.exists():
        return False
    there = json.loads(found.read_text())["packages"]
    wanted = json.loads((web / "package-lock.json").read_text())["packages"]
    return all(
        there.get(name, {}).get("version") == package["version"]
        for name, package in wanted.items()
        if name and not _is_optional(package, development=development)
    )


def _is_optional(package: dict[str, object], *, development: bool) -> bool:
    """Optional packages are mostly for other platforms."""
    skipped = package.get("optional") or package.get("devOptional")
    return bool(skipped or (package.get("dev") and not development))


def _download_node() -> Node:
    _print("downloading Node.js (60 MB): this machine has no suitable version")
    return fetch_node()


def _print(text: str) -> None:
    sys.stdout.write(f"▸ {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
