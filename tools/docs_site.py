"""Builds the documentation as a website in build/site: docs_site.py [--optional].

GitHub shows the documents where they are in the repository; mkdocs needs them in one folder. This
program copies them into build/docs, adapts the links between them, and runs mkdocs, which fails on
any broken link or anchor. It uses the standard library only, and uv installs mkdocs into
.venv-docs. With `--optional`, a missing package index is only reported.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

from install import LOCK, CannotInstall, Uv
from uv_program import NoUv, find_uv

ROOT = Path(__file__).resolve().parent.parent
STAGED = ROOT / "build" / "docs"
ENVIRONMENT = ROOT / ".venv-docs"
DIAGRAM = re.compile(r"```mermaid\n.*?```", re.DOTALL)
LINK = re.compile(r"(\]\(|<img src=\")([^)\s\"#]+)")


def main(words: list[str]) -> int:
    """Exit status of mkdocs, whose output is shown if it fails; 2 if it cannot be installed."""
    if not _install(ENVIRONMENT):
        sys.stderr.write("mkdocs cannot be installed, so the documentation was not built\n")
        return 0 if "--optional" in words else 2
    stage(STAGED)
    # mkdocs counts only the warnings that it would print, so `--quiet` would turn `strict` off.
    mkdocs = [str(ENVIRONMENT / "bin" / "mkdocs"), "build", "--strict"]
    built = subprocess.run(mkdocs, cwd=ROOT, capture_output=True, text=True)
    sys.stdout.write(built.stderr if built.returncode else f"{ROOT / 'build/site/index.html'}\n")
    return built.returncode


def published() -> dict[str, str]:
    """Files of the website, as paths in the repository and paths below `docs_dir`."""
    root = [*ROOT.glob("*.md"), ROOT / "LICENSE"]
    engines = ROOT.glob("inference_worker/engines/*/README.md")
    files = [*root, *ROOT.glob("examples/*.*"), *engines, *(ROOT / "docs").rglob("*.*")]
    names = [path.relative_to(ROOT).as_posix() for path in files]
    places = {name: name.removeprefix("docs/").replace("README", "index") for name in names}
    return places | {"README.zh.md": "zh/index.md"}


def stage(folder: Path) -> None:
    """Copy every file of the website into `folder`, replacing what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    places = published()
    for source, target in places.items():
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        if source.endswith(".md"):
            path.write_text(with_links(with_pictures((ROOT / source).read_text()), source, places))
        else:
            shutil.copyfile(ROOT / source, path)


def with_pictures(text: str) -> str:
    """The document with a picture in place of the diagram, which Material needs another host for."""
    description = "Clients connect to edges; edges, workers and recorders use streams of Redis"
    return DIAGRAM.sub(f"![{description}](images/architecture.svg)", text)


def with_links(text: str, source: str, places: dict[str, str]) -> str:
    """The document with its relative links as they are on the website.

    A link to a file that is not published stays as it is; mkdocs reports it.
    """

    def adapted(match: re.Match[str]) -> str:
        linked = os.path.normpath(PurePosixPath(source).parent / match[2])
        if linked not in places:
            return match[0]
        start = PurePosixPath(places[source]).parent
        return match[1] + os.path.relpath(places[linked], start)

    return LINK.sub(adapted, text)


def _install(folder: Path) -> bool:
    """Install the group `docs` of pyproject.toml, without Antiphon. False if that fails."""
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text() == LOCK.read_text():
        return True
    try:
        uv = Uv(find_uv(), folder)
        uv.run("venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        uv.install("--requirement", str(uv.export("packages", "--only-group", "docs")))
    except (CannotInstall, NoUv) as error:
        sys.stderr.write(f"\n{error}\n")
        return False
    stamp.write_text(LOCK.read_text())
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
