"""Checks of the pictures that a program sends."""

from __future__ import annotations

from typing import Any


def check_frames(frames: Any) -> list[bytes]:
    """The same pictures. Raises TypeError unless they are a list or a tuple of bytes."""
    if not isinstance(frames, list | tuple):
        raise TypeError(f"frames is a {type(frames).__name__}, a list of JPEG files is needed")
    for number, frame in enumerate(frames):
        if not isinstance(frame, bytes):
            kind = type(frame).__name__
            raise TypeError(
                f"frames[{number}] is a {kind}, the bytes of a JPEG file are needed: "
                'Path("photo.jpg").read_bytes()'
            )
    return list(frames)
