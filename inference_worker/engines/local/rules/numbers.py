"""Numbers in questions and answers: "twenty-three" and "2.5 million" as digits, and numbers as text."""

import re
from fractions import Fraction

from antiphon.inference_worker.engines.local.spoken_text.numerals import TENS, UNITS

_SMALL = {word: number for number, word in enumerate(UNITS)}
_TENS = {word: 10 * number for number, word in enumerate(TENS) if number >= 2}
_SCALES = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7,
    "eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12, "thirteenth": 13,
    "fourteenth": 14, "fifteenth": 15, "sixteenth": 16, "seventeenth": 17, "eighteenth": 18,
    "nineteenth": 19, "twentieth": 20, "thirtieth": 30,
}  # fmt: skip
_WORD = "|".join([*_SMALL, *_TENS, "hundred", *_SCALES])
_RUN = re.compile(
    rf"\b(?:an?\s+(?=hundred|thousand|million|billion))?(?:{_WORD})"
    rf"(?:(?:\s+and\s+|[\s-]+)(?:{_WORD})|\s+point(?:\s+(?:{'|'.join(_SMALL)}))+)*\b"
)
_SCALED = re.compile(r"(\d+(?:\.\d+)?)\s+(hundred|thousand|million|billion)\b")
_DOZENS = re.compile(r"\b(\d{1,9}) dozen\b")
_ORDINAL = re.compile(rf"\b(?:({'|'.join(_TENS)})[\s-])?({'|'.join(_ORDINALS)})\b")

_MOST_DECIMALS = 4
_MOST_DIGITS = 15


def with_digits(text: str) -> str:
    """`text` (lower case) with its numbers in digits: "a hundred and five" becomes "105"."""
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    text = _RUN.sub(_digits, _SCALED.sub(_scaled, text))
    return _DOZENS.sub(lambda found: str(12 * int(found[1])), text)


def with_ordinals(text: str) -> str:
    """`text` with its ordinals in digits: "the twenty-first" becomes "the 21st"."""
    return _ORDINAL.sub(
        lambda found: ordinal(_TENS.get(found[1] or "", 0) + _ORDINALS[found[2]]), text
    )


def ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 <= number % 100 <= 20 else suffix}"


def said(number: Fraction) -> str:
    """`number` as text: grouped from 10,000 on, with at most four decimals."""
    if number.denominator == 1:
        whole = int(number)
        if abs(whole) >= 10**_MOST_DIGITS:
            return f"about {_scientific(whole)}"
        return f"{whole:,}" if abs(whole) >= 10_000 else str(whole)
    value = float(number)
    text = f"{value:.{_MOST_DECIMALS}f}" if abs(value) >= 0.001 else f"{value:.10f}"
    text = text.rstrip("0").rstrip(".")
    whole_part, _, decimals = text.partition(".")
    grouped = f"{int(whole_part):,}" if len(whole_part.lstrip("-")) > 4 else whole_part
    return f"{grouped}.{decimals}" if decimals else grouped


def is_rounded(number: Fraction) -> bool:
    """Whether `said` leaves decimals out."""
    return bool((number * 10**_MOST_DECIMALS).denominator != 1)


def _scientific(whole: int) -> str:
    digits = str(abs(whole))
    sign = "minus " if whole < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:3]} times 10 to the power of {len(digits) - 1}"


def _scaled(found: re.Match[str]) -> str:
    factor = {"hundred": 100, **_SCALES}[found[2]]
    return str(said(Fraction(found[1]) * factor)).replace(",", "")


def _digits(found: re.Match[str]) -> str:
    """The digits of a run of number words. Words that do not form one number stay apart."""
    whole, point, decimals = found[0].partition(" point ")
    words = [word for word in re.split(r"[\s-]+", whole) if word not in ("and", "a", "an")]
    numbers: list[int] = []
    total = part = 0
    previous = 0
    for index, word in enumerate(words):
        value = _SMALL.get(word, _TENS.get(word))
        if value is not None:
            fits = index == 0 or previous >= 100 or (previous in _TENS.values() and 0 < value < 10)
            if not fits:
                numbers.append(total + part)
                total = part = 0
            part += value
            previous = value
        elif word == "hundred":
            previous = 100
            part = (part or 1) * previous
        else:
            previous = _SCALES[word]
            total += (part or 1) * previous
            part = 0
    numbers.append(total + part)
    text = " ".join(str(number) for number in _joined_year(numbers))
    if point:
        text += "." + "".join(str(_SMALL[word]) for word in decimals.split() if word in _SMALL)
    return text


def _joined_year(numbers: list[int]) -> list[int]:
    """ "nineteen ninety-nine" is one number, 1999."""
    if len(numbers) == 2 and 13 <= numbers[0] <= 20 and 10 <= numbers[1] <= 99:
        return [numbers[0] * 100 + numbers[1]]
    return numbers


def counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
