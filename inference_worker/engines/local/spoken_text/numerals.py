"""Numbers in English words."""

import re

UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = [
    "zero",
    "ten",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
]
_SCALES = ("", " thousand", " million", " billion", " trillion")
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
    "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
_FRACTIONS = {2: ("half", "halves"), 4: ("quarter", "quarters")}

_MOST_DIGITS = 3 * len(_SCALES)
_MOST_SPOKEN_DIGITS = 24

_ROMAN = re.compile(r"(?=[IVXLCDM])M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def cardinal(number: int) -> str:
    """`number`, which is not negative, as in "one hundred twenty-three"."""
    if number < 20:
        return UNITS[number]
    if number < 100:
        return f"{TENS[number // 10]}-{UNITS[number % 10]}".removesuffix("-zero")
    if number < 1000:
        return f"{UNITS[number // 100]} hundred {cardinal(number % 100)}".removesuffix(" zero")
    groups: list[str] = []
    for scale in _SCALES:
        number, group = divmod(number, 1000)
        if group:
            groups.insert(0, f"{cardinal(group)}{scale}")
    return " ".join([cardinal(number) + " quadrillion", *groups] if number else groups)


def ordinal(number: int) -> str:
    """As in "twenty-second"."""
    head, joint, last = re.fullmatch(r"(.*?)([ -]?)(\w+)", cardinal(number)).groups()  # type: ignore[union-attr]
    regular = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return f"{head}{joint}{_ORDINALS.get(last, regular)}"


def plural(word: str) -> str:
    """The plural of a number's last word: "nineties", "sixths", "hundreds"."""
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("x") else f"{word}s"


def digits(text: str) -> str:
    """The digits of `text` one by one. A long row is cut."""
    found = [UNITS[int(digit)] for digit in re.findall(r"[0-9]", text)]
    return " ".join(found[:_MOST_SPOKEN_DIGITS])


def number(text: str) -> str:
    """A written number without a sign: "1,234.5", "007"."""
    whole, _, decimals = text.replace(",", "").partition(".")
    if (len(whole) > 1 and whole[0] == "0") or len(whole) > _MOST_DIGITS:
        said = digits(whole)
    else:
        said = cardinal(int(whole)) if whole else ""
    return f"{said} point {digits(decimals)}".strip() if decimals else said


def year(number: int) -> str:
    """As in "nineteen ninety-eight", "two thousand eight", "twenty twenty-six"."""
    century, rest = divmod(number, 100)
    if not 1001 <= number <= 2099 or number // 10 == 200:
        return cardinal(number)
    if not rest:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def fraction(numerator: int, denominator: int) -> str:
    """As in "one half", "two thirds"; "twenty-two over seven" for others than proper fractions."""
    if not 2 <= denominator <= 100 or numerator >= denominator:
        return f"{cardinal(numerator)} over {cardinal(denominator)}"
    one, many = _FRACTIONS.get(denominator) or (ordinal(denominator), plural(ordinal(denominator)))
    return f"{cardinal(numerator)} {one if numerator == 1 else many}"


def roman(text: str) -> int | None:
    """The value of a Roman numeral in capitals, None for other text."""
    if not _ROMAN.fullmatch(text):
        return None
    values = [_ROMAN_VALUES[letter] for letter in text]
    following = [*values[1:], 0]
    return sum(-one if one < then else one for one, then in zip(values, following, strict=True))
