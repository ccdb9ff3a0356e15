"""Makes a model's words fit for speech: no markup, no symbols that cannot be read out."""

from __future__ import annotations

import re
import unicodedata

_BULLET = re.compile(r"[-*+•–]|#{1,6}")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_SCHEME = re.compile(r"https?://(?:www\.)?")
_DOLLARS = re.compile(r"\$(\d[\d,]*(?:\.\d+)?)")
_MARKUP = re.compile(r"[*_`~#|<>\\^{}\[\]\"]+")
_MARKUP_INSIDE = re.compile(rf"(?<=[^\W_]){_MARKUP.pattern}(?=[^\W_])")
_ALONE = {"&": "and", "+": "plus", "=": "equals", "@": "at"}
_READ_OUT = (
    ("%", " percent"),
    ("°C", " degrees Celsius"),
    ("°F", " degrees Fahrenheit"),
    ("°", " degrees"),
    ("€", " euros"),
    ("£", " pounds"),
)
_TYPOGRAPHY = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "…": "...", "\u00a0": " "})
_SPEECHLESS = ("So", "Sk", "Cs", "Co", "Cn", "Cc", "Cf")


def spoken_word(raw: str, *, begins_line: bool) -> str:
    """`raw` (one whitespace-delimited word) as it is spoken; "" if there is nothing to say.

    A list bullet or a heading mark at the beginning of a line is dropped.
    """
    if (begins_line and _BULLET.fullmatch(raw)) or raw.startswith("```"):
        return ""
    text = _LINK.sub(r"\1", raw.translate(_TYPOGRAPHY))
    text = _DOLLARS.sub(r"\1 dollars", _SCHEME.sub("", text))
    for symbol, words in _READ_OUT:
        text = text.replace(symbol, words)
    text = _MARKUP.sub("", _MARKUP_INSIDE.sub(" ", _ALONE.get(text, text)))
    text = "".join(c for c in text if unicodedata.category(c) not in _SPEECHLESS)
    return " ".join(text.split())


def is_speakable(word: str) -> bool:
    """True where `word` makes a sound of its own; a lone dash or full stop does not."""
    return any(character.isalnum() for character in word)
