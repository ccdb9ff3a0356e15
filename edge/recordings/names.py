"""Which names may be asked for. Pure; what is not plainly a recording's file is refused by its form."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from antiphon.shared_schemas.ids import is_recording_id
from antiphon.shared_schemas.recording import TIMELINE_FILE

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")
_MOST_PARTS = 4
_SHOWN = 60


class BadName(ValueError):
    """Not the name of a recording, or of a file that one may hold; the message says what is."""


def check_recording_id(text: str) -> str:
    """The same text. Raises BadName."""
    if not is_recording_id(text):
        raise BadName(
            "session id: a recording's id is 32 hexadecimal digits, "
            "the `recording_session_id` that the session was told"
        )
    return text


def asset_parts(path: str) -> tuple[str, ...]:
    """The folders and the file that a relative path names, one by one. Raises BadName.

    Every part is plain ASCII and begins with no dot, so that neither `..`, hidden files, other
    separators nor anything encoded twice gets by.
    """
    parts = tuple(path.split("/"))
    if not is_asset(parts):
        raise BadName(
            f"asset path: {path[:_SHOWN]!r} names no file of a recording; "
            "one looks like user_audio/000.wav"
        )
    return parts


def is_asset(parts: tuple[str, ...]) -> bool:
    """True when these may be the folders and the file of an asset."""
    plain = 0 < len(parts) <= _MOST_PARTS and all(_PART.match(part) for part in parts)
    return plain and parts != (TIMELINE_FILE,)


_TYPES = {
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".webm": "video/webm",
    ".mp4": "video/mp4",
    ".mov": "video/quicktime",
    ".vtt": "text/vtt; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}


def media_type(path: str) -> str | None:
    """What a browser may show a file as; None: it is to be saved, not shown."""
    return _TYPES.get(PurePosixPath(path).suffix.lower())
