"""Builds the browser's pages: `web/` into `edge/pages/`, when something changed.

`python tools/web_pages.py build` does that; any other word is a script of `web/package.json`, run with the
packages that it needs. Needs nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

from nodejs import Node, NodeError, fetch_node, find_node

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
PAGES = ROOT / "edge" / "pages"

_STAMP = ".built-from"
_SOURCES = ("*.html", "*.json", "*.ts", ".npmrc", "src/**/*", "public/**/*", "scripts/**/*")
_LATER = "The rest works without the pages; to build them later, run: make web"


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


def build_pages(web: Path = WEB, pages: Path = PAGES) -> bool:
    """False when they are as they should be already. Raises NodeError."""
    wanted = fingerprint(web)
    stamp = pages / _STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return False
    node = find_node() or _fetched()
    require_packages(node, web, development=False)
    _say("building the pages")
    _build(node, web, pages, wanted)
    return True


def run_script(words: list[str], web: Path = WEB) -> None:
    """`npm run` with everything installed, tools for development too. Raises NodeError."""
    node = find_node() or _fetched()
    require_packages(node, web, development=True)
    if not node.run([*node.npm, "run", "--silent", *words], web):
        raise NodeError(f"npm run {' '.join(words)} failed; its messages are above")


def fingerprint(web: Path) -> str:
    """Changes whenever the pages must be built anew."""
    digest = hashlib.sha256()
    files = {path for pattern in _SOURCES for path in web.glob(pattern) if path.is_file()}
    for path in sorted(path for path in files if ".test." not in path.name):
        digest.update(f"{path.relative_to(web)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _build(node: Node, web: Path, pages: Path, wanted: str) -> None:
    """Into a folder beside it first: an edge never finds half of the pages."""
    fresh = pages.with_name(f"{pages.name}.{os.getpid()}")
    vite = [str(node.node), "node_modules/vite/bin/vite.js", "build", "--logLevel", "warn"]
    finish = [str(node.node), "scripts/finish.mjs", str(fresh)]
    try:
        built = node.run([*vite, "--outDir", str(fresh)], web) and node.run(finish, web)
        if not built:
            raise NodeError(f"the pages could not be built; the messages are above. {_LATER}")
        (fresh / _STAMP).write_text(wanted)
        shutil.rmtree(pages, ignore_errors=True)
        fresh.rename(pages)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def require_packages(node: Node, web: Path, *, development: bool) -> None:
    """`npm ci` unless all that the lock file names lies there already."""
    if installed(web, development=development):
        return
    _say("fetching what the pages are built from (npm)")
    command = [*node.npm, "ci", "--ignore-scripts", "--prefer-offline", "--fetch-retries=1"]
    if not development:
        command.append("--omit=dev")
    if not node.run(command, web, quiet=True):
        raise NodeError(
            f"npm could not fetch the packages; its messages are above. Is the network there? {_LATER}"
        )


def installed(web: Path, *, development: bool) -> bool:
    """Compares npm's own list of what it installed with the lock file."""
    found = web / "node_modules" / ".package-lock.json"
    if not found.exists():
        return False
    there = json.loads(found.read_text())["packages"]
    wanted = json.loads((web / "package-lock.json").read_text())["packages"]
    return all(
        there.get(name, {}).get("version") == package["version"]
        for name, package in wanted.items()
        if name and not _needless(package, development=development)
    )


def _needless(package: dict[str, object], *, development: bool) -> bool:
    """Optional packages are for other machines, mostly."""
    skipped = package.get("optional") or package.get("devOptional")
    return bool(skipped or (package.get("dev") and not development))


def _fetched() -> Node:
    _say("fetching Node.js (60 MB): this machine has none that is new enough")
    return fetch_node()


def _say(text: str) -> None:
    sys.stdout.write(f"▸ {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
