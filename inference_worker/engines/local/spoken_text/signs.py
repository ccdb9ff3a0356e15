"""Signs, whose meaning depends on what is beside them."""

import re
import unicodedata

from antiphon.inference_worker.engines.local.spoken_text.lexicon import (
    ARROWS,
    GREEK,
    LATEX,
    SIGNS,
    UNITS,
)
from antiphon.inference_worker.engines.local.spoken_text.numerals import cardinal
from antiphon.inference_worker.engines.local.spoken_text.rule import (
    DASH,
    Match,
    ReadingRule,
    after,
    any_of,
    before,
    has_operand_after,
    has_operand_before,
    is_in_sum,
    rule,
)

_PAUSE = ","
_DASH = "—"
_RANGE_BEGINS = re.compile(
    rf"(?:^|\d)[ap]\.?m\.?$|\d(?:st|nd|rd|th|{any_of(UNITS)})$", re.IGNORECASE
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ", "0123456789-n")


def _touches(match: Match) -> tuple[bool, bool]:
    """Whether the match has a character directly before it, and directly after it."""
    text = match.string
    return text[: match.start()][-1:].strip() != "", text[match.end() :][:1].strip() != ""


def _times(match: Match) -> str:
    left, right = _touches(match)
    if has_operand_before(match) and has_operand_after(match):
        return "times"
    apart = not left and not right and before(match)[-1:].isalnum() and after(match)[:1].isalnum()
    return "times" if apart else ""


def _cross(match: Match) -> str | None:
    """ "x" between numbers: "by" for sizes, "times" otherwise."""
    if not before(match)[-1:].isdecimal() or not after(match)[:1].isdecimal():
        return None
    return "times" if is_in_sum(match) or not any(_touches(match)) else "by"


def _dash(match: Match) -> str:
    left, right = _touches(match)
    operands = has_operand_before(match) and has_operand_after(match)
    if left and right:
        return _dash_inside(match, operands=operands)
    if right:
        return _negative(match)
    if left:
        return ""
    if (
        re.search(r"(?:^|\d)[ap]\.?m\.?$", before(match), re.IGNORECASE)
        and after(match)[:1].isdecimal()
    ):
        return "to"
    if not operands:
        return _DASH if before(match) and after(match) else ""
    return _between(match) if _numbers_beside(match) else "minus"


def _dash_inside(match: Match, *, operands: bool) -> str:
    """A hyphen, a range or a difference without spaces."""
    first, second = before(match), after(match)
    if first[-1] in "=<>+*/^":
        return "minus"
    if first[-1] == "(":
        return _negative(match)
    if operands and is_in_sum(match):
        return "minus"
    if re.search(r"\ds?$", first) and second[0].isdecimal():
        ends = re.search(r"\d*s?$", first), re.match(r"\d*s?", second)
        return " " if ends[0] and ends[1] and ends[0][0] == ends[1][0] else "to"
    if operands and (re.search(r"(?<![A-Za-z0-9])[a-z]$", first) and second[0].isdecimal()):
        return "minus"
    if _RANGE_BEGINS.search(first) and re.match(r"[$€£¥]?\d", second):
        return "to"
    if match[0] == "–" and first[-1].isalpha() and second[0].isalpha():
        return " "
    return "-" if first[-1].isalpha() and second[0].isalpha() else " "


def _negative(match: Match) -> str:
    """Not for the option of a command: "-x" is negative only before another sign."""
    following = match.string[match.end() :]
    amount = re.match(r"[.]?\d|[$€£¥√π∞]", following)
    return "minus" if amount or re.match(r"[a-z][\d^²³]*\)? ?[-+*/=<>]", following) else ""


def _numbers_beside(match: Match) -> bool:
    return bool(re.search(r"\d[%°]?$", before(match)) and re.match(r"[$€£¥]?\d", after(match)))


def _between(match: Match) -> str:
    """ "to" for an ascending range, "minus" for a difference."""
    first = re.search(r"\d+(?:\.\d+)?$", before(match).rstrip("%°").replace(",", ""))
    second = re.match(r"\d+(?:\.\d+)?", after(match).lstrip("$€£¥").replace(",", ""))
    ascending = first and second and float(first[0]) < float(second[0])
    return "minus" if is_in_sum(match) or not ascending else "to"


def _plus(match: Match) -> str:
    return "plus" if before(match) or after(match) else ""


def _slash(match: Match) -> str:
    left, right = _touches(match)
    if has_operand_before(match) and has_operand_after(match):
        return "divided by"
    return _PAUSE if not (left and right) and before(match) and after(match) else " "


def _less(match: Match) -> str:
    """Silent where it is a tag or an emoticon."""
    left, right = _touches(match)
    spaced = not left and not right and before(match) and after(match)
    operands = has_operand_before(match) and has_operand_after(match)
    if not (spaced or operands) and not (
        not left and right and after(match)[:1].isdecimal() and match[0] == ">"
    ):
        return ""
    return (
        f"is {'less' if match[0] == '<' else 'greater'} than" if spaced or operands else "more than"
    )


def _power(match: Match) -> str:
    return _raised(match["power"].strip("{}()"))


def _raised(power: str) -> str:
    return {"2": "squared", "3": "cubed"}.get(power) or f"to the power of {_exponent(power)}"


def _exponent(power: str) -> str:
    minus = "minus " if power[0] in "-−" else ""
    rest = power.lstrip("-−")
    return minus + (cardinal(int(rest)) if rest.isdecimal() and len(rest) < 15 else rest)


def _superscript(match: Match) -> str:
    """The power of a number or a variable; a footnote's number is silent."""
    power = match[0].translate(_SUPERSCRIPTS)
    raised = has_operand_before(match) or re.search(r"(?<![A-Za-z])[A-Za-z]{1,3}$", before(match))
    return _raised(power) if raised and re.fullmatch(r"-?(?:\d+|n)", power) else ""


def _subscript(match: Match) -> str:
    return " ".join(cardinal(unicodedata.digit(digit)) for digit in match[0])


def _number_sign(match: Match) -> str:
    return "number" if after(match)[:1].isdecimal() else ""


def _at(match: Match) -> str:
    return "at" if before(match) and after(match) else ""


def _sign(match: Match) -> str:
    return SIGNS[match[0]]


def _pause(match: Match) -> str:
    return _PAUSE if before(match) and after(match) else ""


def _list_mark(match: Match) -> str | None:
    """The bracket of "1) one", which no other opens."""
    text, at = match.string, match.start()
    return None if text.count("(", 0, at) > text.count(")", 0, at) else _PAUSE


def _greek(match: Match) -> str:
    """A letter alone: "π", "Δx". Greek words are another script."""
    return GREEK.get(match[0].lower().replace("ς", "σ"), "")


def _latex(match: Match) -> str:
    name = match["name"]
    return LATEX.get(name, name)


RULES: tuple[ReadingRule, ...] = (
    rule(r"(?<![^ (])[:;=8][o'-]?[)(DPp|/](?!\w)", ""),
    rule(r"(?<=[\d)])!(?= ?[-=+*/×÷])", "factorial"),
    rule(r"\\(?P<name>[A-Za-z]+)", _latex),
    rule(r"(?<=\w)\}\{(?=[\w\\])", "over"),
    rule(r"(?<=[^\W_])\[\^?\d+\]|(?<=[.,!?])\[\^?\d+\]|\[\^\w+\]", ""),
    rule(rf"\*(?:\s+\*)+|[=_~*#+]{{4,}}|{DASH}{{3,}}", ""),
    rule(r"(?<=\w)-{2,3}(?=\w)|(?<= )-{2,3}(?= )", _DASH),
    rule(r"-{2,3}", ""),
    rule(r"(?<![^ ]\w)(?<=\w)\)", _list_mark),
    rule(any_of(ARROWS), _pause),
    rule(r"(?:\^|(?<=\w)\*\*(?=[-\d\w(]))(?P<power>\{-?\w+\}|\(-?\w+\)|[-−]?\w+)", _power),
    rule(r"[⁰¹²³⁴-⁹⁻ⁿ]+", _superscript),
    rule(r"[₀-₉]+", _subscript),
    rule(r"<3(?!\d)(?=\W|$)(?<![\d)] <3)(?<!\b[a-z] <3)", ""),
    rule(any_of(SIGNS), _sign),
    rule(r"[*×·⋅]", _times),
    rule(r"(?<![^\W\d_])[xX](?![^\W\d_])", _cross),
    rule(r"(?<=\d):(?=\d)", "to"),
    rule(DASH, _dash),
    rule(r"\+", _plus),
    rule(r"[/⁄]", _slash),
    rule(r"[<>]", _less),
    rule(r"[~∼](?=[\d$€£])", "about"),
    rule(r"#", _number_sign),
    rule(r"@", _at),
    rule(r"[|•]", _pause),
    rule(r"(?<![Ͱ-Ͽ])[Α-Ωα-ω](?![Ͱ-Ͽ])", _greek),
)
