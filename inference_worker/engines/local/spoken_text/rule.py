"""A rule: a pattern at a place in the text, and how it is spoken."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

NEXT_WORD = "\n"
"""In what a rule says: the rest belongs to the next shown word of its match."""

NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
DASH = "[-–−‐‑]"
LETTER = r"(?:(?![²³¹⁰-₉¼-¾⅐-ⅿ①-⑳])[^\W\d_])"
LETTERS = "A-Za-zÀ-ÖØ-öø-ɏ"

Match = re.Match[str]
Reading = str | Callable[[Match], str | None]
"""What is said, or a function that returns it: None if the rule does not apply to the match."""

_SENTENCE_ENDS = (". ", "? ", "! ", "; ")
_SUM = re.compile(r"[=≈<>≤≥≠]|\d ?[+*×÷·^] ?[\d(]")
_VARIABLE_BEFORE = re.compile(r"(?<![^\W\d_])[^\W_]$")
_VARIABLE_AFTER = re.compile(r"[^\W\d_](?![^\W_])")


@dataclass(frozen=True, slots=True)
class ReadingRule:
    """What is said in place of a match of `pattern`."""

    pattern: re.Pattern[str]
    reading: Reading

    def read(self, text: str, at: int) -> tuple[str, int] | None:
        """What is said at `at`, and where the match ends; None if the rule does not apply there."""
        found = self.pattern.match(text, at)
        if found is None or found.end() == at:
            return None
        said = self.reading if isinstance(self.reading, str) else self.reading(found)
        return None if said is None else (said, found.end())


def rule(pattern: str, reading: Reading) -> ReadingRule:
    return ReadingRule(re.compile(pattern), reading)


def any_of(texts: Iterable[str]) -> str:
    """A pattern for one of `texts`, the longest that matches."""
    return "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))


def before(match: Match) -> str:
    """The shown word that ends at the match or before it."""
    return match.string[: match.start()].rstrip().rpartition(" ")[2]


def after(match: Match) -> str:
    """The shown word that begins at the end of the match or after it."""
    return match.string[match.end() :].lstrip().partition(" ")[0]


def is_in_sum(match: Match) -> bool:
    """True if the sentence of the match calculates or compares."""
    text = match.string
    first = max(text.rfind(mark, 0, match.start()) for mark in _SENTENCE_ENDS) + 1
    last = min(text.find(mark, match.end()) % (len(text) + 1) for mark in _SENTENCE_ENDS)
    return bool(_SUM.search(text, first, last))


def has_operand_before(match: Match) -> bool:
    """True for a number, a variable or a bracket before a sign."""
    word = before(match)
    return bool(word) and (
        word[-1].isnumeric() or word[-1] in ")]}%°π∞!" or bool(_VARIABLE_BEFORE.search(word))
    )


def has_operand_after(match: Match) -> bool:
    """True for a number, a variable or a bracket after a sign."""
    word = after(match).lstrip("+-−")
    return bool(word) and (
        word[0].isnumeric() or word[0] in "([{√π∞\\.$€£" or bool(_VARIABLE_AFTER.match(word))
    )
