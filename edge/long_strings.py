"""Cuts long strings out of JSON text, so that the parser reads a short one: it stops all other threads."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.shared_schemas.errors import ErrorCode, InvalidInput

MAX_OTHER_BYTES = 4 * 1024 * 1024
"""Of the text without its long strings. The parser takes 6 ms for this many."""

_WINDOW_BYTES = 2048
"""A string of twice this length contains a whole window, whose only quotes would be its own."""

_BLOCK_BYTES = 1024 * 1024
_NOT_IN_FRONT = b" \t\r\n,:]}"
"""One of these follows a string. A long string that begins with it is not cut out."""


@dataclass(frozen=True, slots=True)
class CutText:
    """A JSON text with a short name in the place of each long string."""

    text: bytes
    strings: dict[str, memoryview]
    """The content of each long string, as it is written in the text, by its name."""


def cut_long_strings(text: bytes | bytearray) -> CutText:
    """Raises InvalidInput if what is left is longer than MAX_OTHER_BYTES.

    If the text is JSON, what is left is JSON; if it is not, the parser refuses what is left, or what
    was cut out is not valid. No text can contain one of the names, which are random.
    """
    view, prefix = memoryview(text), secrets.token_hex(8)
    left: list[bytes] = []
    strings: dict[str, memoryview] = {}
    kept = size = 0
    for start, end in _long_strings(text):
        name = f"{prefix}-{len(strings)}"
        strings[name] = view[start:end]
        size = _add(left, view[kept:start], size)
        size = _add(left, memoryview(name.encode()), size)
        kept = end
    _add(left, view[kept:], size)
    return CutText(b"".join(left), strings)


def _add(left: list[bytes], piece: memoryview, size: int) -> int:
    """Raises InvalidInput before it copies too much."""
    size += len(piece)
    if size > MAX_OTHER_BYTES:
        limit = f"the limit is {MAX_OTHER_BYTES}; send less text"
        raise InvalidInput(
            f"message with more than {size} bytes besides its media, {limit}",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )
    left.append(bytes(piece))
    return size


def _long_strings(text: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """The content of each long string without quotes in it.

    Looks at whole windows: text that is full of quotes takes no longer than other text.
    """
    opening, at = -1, 0
    while at < len(text):
        last = text.rfind(b'"', at, at + _WINDOW_BYTES)
        if last >= 0:
            opening, at = last, at + _WINDOW_BYTES
            continue
        closing = _find_quote(text, at + _WINDOW_BYTES)
        if closing < 0:
            return
        if opening >= 0 and _is_string(text, opening, closing):
            yield opening + 1, closing
        opening, at = closing, closing + 1


def _find_quote(text: bytes | bytearray, start: int) -> int:
    for at in range(start, len(text), _BLOCK_BYTES):
        if (found := text.find(b'"', at, at + _BLOCK_BYTES)) >= 0:
            return found
    return -1


def _is_string(text: bytes | bytearray, opening: int, closing: int) -> bool:
    """Whether what is between two quotes is one whole string, if the text is JSON.

    A backslash before the first quote: that quote is part of a string, or ends one. A backslash before
    the second one: it may be part of the string.
    """
    backslash = ord("\\")
    return (
        text[opening - 1 : opening] != b"\\"
        and text[closing - 1] != backslash
        and text[opening + 1] not in _NOT_IN_FRONT
    )
