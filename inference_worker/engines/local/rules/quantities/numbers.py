"""Numbers in questions and answers: "twenty-three" and "2.5 million" as digits, and numbers as text."""

import math
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
_SCALE = "|".join(_SCALES)
_RUN = re.compile(
    rf"\b(?:an?\s+(?=hundred|{_SCALE}))?(?:{_WORD})"
    rf"(?:(?:\s+and\s+|[\s-]+)(?:{_WORD})|\s+point(?:\s+(?:{'|'.join(_SMALL)}))+)*\b"
)
_SCALED = re.compile(rf"(?<!\d)(\d+(?:\.\d+)?)((?:\s+(?:hundred|{_SCALE}))+)\b")
_POINT_FIRST = re.compile(r"(?<![^\s(+*/×÷^$€£=<>-])\.(?=\d)")
_DOZENS = re.compile(r"\b(\d{1,9}) dozen\b|\ba dozen(?= (?:times|plus|minus|divided|multiplied)\b)")
_AND_A_HALF = re.compile(
    r"(?<![\d.])(\d{1,15}) and (?:a (half|quarter)|3 quarters)\b(?!-)(?: (1000|1000000|1000000000)\b)?"
)
_DECIMALS = {"half": "5", "quarter": "25", None: "75"}
_ORDINAL = re.compile(rf"\b(?:({'|'.join(_TENS)})[\s-])?({'|'.join(_ORDINALS)})\b")

_MOST_DECIMALS = 4
_MOST_DIGITS = 15
_LARGEST = 10**_MOST_DIGITS
_FEW_DECIMALS_FROM = Fraction(1, 1000)
_SMALLEST = Fraction(1, 1_000_000)


def with_digits(text: str) -> str:
    """`text` (lower case) with its numbers in digits: "a hundred and five" becomes "105"."""
    text = _POINT_FIRST.sub("0.", text)
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    text = _RUN.sub(_digits, _SCALED.sub(_scaled, text))
    text = _AND_A_HALF.sub(_with_half, text)
    return _DOZENS.sub(lambda found: str(12 * int(found[1] or 1)), text)


def with_ordinals(text: str) -> str:
    """`text` with its ordinals in digits: "the twenty-first" becomes "the 21st"."""
    return _ORDINAL.sub(
        lambda found: ordinal(_TENS.get(found[1] or "", 0) + _ORDINALS[found[2]]), text
    )


def ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 <= number % 100 <= 20 else suffix}"


def said(number: Fraction) -> str:
    """`number` as text: grouped from 10,000 on, with at most four decimals.

    Very large and very small ones are as in "1.22 times 10 to the power of 19".
    """
    return _written(number)[0]


def is_rounded(number: Fraction) -> bool:
    """Whether `said` gives another number."""
    return not _written(number)[1]


def _written(number: Fraction) -> tuple[str, bool]:
    """`number` as text, and whether that is exact."""
    size = abs(number)
    if size and not _SMALLEST <= size < _LARGEST:
        text, exact = _scientific(size)
        return f"minus {text}" if number < 0 else text, exact
    places = _MOST_DECIMALS if size >= _FEW_DECIMALS_FROM else 10
    rounded = _half_up(size * 10**places)
    whole, decimals = divmod(rounded, 10**places)
    text = f"{whole:,}" if whole >= 10_000 else str(whole)
    text = f"{text}.{decimals:0{places}}".rstrip("0").rstrip(".") if decimals else text
    return f"-{text}" if number < 0 else text, rounded == size * 10**places


def _scientific(size: Fraction) -> tuple[str, bool]:
    power = len(str(size.numerator)) - len(str(size.denominator))
    power -= size < Fraction(10) ** power
    hundredths = _half_up(size / Fraction(10) ** (power - 2))
    exact = hundredths == size / Fraction(10) ** (power - 2)
    if hundredths == 1000:
        hundredths, power = 100, power + 1
    factor = f"{hundredths // 100}.{hundredths % 100:02}".rstrip("0").rstrip(".")
    exponent = f"minus {-power}" if power < 0 else str(power)
    return f"{factor} times 10 to the power of {exponent}", exact


def _half_up(number: Fraction) -> int:
    return math.floor(number + Fraction(1, 2))


