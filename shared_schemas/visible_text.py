"""Text of clients as a terminal may get it: nothing that controls the terminal or that is invisible."""

import re
import unicodedata
from collections.abc import Iterator

MARK = "\N{REPLACEMENT CHARACTER}"
"""In place of what is not shown."""

MAX_MARKS = 4
"""Combining characters on one letter. Vietnamese and Thai need two, Hebrew with its accents four."""

_JOINED = (
    "\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\ufb50-\ufdff\ufe70-\ufefc"  # scripts
    "\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"  # pictures
)
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # fillers, Arabic letter mark
    "\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"  # zero width, separators, bidirectional controls
    "\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"  # surrogates, annotations
    "\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # tags
)
_NOT_SHOWN = re.compile(
    rf"[{_UNSEEN}]"
    # Joiners shape words of some scripts and pictures of people; elsewhere they hide.
    rf"|(?<![{_JOINED}])[\u200c\u200d]|[\u200c\u200d](?![{_JOINED}])"
    r"|(?<![#*0-9\xa9\xae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]"
)


def visible(text: str) -> str:
    """The text with MARK for each character that is not shown. Tabs and newlines stay."""
    text = _NOT_SHOWN.sub(MARK, text.replace("\r\n", "\n"))
    return text if text.isascii() else "".join(_without_stacks(text))


def visible_line(text: str) -> str:
    """The same on one line, so that no text pretends to be the next line."""
    return " ".join(visible(text).replace("\t", " ").split("\n"))


def visible_json(document: str) -> str:
    """JSON with the same value, in which the characters that are not shown are escapes."""
    return _NOT_SHOWN.sub(lambda found: _escaped(found[0]), document)


def is_visible(text: str) -> bool:
    """True if the whole text is shown as it is, on one line."""
    return text == visible_line(text)


def _without_stacks(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if marks <= MAX_MARKS:
            yield character
        elif marks == MAX_MARKS + 1:
            yield MARK


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
