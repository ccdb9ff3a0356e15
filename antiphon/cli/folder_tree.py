"""A folder as a tree of text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

MOST_FILES = 8
_KB = 1000


def folder_tree(folder: Path) -> str:
    """`folder` and all below it, long lists of files shortened in the middle."""
    return "\n".join([f"{folder}/", *_branches(folder, "")])


def _branches(folder: Path, indent: str) -> Iterator[str]:
    entries = sorted(folder.iterdir(), key=lambda path: (path.is_file(), path.name))
    shown: list[Path | None] = list(entries)
    if len(entries) > MOST_FILES:
        half = MOST_FILES // 2
        shown = [*entries[:half], None, *entries[-half:]]
    for number, path in enumerate(shown, start=1):
        last = number == len(shown)
        corner = "└── " if last else "├── "
        if path is None:
            yield f"{indent}{corner}… {len(entries) - MOST_FILES} more"
        elif path.is_dir():
            yield f"{indent}{corner}{path.name}/"
            yield from _branches(path, indent + ("    " if last else "│   "))
        else:
            yield f"{indent}{corner}{path.name}  {_size(path.stat().st_size)}"


def _size(count: int) -> str:
    return f"{count} B" if count < _KB else f"{count / _KB:.1f} kB"
