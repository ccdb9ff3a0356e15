"""Sums in everyday words: prices, fractions, what each gets, and stories about two numbers."""

from __future__ import annotations

import re
from fractions import Fraction

from antiphon.inference_worker.engines.local.rules.quantities.numbers import is_rounded, said

N = r"(\d+(?:\.\d+)?)"
"""A number in digits."""

_CURRENCY = r"(?:dollars?|euros?|pounds?(?! of\b)|quid|bucks?)"
_COINS = r"(?:cents?|pence|p)"
_HAS_CURRENCY = re.compile(rf"[$€£]|\d {_CURRENCY}\b")
_PRICE = re.compile(
    rf"(?<![\d.])(?P<whole>\d+) {_CURRENCY}"
    rf"(?: (?P<part>\d\d)(?! ?(?:%|per|{_CURRENCY})|\d)(?: {_COINS}\b)?| and (?P<coins>\d\d) {_COINS}\b)"
)
"""As in "three pounds fifty"."""

_PAIR = re.compile(
    r"(?<![\d.])(\d{1,3}) (\d\d)(?= (?:on|for|plus|minus|times|each|and|how|what)\b|$)"
)
"""A price without its currency, where another number has one."""

_IN_COINS = re.compile(rf"(?<![\d.])(\d{{1,9}}) {_COINS}\b")
_SIGN = re.compile(rf"[$€£]|(?<=\d)\s+(?:{_CURRENCY}|{_COINS})\b")


def without_currency(text: str) -> str:
    """`text` with its prices as plain numbers: "10.50 plus 3" for "10 pounds 50 plus 3 pounds"."""
    if _HAS_CURRENCY.search(text):
        text = _PRICE.sub(lambda found: f"{found['whole']}.{found['part'] or found['coins']}", text)
        text = _PAIR.sub(r"\1.\2", text)
        text = _IN_COINS.sub(lambda found: said(Fraction(int(found[1]), 100)), text)
    return _SIGN.sub("", text)


_PARTS = {
    "half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6,
    "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10,
}  # fmt: skip
_FRACTION = rf"\b(?P<count>\d{{1,9}}|an?|one)[ -](?P<part>{'|'.join(_PARTS)})s?\b"
FRACTION_OF = re.compile(rf"{_FRACTION} of\b")
SLASHED_OF = re.compile(r"(?<![\d/.])(\d{1,9}) ?/ ?(\d{1,9}) of(?= \d)")
FRACTION_ALONE = re.compile(rf"{_FRACTION}(?! of\b)")
_OPERATES = re.compile(r" [-+*/] ")


def fraction(found: re.Match[str]) -> str:
    """The fraction in signs, if it is a part of a sum."""
    if found.re is not FRACTION_OF and not _OPERATES.search(found.string):
        return found[0]
    count = found["count"] if found["count"].isdigit() else "1"
    times = " *" if found.re is FRACTION_OF else ""
    return f"( {count} / {_PARTS[found['part']]} ){times}"


_MONEY = rf"\b(?:money|{_CURRENCY})\b"
_NO_STORY = re.compile(
    rf"\ball but\b|\b(?:buys?|bought)\b.*{_MONEY}|{_MONEY}.*\b(?:buys?|bought)\b"
)
"""A third number, or money for things, makes it another sum."""

_LEFT = re.compile(
    rf"(?:(?:if|let us say|say|suppose) )*\w+(?: \w+)? "
    rf"(?:have|has|had|got|buys?|bought|bakes?d?|makes?|made) {N}\b.*? (?:(?:and|then"
    rf"|but) (?:\w+ )??|(?:i|we|he|she|they|you) )(?:(?P<more>get|buy"
    rf"|find|win|add"
    rf"|receive|pick|got|bought|found|won)|(?P<less>give|eat|lose|spend|sell|use|take|drink|throw|gave|ate"
    rf"|lost|spent|sold|took)|[a-z]+)"
    rf"(?:s|d)? (?:away |up |off )?{N}\b.* (?:how (?:many|much)|what)\b.* (?:left|remains?|have|has"
    rf"|now)(?: now| left)*"
)
"""A story of two numbers: "If I have 12 apples and give away 5, how many do I have left?"."""

