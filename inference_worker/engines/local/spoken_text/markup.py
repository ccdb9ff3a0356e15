"""Removes the markup from a stream of words. What remains is shown."""

import re
import unicodedata
from dataclasses import dataclass

_BULLET = re.compile(r"[-*+•–>|]|#{1,6}")
_RULE = re.compile(r"[-:|=_*+]{3,}")
_FENCE = re.compile(r"(?:```+|~~~+)[^`~]*")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)")
_LINK_END = re.compile(r"\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)")
_AUTOLINK = re.compile(r"<((?:https?://|mailto:)[^>]+|[^@<>]+@[^@<>]+)>")
_TAG = re.compile(
    r"</?(?:a|b|i|u|s|em|br|hr|p|li|ul|ol|sub|sup|kbd|code|span|strong|mark|small)\s*/?>",
    re.IGNORECASE,
)
_LATEX = re.compile(r"\\[()\[\]]|\$\$")
_LATEX_WORD = re.compile(r"^(\W*)\$([^$\s]*[^$\s\d.,][^$\s]*)\$(\W*)$")
_MATH_BEGINS = re.compile(r"^\$(?=[A-Za-z](?![A-Za-z])|\\)")
_MATH_ENDS = re.compile(r"\$(?=\W*$)")
_ESCAPED = re.compile(r"\\([*_#`~$%&<>|+.!\-])")
_HIDDEN = 0xE000
"""Signs that a backslash protects are private characters while the markup is removed."""
_HIDDEN_SIGNS = re.compile("[\ue020-\ue07e]")

_QUOTES = r"""[(\["'“‘«]*"""
_CLOSERS = r"""(?:[)\]"'”’».,;:!?…—–-]|['’]s)*"""
_PAIRS = (
    re.compile(r"(?<![\d*])(\*{2,3})([^*\s](?:[^*]*[^*\s])?)\1(?![\d*])"),
    re.compile(r"(?<![\w)*])(\*)([^*\s](?:[^*]*[^*\s])?)\1(?![\w*])"),
    re.compile(r"(?<!\w)(_{1,3})([^_\s](?:.*[^_\s])?)\1(?!\w)"),
    re.compile(r"(~~)([^~\s]+)\1"),
)
_OPENING = re.compile(rf"^({_QUOTES})(\*{{1,3}}|_{{1,3}}|~~)(?=[^\s*_~])")
_CLOSING = re.compile(rf"(?<=[^\s*_~])(\*{{1,3}}|_{{1,3}}|~~)({_CLOSERS})$")

_LONGEST_MARKUP = 2000
"""A longer word is data. Patterns would take long for it."""

_INVISIBLE = ("Cs", "Co", "Cn", "Cc", "Cf")
_JOINERS = frozenset("\u200c\u200d") | {chr(code) for code in range(0xE0020, 0xE0080)}
"""Invisible characters that are a part of emoji and of some scripts."""


@dataclass(frozen=True, slots=True)
class ShownWord:
    """A word without markup. `code`: it is in a block of code. `ends_link`: it ends a link's text."""

    text: str
    code: bool = False
    ends_link: bool = False


class Markup:
    """Follows the markup from word to word. It needs no later word."""

    def __init__(self) -> None:
        self._in_block = False
        self._in_code = False
        self._in_table = False
        self._in_math = False
        self._open: list[str] = []
        self._operand_before = False

    def strip(self, raw: str, *, begins_line: bool) -> ShownWord:
        """`raw` as it is shown; empty if it is markup alone.

        A mark that means something is kept: "12 * 4". So are all letters and digits, apart from the
        target of a link and the language of a block of code.
        """
        if _FENCE.fullmatch(raw) and (begins_line or self._in_block):
            self._in_block = not self._in_block
            return ShownWord("")
        if self._in_block:
            return self._block_word(raw)
        if begins_line:
            self._open.clear()
            self._in_table = raw.startswith("|")
            if _BULLET.fullmatch(raw) or _RULE.fullmatch(raw):
                return ShownWord("")
        elif self._in_table and _RULE.fullmatch(raw):
            return ShownWord("")
        return self._inline(raw)

    def _block_word(self, raw: str) -> ShownWord:
        if raw.endswith("```"):
            self._in_block, raw = False, raw.removesuffix("```")
        return ShownWord(_visible(raw), code=True)

    def _inline(self, raw: str) -> ShownWord:
        raw = _visible(raw)
        if len(raw) > _LONGEST_MARKUP:
            return ShownWord(raw)
        ticks = len(re.findall("`+", raw))
        is_code = self._in_code or ticks > 0
        if ticks % 2:
            self._in_code = not self._in_code
        text = raw.replace("`", "")
        ends_link = False
        if not is_code:
            text = _ESCAPED.sub(lambda found: chr(_HIDDEN + ord(found[1])), text)
            text = _AUTOLINK.sub(r"\1", _TAG.sub("", _LINK.sub(r"\1", text)))
            ends_link = bool(_LINK_END.search(text))
            text = _LINK_END.sub("", text)
            text = self._unemphasised(self._without_math_signs(text))
            text = _HIDDEN_SIGNS.sub(lambda found: chr(ord(found[0]) - _HIDDEN), text)
        if text:
            self._operand_before = text[-1].isdecimal() or text[-1] in ")="
        return ShownWord(text, ends_link=ends_link)

    def _without_math_signs(self, text: str) -> str:
        """`text` without the signs around a formula: "\\(", or "$" before a variable and after it."""
        text = _LATEX_WORD.sub(r"\1\2\3", _LATEX.sub("", text))
        text, begins = _MATH_BEGINS.subn("", text)
        self._in_math |= begins > 0
        if self._in_math and _MATH_ENDS.search(text):
            self._in_math = False
            text = _MATH_ENDS.sub("", text)
        return text

    def _unemphasised(self, text: str) -> str:
        """`text` without marks of emphasis, which may have begun or may end in another word."""
        for pair in _PAIRS:
            text = pair.sub(r"\2", text)
        while (opening := _OPENING.match(text)) and not self._calculates(text[opening.end() :]):
            self._open.append(opening[2])
            text = opening[1] + text[opening.end() :]
        while (closing := _CLOSING.search(text)) and (mark := self._closed_by(closing[1])):
            text = text[: closing.start()] + closing[1][len(mark) :] + closing[2]
        return text

    def _calculates(self, rest: str) -> bool:
        """True if a sign before `rest` belongs to a sum: "12 *4"."""
        return self._operand_before and rest[0].isdecimal()

    def _closed_by(self, marks: str) -> str:
        """The open mark that `marks` end, which is open no longer; empty if there is none."""
        for mark in reversed(self._open):
            if marks.startswith(mark):
                self._open.remove(mark)
                return mark
        return ""


def _visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        for character in text
        if unicodedata.category(character) not in _INVISIBLE or character in _JOINERS
    )