def _with_half(found: re.Match[str]) -> str:
    """ "2.5" of "2 and a half"."""
    return _shifted(f"{found[1]}.{_DECIMALS[found[2]]}", len(found[3] or "0") - 1)


def _scaled(found: re.Match[str]) -> str:
    return _shifted(found[1], _zeros(found[2].split()))


def _zeros(scales: list[str]) -> int:
    return sum(2 if scale == "hundred" else len(str(_SCALES[scale])) - 1 for scale in scales)


def _shifted(number: str, places: int) -> str:
    """The decimal `number` times 10 to the power of `places`. It may have any length."""
    whole, _, decimals = number.partition(".")
    whole += decimals[:places].ljust(places, "0")
    decimals = decimals[places:].rstrip("0")
    return (whole.lstrip("0") or "0") + (f".{decimals}" if decimals else "")


def _digits(found: re.Match[str]) -> str:
    """The digits of a run of number words. Words that do not form one number stay apart."""
    words = [word for word in re.split(r"[\s-]+", found[0]) if word not in ("a", "an")]
    parts: list[list[str]] = [[]]
    at = 0
    while at < len(words):
        if words[at] == "and":
            parts.append([])
            at += 1
        elif words[at] == "point":
            parts[-1].append(words[at])
            at += 1
        else:
            number, at = _number(words, at)
            parts[-1].append(number)
    return " and ".join(" ".join(_joined_year(numbers)) for numbers in parts)


def _number(words: list[str], at: int) -> tuple[str, int]:
    """The number that begins at `at`, and where it ends."""
    total, scale = 0, _LARGEST
    while scale > 1:
        is_first = scale == _LARGEST
        part, end = _below_thousand(words, at + (not is_first and _at(words, at) == "and"))
        part = 1 if is_first and part is None else part
        factor, end = _scale(words, end)
        if not is_first and (not part or part * factor >= scale):
            break
        total, scale, at = total + (part or 0) * factor, factor, end
    decimals, end = _decimals(words, at)
    if not decimals:
        return str(total), at
    scales = end
    while _at(words, end) in ("hundred", *_SCALES):
        end += 1
    number = f"{total}.{decimals}"
    return _shifted(number, _zeros(words[scales:end])) if end > scales else number, end


def _at(words: list[str], at: int) -> str:
    return words[at] if at < len(words) else ""


def _below_thousand(words: list[str], at: int) -> tuple[int | None, int]:
    """As in "three hundred and four"; None if no such number begins at `at`."""
    value, end = _below_hundred(words, at)
    if _at(words, end) != "hundred":
        return value, end
    hundreds, at = 100 * (1 if value is None else value), end + 1
    rest, end = _below_hundred(words, at + 1 if _at(words, at) == "and" else at)
    if not rest or _at(words, end) == "hundred":
        return hundreds, at
    return hundreds + rest, end


def _below_hundred(words: list[str], at: int) -> tuple[int | None, int]:
    word = _at(words, at)
    if word in _TENS:
        unit = _SMALL.get(_at(words, at + 1), 0)
        return (_TENS[word] + unit, at + 2) if 0 < unit < 10 else (_TENS[word], at + 1)
    return (_SMALL[word], at + 1) if word in _SMALL else (None, at)


def _scale(words: list[str], at: int) -> tuple[int, int]:
    """The product of the scale words from `at` on, and where they end."""
    product = 1
    while (value := _SCALES.get(_at(words, at), _LARGEST)) * product < _LARGEST:
        product, at = product * value, at + 1
    return product, at


def _decimals(words: list[str], at: int) -> tuple[str, int]:
    """The digits after "point"; the last one before another "point" begins a number of its own."""
    digits = ""
    end = at + 1
    while _at(words, at) == "point" and (word := _at(words, end)) in _SMALL:
        if digits and _at(words, end + 1) == "point":
            break
        digits, end = digits + str(_SMALL[word]), end + 1
    return digits, end if digits else at


def _joined_year(numbers: list[str]) -> list[str]:
    """ "nineteen ninety-nine" is one number, 1999."""
    if len(numbers) == 2 and all(re.fullmatch(r"\d\d", number) for number in numbers):
        century, year = map(int, numbers)
        if 13 <= century <= 20 and year >= 10:
            return [f"{century}{year}"]
    return numbers


def counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