_GOES_INTO = re.compile(
    rf"how (?:many times|often) (?:(?:does|do|can|will|would) )?{N} (?:go|goes|fits?) (?:in ?to|in) {N}"
    rf"|(?:what is )?{N} into {N}"
)
_COST_EACH = re.compile(
    rf"(?:(?:how much|what) (?:is|are|does|do|would|will) )?{N} [a-z ]{{2,30}}? (?:at|for|costing)"
    rf" {N}(?: (?P<coins>\d\d))? (?:each|apiece|a piece)(?: cost| come to| make| be)?"
)
_REDUCED = re.compile(
    rf"(?:(?:if|so|when) )*(?:[a-z]+ ){{1,4}}(?:costs?|is|was) {N}"
    rf"(?: (?:and|but|it|is|with|at|they|there|a)){{0,5}}"
    rf" {N} ?(?:%|percent|per cent) (?:off|discount)(?: (?:what|how much)\b[a-z ]*)?"
)


_SPEED = re.compile(
    r"(?:if )?(?:i|we|you|he|she|they|(?:an?|the|my) [a-z]+) (?:drive|go|travel|walk|cycle|run|ride|fly"
    r"|move|sail)(?:e?s)?"
    rf"(?: at)? {N}(?: (?:miles|kilometres|kilometers|km|mph|kmh|km/h))?(?: (?:an|per) hour)?"
    rf" for {N} hours? how far\b[a-z ]*"
)


def as_sum(text: str, priced: str) -> str | None:
    """The sum of a story, as in "12 minus 5". `priced` is `text` without its currencies."""
    if found := _GOES_INTO.fullmatch(priced):
        small, large = filter(None, found.groups())
        return f"{large} divided by {small}"
    if found := _COST_EACH.fullmatch(priced):
        coins = f".{found['coins']}" if found["coins"] else ""
        return f"{found[1]} times {found[2]}{coins}"
    if found := _SPEED.fullmatch(priced):
        return f"{found[1]} times {found[2]}"
    if found := _REDUCED.fullmatch(priced):
        return f"{found[2]} percent off {found[1]}"
    is_simple = len(re.findall(N, priced)) == 2 and not _NO_STORY.search(text)
    story = _LEFT.fullmatch(priced) if is_simple else None
    if story and (story["more"] or story["less"] or re.search(r"\b(?:left|remain)", text)):
        return f"{story[1]} {'plus' if story['more'] else 'minus'} {story[4]}"
    return None


_SO_MANY = rf"{N}(?: (?!and\b|or\b)[a-z]+){{0,2}}?"
_EVENLY = r"(?: (?:equally|evenly))?"
_WHAT_EACH = r"(?: (?:how (?:much|many)|what)\b[a-z ]*)?"
_AMONG = r"(?:between|among|amongst)"
_SHARES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:(?:if|when|so|how (?:do|would|should|can)) )*(?:(?:i|we|you|they) )?"
        r"(?:(?:want|need|have|would like) to )?(?:split|share|divide)s?"
        rf" (?:(?:a|the|our) (?:bill|total|cost)(?: of)? )?{_SO_MANY}{_EVENLY} {_AMONG} {_SO_MANY}{_WHAT_EACH}",
        rf"(?:(?:what|how much|how many) (?:is|are) |if )?{_SO_MANY}(?: is| are)?"
        rf" (?:split|shared|divided){_EVENLY} (?:{_AMONG} {_SO_MANY}|{N} ways){_WHAT_EACH}",
        rf"(?:if )?(?:[a-z]+ ){{1,6}}{N} [a-z]+ and {N} [a-z]+ (?:share|split|divide)s?"
        rf"(?: (?:it|them|those|that))?{_EVENLY}{_WHAT_EACH}",
    )
)


def share_of_each(priced: str) -> str | None:
    """What each gets of something that is shared: "Split 40 between 3"."""
    found = next(filter(None, (pattern.fullmatch(priced) for pattern in _SHARES)), None)
    if found is None:
        return None
    whole, people = map(Fraction, filter(None, found.groups()))
    if not people:
        return None
    part = whole / people
    rounded = Fraction(round(part * 100), 100)
    about = "about " if rounded != part or is_rounded(rounded) else ""
    return f"That is {about}{said(rounded)} each."
