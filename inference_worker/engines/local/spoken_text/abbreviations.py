"""Abbreviations, initials and Roman numerals. Acronyms without dots are left to the voices."""

import re

from antiphon.inference_worker.engines.local.spoken_text.lexicon import (
    ABBREVIATIONS,
    BEFORE_NUMBERS,
    NUMBERED,
    RULERS,
    TITLES,
    WITHOUT_DOT,
)
from antiphon.inference_worker.engines.local.spoken_text.numerals import (
    cardinal,
    ordinal,
    roman,
    year,
)
from antiphon.inference_worker.engines.local.spoken_text.rule import (
    Match,
    ReadingRule,
    after,
    any_of,
    before,
    rule,
)

_LAST_SMALL_ROMAN = 39
_INTO_A_VEIN = re.compile(
    r"(?:drips?|lines?|fluids?|bags?|needles?|pumps?|poles?|tubes?|therapy|access|antibiotics|injections?)\b"
)
_ABBREVIATED = frozenset(["IV", "VI", "XX"])
"""Roman numerals that are abbreviations or names where they do not count."""


def _dot(match: Match) -> str:
    """The dot of an abbreviation at the end of a text also ends the sentence."""
    return "" if after(match) else "."


def _title(match: Match) -> str:
    return TITLES[match["word"]]


def _doctor(match: Match) -> str:
    """Before a name "Doctor", after one "Drive"."""
    if re.match(r"[\"'(]?[A-Z]", after(match)) or not before(match)[:1].isupper():
        return "Doctor" + ("" if after(match) else _dot(match))
    return "Drive" + _dot(match)


def _saint(match: Match) -> str:
    if (
        before(match)[:1].isupper()
        and not before(match).endswith((".", ","))
        and not re.match(r"[A-Z][a-z]+", after(match))
    ):
        return "Street" + _dot(match)
    return "Saint" if after(match) else "Street."


def _before_number(match: Match) -> str:
    return BEFORE_NUMBERS[match["word"]]


def _abbreviation(match: Match) -> str:
    return ABBREVIATIONS[match["word"]] + _dot(match)


def _without_dot(match: Match) -> str:
    return WITHOUT_DOT[match[0]]


def _initials(match: Match) -> str:
    """ "U.S." as letters. They are joined, so that "A" is not an article."""
    letters = match[0].replace(".", "").upper()
    return "-".join(letters) + _dot(match)


def _joined_initials(match: Match) -> str:
    """As in "AT&T"."""
    return f"{'-'.join(match['first'])} and {'-'.join(match['second'])}"


def _degree(match: Match) -> str:
    return "P-H-D" + _dot(match) if match[0].endswith(".") else "P-H-D"


def _roman(match: Match) -> str | None:
    """After a ruler the ordinal, after other names the number."""
    numeral = match["numeral"]
    value = roman(numeral)
    previous = before(match).strip("(\"'")
    if value is not None and len(numeral) >= 4 and 1500 <= value <= 2100:
        return year(value)
    if value is None or not previous or previous[-1] in ".,;:!?":
        return None
    if numeral == "IV" and _INTO_A_VEIN.match(after(match)):
        return _spelled(numeral)
    if previous in RULERS:
        return _ruler(match, numeral, value)
    if previous == "the" and value <= _LAST_SMALL_ROMAN and len(numeral) > 1:
        return ordinal(value)
    if previous in NUMBERED and not (
        numeral == "I" and re.match(r"[a-z]", after(match)) and previous.islower()
    ):
        return cardinal(value)
    titled = previous != previous.lower() and len(numeral) > 1 and value <= _LAST_SMALL_ROMAN
    return cardinal(value) if titled else None


def _ruler(match: Match, numeral: str, value: int) -> str | None:
    rest = match.string[match.end() :].lstrip()
    if (
        numeral == "I"
        and rest
        and not re.match(r"(?:(?:was|of|is|and|died|became|ruled|had|in)\b|[,.;:!?)'])", rest)
    ):
        return None
    return f"the {ordinal(value)}"


def _other_roman(match: Match) -> str | None:
    """A Roman numeral that no other rule reads. eSpeak would say the word "Roman" before it."""
    numeral = match["numeral"].upper()
    value = roman(numeral)
    if value is None or match["numeral"] == "VI":
        return None
    previous, mark = before(match), match.string[match.end() : match.end() + 1]
    counts = mark == ")" or (mark == "." and previous[-1:] in ("", ".", "!", "?", ":"))
    if counts or numeral not in _ABBREVIATED or previous.title() in NUMBERED:
        return cardinal(value)
    return _spelled(numeral)


def _spelled(letters: str) -> str:
    return "-".join(letters)


RULES: tuple[ReadingRule, ...] = (
    rule(rf"(?<![\w.])(?:{any_of(WITHOUT_DOT)})(?![\w+#.])", _without_dot),
    rule(r"\bDr\.", _doctor),
    rule(r"\bSt\.", _saint),
    rule(rf"\b(?P<word>{any_of(TITLES)})\.(?= )", _title),
    rule(
        rf"(?<![\w.])(?P<word>{any_of(BEFORE_NUMBERS)})(?:\.|(?<=№)) ?(?=[\dIVX#])", _before_number
    ),
    rule(r"\b(?P<first>[A-Z]{1,3})&(?P<second>[A-Z]{1,3})\b", _joined_initials),
    rule(r"(?<![\w.])Ph\.?D\b\.?", _degree),
    rule(rf"(?<![\w.])(?P<word>{any_of(ABBREVIATIONS)})\.", _abbreviation),
    rule(r"(?<![\w.])(?:[^\W\d_]\.){2,}", _initials),
    rule(r"(?<![\w.])(?:[^\W\d_]\.)+[^\W\d_](?![\w.])", _initials),
    rule(r"(?<![\w.-])(?P<numeral>[IVXLCDM]+)(?![\w-]|\.\w)", _roman),
    rule(r"(?<![\w.'-])(?P<numeral>[IVX]{2,}|[ivx]{2,})(?![\w-]|\.\w)", _other_roman),
)
