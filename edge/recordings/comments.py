"""The comment of a recording: one small text file. Both calls block."""

from __future__ import annotations

from antiphon.edge.recordings.incoming import Incoming, remove
from antiphon.edge.recordings.shelf import NotThere, Shelf

COMMENT_FILE = "comment.txt"


def read_comment(shelf: Shelf, recording: str) -> str:
    """The comment, '' where there is none. Raises what Shelf raises."""
    try:
        return shelf.read(recording, COMMENT_FILE).decode(errors="replace")
    except NotThere:
        return ""


def write_comment(shelf: Shelf, recording: str, data: bytes) -> None:
    """Keep a comment (UTF-8) in the place of the one before; delete it when `data` is empty."""
    if not data:
        remove(shelf, recording, COMMENT_FILE)
        return
    incoming = Incoming(shelf)
    try:
        incoming.write(data)
        incoming.keep(recording, COMMENT_FILE)
    finally:
        incoming.discard()
