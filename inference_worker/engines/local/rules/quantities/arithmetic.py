"""Sums in words and in signs: "what is seventeen times twenty-three", "20% of 80", "sqrt(144)"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

from antiphon.inference_worker.engines.local.rules.quantities.numbers import (
    is_rounded,
    said,
    with_ordinals,
)
from antiphon.inference_worker.engines.local.rules.quantities.word_problems import (
    FRACTION_ALONE,
    FRACTION_OF,
    SLASHED_OF,
    N,
    as_sum,
    fraction,
    share_of_each,
    without_currency,
)

_MOST_BITS = 4096
"""Of a result; a longer one takes long to calculate and is of no use."""


def _total(found: re.Match[str]) -> str:
    numbers = re.findall(N, found[0])
    return f"( {' + '.join(numbers)} )" if len(numbers) > 2 else " + ".join(numbers)


def _average(found: re.Match[str]) -> str:
    numbers = re.findall(N, found[0])
    return f"( {' + '.join(numbers)} ) / {len(numbers)}"


_REWRITES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(?<=[\d)])\s*%\s*(?=[\d(])"), " mod "),
    (re.compile(rf"(?:the )?product of {N} and {N}"), r"\1 * \2"),
    (re.compile(rf"(?:the )?difference (?:between|of) {N} and {N}"), r"\1 - \2"),
    (re.compile(rf"(?:the )?quotient of {N} and {N}"), r"\1 / \2"),
    (re.compile(rf"(?:the )?(?:average|mean) of ((?:{N} )+)and {N}"), _average),
    (re.compile(rf"(?:the )?(?:sum|total) of ((?:{N} )+)and {N}"), _total),
    (re.compile(rf"add {N} (?:and|to) {N}"), r"\1 + \2"),
    (re.compile(rf"subtract {N} from {N}"), r"\2 - \1"),
    (re.compile(rf"{N} less than {N}"), r"\2 - \1"),
    (re.compile(rf"{N} more than {N}"), r"\2 + \1"),
    (re.compile(rf"multiply {N} (?:by|and|with|times) {N}"), r"\1 * \2"),
    (re.compile(rf"divide {N} (?:by|into) {N}"), r"\1 / \2"),
    (re.compile(rf"{N}\s*(?:%|percent|per cent) off (?:of )?\$?{N}"), r"( 100 - \1 ) % \2"),
    (re.compile(rf"\$?{N}\s*(?:plus|\+) {N}\s*(?:%|percent|per cent)(?: tip| tax)?$"),
     r"( 100 + \2 ) % \1"),
    (re.compile(rf"\$?{N}\s*(?:minus|less|-) {N}\s*(?:%|percent|per cent)(?: discount)?$"),
     r"( 100 - \2 ) % \1"),
    (re.compile(r"\s*(?:%|percent|per cent)\s+(?:tip |tax )?(?:of|on)(?: the| a| an)?\b"), " % "),
    (re.compile(r"\b(?:divided (?:by|into)|over)\b|÷"), "/"),
    (re.compile(r"\b(?:multiplied by|multiplied with|times)\b|[×·]|(?<=[\d )])x(?=[\d (])"), "*"),
    (re.compile(r"\b(?:plus|added to)\b"), "+"),
    (re.compile(r"\b(?:minus|take away|less|subtract)\b|[−–]"), "-"),
    (re.compile(r"\b(?:modulo|mod)\b"), "mod"),
    (re.compile(r"\b(?:raised )?to the power(?: of)?\b|\*\*"), "^"),
    (re.compile(r"\bto the (\d+)(?:st|nd|rd|th)(?: power)?\b"), r"^ \1"),
    (re.compile(r"\bsquared\b|²"), "^ 2"),
    (re.compile(r"\bcubed\b|³"), "^ 3"),
    (re.compile(r"(?:the )?\bsquare of\b"), "square"),
    (re.compile(r"(?:the )?\b(?:cube root of|cubic root of)\b"), "cbrt"),
    (re.compile(r"(?:the )?\b(?:square root of|square root|root of|sqrt)\b|√"), "sqrt"),
    (re.compile(r"\b(?:one |1 |a )?half of\b|\b1/2 of\b|\bhalve\b"), "half"),
    (re.compile(r"\b(?:one |1 |a )third of\b"), "third"),
    (re.compile(r"\b(?:one |1 |a )(?:quarter|fourth) of\b"), "quarter"),
    (FRACTION_OF, fraction),
    (SLASHED_OF, r"( \1 / \2 ) *"),
    (FRACTION_ALONE, fraction),
    (re.compile(rf"{N} factorial\b"), r"factorial \1"),
    (re.compile(r"(?:the )?\bfactorial of\b"), "factorial"),
    (re.compile(r"\b(?:double|twice)\b"), "2 *"),
    (re.compile(r"\btriple\b"), "3 *"),
)  # fmt: skip
_PREFIX = re.compile(
    r"^(?:(?:what|which|in|and|so|then|how much|how many|would|will|does|do|is|are|the|result|answer"
    r"|value|get|if|you|i|we|when|an?(?= \d)|calculate|compute|evaluate|solve|work out|figure out|find"
    r"|of|to|math|maths|problem)\s+)+"
)
_SUFFIX = re.compile(
    r"\s*(?:\b(?:equals?|equal to|make|makes|give|be|is|are|to|what|what do (?:i|you|we) get|what will "
    r"(?:i|you|we) get|tip|tax)\b|=|\?)\s*$"
)
_REMAINDER = re.compile(
    r"(?:the )?remainder (?:of|when|if)\s+|\s+(?:with|and)(?: a| the)? remainder$"
)
_SHARE = re.compile(rf"what (?:percent|percentage) (?:of|is) {N} (?:is|of) {N}")
_HOW_MANY = re.compile(rf"how (?:many|much) (?:is|are) {N}")
""" "Two dozen" comes as 24."""
_PRIME = re.compile(r"is (\d{1,9}) (?:a )?prime(?: number)?")
_TOKEN = re.compile(
    r"\s*(\d+(?:\.\d+)?|\.\d+|[-+*/^%()]|mod|sqrt|cbrt|square|half|third|quarter|factorial)"
)
_IN_WORDS = {
    "*": "times", "/": "divided by", "+": "plus", "-": "minus", "^": "to the power of",
    "%": "percent of", "sqrt": "the square root of", "cbrt": "the cube root of",
    "square": "the square of", "half": "half of", "third": "a third of", "quarter": "a quarter of",
    "factorial": "the factorial of",
}  # fmt: skip


_PARTS = {"half": 2, "third": 3, "quarter": 4}
_FUNCTIONS = ("sqrt", "cbrt", "square", "factorial", *_PARTS)
_LARGEST_FACTORIAL = 100


_NO_SUM = re.compile(
    r"(?:what (?:is|was) )?(?:9/11|24/7|7-11|9-1-1)|(?:in )?\d{4}-\d{4}|\d{3}-\d{4}"
)
"""Dates, years and telephone numbers."""
_DATE_OR_PHONE = re.compile(
    r"(?:1[5-9]|20)\d\d([-/])(?:0\d|1[0-2])\1[0-3]\d|[0-3]?\d([-/])[0-3]?\d\2(?:1[5-9]|20)\d\d"
    r"|(?:\+?\d{1,3}[- ])?\(?\d{3}\)?[- ]\d{3}-\d{4}"
)
"""As people type them, also after "what is"."""


class _NoSum(ValueError):
    """The text is not a sum."""


class _NoRoot(ValueError):
    """The square root of a negative number."""


def answer_sum(text: str) -> str | None:
    """The answer to a sum; `text` is lower case, with numbers in digits. None if it is no sum."""
    if of_numbers := _of_numbers(text):
        return of_numbers
    if _NO_SUM.fullmatch(text):
        return None
    priced = without_currency(text)
    if each := share_of_each(priced):
        return each
    text = as_sum(text, priced) or priced
    if " to the " in text:
        text = with_ordinals(text)
    wants_remainder = bool(_REMAINDER.search(text))
    text = _without_question(_REMAINDER.sub(" ", text).strip())
    if _DATE_OR_PHONE.fullmatch(text):
        return None
    for pattern, written in _REWRITES:
        text = pattern.sub(written, text)
    try:
        tokens = _tokens(text)
        if len(tokens) < 2 or not any(token[0].isdigit() for token in tokens):
            return None
        return _sentence(tokens, wants_remainder=wants_remainder)
    except _NoSum:
        return None


def _of_numbers(text: str) -> str | None:
    """The answer to a question about numbers that is no sum."""
    if share := _SHARE.fullmatch(text):
        return _share(share, of_first="of" in text.split()[:3])
    if number := _HOW_MANY.fullmatch(text):
        return f"That is {number[1]}."
    prime = _PRIME.fullmatch(text)
    return _primality(int(prime[1])) if prime else None


def _without_question(text: str) -> str:
    text = re.sub(r"\bis (?=divided|multiplied)", "", _PREFIX.sub("", text))
    while (shorter := _SUFFIX.sub("", text)) != text:
        text = shorter
    return _PREFIX.sub("", text.strip())


_RESULT = re.compile(
    r"\b(?:is|are|about|or) (-?\d[\d,]{0,40}(?:\.\d{1,40})?)(?: [a-z]+(?: per [a-z]+)?)?\.$"
)
_OPERATOR = r"(?:times|plus|minus|divided by|multiplied by|to the power of|[-+*/x^])"
_NEXT_STEPS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"(?:(?:and|now|then|what is|what about|how about|so) )*{pattern}"), sum_)
    for pattern, sum_ in (
        (rf"(?:(?:that|it|this|the result) )?({_OPERATOR}) {N}", r"{result} \1 \2"),
        (rf"multiply (?:that |it |this |the result )?by {N}", r"{result} times \1"),
        (rf"divide (?:that |it |this |the result )?by {N}", r"{result} divided by \1"),
        (rf"add {N}(?: (?:to )?(?:that|it|this|more))?", r"{result} plus \1"),
        (rf"(?:subtract|take away) {N}(?: from (?:that|it|this))?", r"{result} minus \1"),
        (rf"{N} (?:percent|%) of (?:that|it|this)", r"\1 percent of {result}"),
        (r"(half|a third|a quarter) of (?:that|it)", r"\1 of {result}"),
        (r"(?:double|twice)(?: (?:that|it|as much))?", "2 times {result}"),
        (r"(?:(?:that|it) )?squared|square (?:that|it)", "{result} squared"),
        (r"(?:and )?the square root(?: of (?:that|it))?", "square root of {result}"),
        (r"halve (?:that|it)", "half of {result}"),
        (
            rf"(?:split|share|divide) (?:that|it|this)(?: (?:up|equally|evenly))* (?:between|among) {N}\b.*"
            rf"|(?:split|share|divide) (?:that|it|this) {N} ways",
            "split {result} between \\1\\2",
        ),
    )
)
_PERCENTAGE = re.compile(rf"{N} percent of {N} is {N}\.")
_OTHER_PERCENTAGE = re.compile(
    rf"(?:(?:and|or|what|how|about|if) )*(?:(?:with|at|for|make it) )?{N} ?(?:%|percent|per cent)(?: tip)?"
)
_ALTOGETHER = re.compile(
    r"(?:(?:and|so|then) )*(?:(?:what|how much) (?:is|will|would|do)(?: (?:that|it|i|we))?(?: be| pay)? )?"
    r"(?:(?:the|my|our) )?(?:total|altogether|all together|in total)"
    r"(?: (?:with|including) (?:the |a )?(?:tip|tax))?"
    r"(?: then| altogether| bill)?"
)


_ROUND = re.compile(
    r"(?:(?:and|now|then) )*round (?:it|that|this)(?: (?:up|down|off))?(?: to (?:the nearest"
    r"|a) (?:whole number|integer))?"
)


def answer_next_sum(text: str, previous: str) -> str | None:
    """The answer to a step from the result that `previous` says: "and times two", "divide that by 3"."""
    result = _RESULT.search(previous)
    if tip := _PERCENTAGE.fullmatch(previous):
        if _ALTOGETHER.fullmatch(text):
            return answer_sum(f"{tip[2]} plus {tip[3]}")
        if other := _OTHER_PERCENTAGE.fullmatch(text):
            return answer_sum(f"{other[1]} percent of {tip[2]}")
    if result and _ROUND.fullmatch(text):
        return f"Rounded, it is {_rounded(Fraction(result[1].replace(',', '')), text)}."
    for pattern, sum_ in _NEXT_STEPS if result else ():
        if result and (step := pattern.fullmatch(text)):
            next_sum = step.expand(sum_)
            number = result[1].replace(",", "")
            if number.startswith("-") and re.search(r"squared|power|\^", next_sum):
                number = f"({number})"
            return answer_sum(next_sum.format(result=number))
    return None


def _rounded(value: Fraction, text: str) -> int:
    if " up" in text:
        return math.ceil(value)
    return math.floor(value) if " down" in text else math.floor(value + Fraction(1, 2))


def _primality(number: int) -> str:
    divisor = next((d for d in range(2, math.isqrt(number) + 1) if number % d == 0), number)
    if number < 2:
        return f"No, {number} is not a prime number."
    if divisor == number:
        return f"Yes, {number} is a prime number."
    return f"No, {number} is not a prime number: it is {divisor} times {number // divisor}."


def _share(found: re.Match[str], *, of_first: bool) -> str:
    whole, part = (found[1], found[2]) if of_first else (found[2], found[1])
    if not Fraction(whole):
        return "There is no percentage of zero."
    percent = Fraction(part) / Fraction(whole) * 100
    about = "about " if is_rounded(percent) else ""
    return f"{part} is {about}{said(percent)} percent of {whole}."


def _sentence(tokens: list[str], *, wants_remainder: bool) -> str:
    try:
        value, exact = _Parser(tokens).parse()
    except ZeroDivisionError:
        return "It is not possible to divide by zero."
    except _NoRoot:
        return "A negative number has no real square root."
    spoken = " ".join(_IN_WORDS.get(token, token) for token in tokens)
    squared = re.sub(r" to the power of 2(?![\d.]| to the power)", " squared", spoken)
    spoken = "the result" if "(" in tokens else squared
    spoken = spoken[0].upper() + spoken[1:]
    about = "" if exact and not is_rounded(value) else "about "
    whole = _whole_division(tokens)
    if whole is not None and (wants_remainder or value.denominator != 1):
        quotient, remainder = whole
        with_rest = f"{quotient} with a remainder of {remainder}"
        return f"{spoken} is {with_rest}, or {about}{said(value)}."
    return f"{spoken} is {about}{said(value)}."


_LARGEST_QUOTIENT = 10**15


def _whole_division(tokens: list[str]) -> tuple[int, int] | None:
    if len(tokens) == 3 and tokens[1] == "/" and tokens[0].isdigit() and tokens[2].isdigit():
        quotient, remainder = divmod(int(tokens[0]), int(tokens[2]))
        return (quotient, remainder) if 0 < quotient < _LARGEST_QUOTIENT else None
    return None


def _tokens(text: str) -> list[str]:
    tokens, place = [], 0
    text = text.strip()
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise _NoSum
        tokens.append(found[1])
        place = found.end()
    return tokens


class _Parser:
    """Recursive descent over + - * / ^ with their usual precedence."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._place = 0
        self._exact = True

    def parse(self) -> tuple[Fraction, bool]:
        """The value, and whether it is exact. Raises _NoSum or ZeroDivisionError."""
        value = self._sum()
        if self._place != len(self._tokens):
            raise _NoSum
        return value, self._exact

    def _take(self, *wanted: str) -> str | None:
        if self._place < len(self._tokens) and self._tokens[self._place] in wanted:
            self._place += 1
            return self._tokens[self._place - 1]
        return None

    def _sum(self) -> Fraction:
        value = self._product()
        while sign := self._take("+", "-"):
            other = self._product()
            value = _bounded(value + other if sign == "+" else value - other)
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while sign := self._take("*", "/", "%", "mod"):
            other = self._signed()
            match sign:
                case "*":
                    value = _bounded(value * other)
                case "/":
                    value = _bounded(value / other)
                case "%":
                    value = _bounded(value * other / 100)
                case _:
                    value = _bounded(value % other)
        return value

    def _signed(self) -> Fraction:
        return -self._signed() if self._take("-") else self._power()

    def _power(self) -> Fraction:
        base = self._atom()
        if not self._take("^"):
            return base
        exponent = self._signed()
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if exponent.denominator != 1 or abs(exponent) * size > _MOST_BITS:
            raise _NoSum
        return Fraction(base ** int(exponent))

    def _atom(self) -> Fraction:
        if self._take("("):
            value = self._sum()
            if not self._take(")"):
                raise _NoSum
            return value
        if function := self._take(*_FUNCTIONS):
            is_factorial = function == "factorial"
            return self._applied(function, self._atom() if is_factorial else self._signed())
        if self._place < len(self._tokens) and re.match(r"[\d.]", self._tokens[self._place]):
            self._place += 1
            return _bounded(_read(self._tokens[self._place - 1]))
        raise _NoSum

    def _applied(self, function: str, value: Fraction) -> Fraction:
        if divisor := _PARTS.get(function):
            return value / divisor
        if function == "square":
            return _bounded(value * value)
        if function == "factorial":
            if value.denominator != 1 or not 0 <= value <= _LARGEST_FACTORIAL:
                raise _NoSum
            return Fraction(math.factorial(int(value)))
        if function == "sqrt" and value < 0:
            raise _NoRoot
        root, exact = _root(value, 2 if function == "sqrt" else 3)
        self._exact &= exact
        return root


_ROOT_PRECISION = 10**18


def _root(value: Fraction, degree: int) -> tuple[Fraction, bool]:
    """The square or cube root, and whether it is exact. Floats are too small for some numbers."""
    whole_root = math.isqrt if degree == 2 else _whole_cube_root
    above, below = abs(value.numerator), value.denominator
    root = Fraction(whole_root(above), whole_root(below))
    if not (exact := root**degree == abs(value)):
        enlarged = above * below ** (degree - 1) * _ROOT_PRECISION**degree
        root = Fraction(whole_root(enlarged), below * _ROOT_PRECISION)
    return -root if value < 0 else root, exact


def _whole_cube_root(number: int) -> int:
    """By Newton's method, from above."""
    root = 1 << -(-number.bit_length() // 3)
    while root and (smaller := (2 * root + number // root**2) // 3) < root:
        root = smaller
    return root


_LONGEST_NUMBER = 1000
"""In digits. Python converts at most 4300."""


def _read(number: str) -> Fraction:
    if len(number) > _LONGEST_NUMBER:
        raise _NoSum
    return Fraction(number)


def _bounded(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > _MOST_BITS or value.denominator.bit_length() > _MOST_BITS:
        raise _NoSum
    return value
