"""A file made of pieces that nobody sees before it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def write_pieces(target: Path, pieces: Iterable[bytes]) -> int:
    """Write them one after the other; returns the size. Raises OSError, and leaves nothing then."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    size = 0
    try:
        with temporary.open("xb") as file:
            for piece in pieces:
                size += file.write(piece)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return size
