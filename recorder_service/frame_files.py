"""Camera frames on disk: the client's JPEG bytes, untouched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from antiphon.recorder_service.files import write_whole


def frame_name(chunk: int, place: int) -> str:
    """Where a chunk's frame lies: `000.jpg`, further ones of the same chunk `000_1.jpg` and so on."""
    suffix = f"_{place}" if place else ""
    return f"user_frames/{chunk:03d}{suffix}.jpg"


def save_frames(folder: Path, chunk: int, frames: Sequence[bytes]) -> dict[str, int]:
    """Write a chunk's frames below a session directory; returns name → size."""
    sizes: dict[str, int] = {}
    for place, frame in enumerate(frames):
        name = frame_name(chunk, place)
        write_whole(folder / name, frame)
        sizes[name] = len(frame)
    return sizes
