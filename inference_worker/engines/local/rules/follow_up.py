"""What refers to the words before: "And of Italy?" after a question, "there" after a place, "Continue"."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from antiphon.inference_worker.engines.local.rules.manner import LOUDNESS, PACE
from antiphon.inference_worker.engines.local.rules.quantities.dates import WHEN
from antiphon.inference_worker.engines.local.rules.quantities.numbers import (
    with_digits,
    with_ordinals,
)
from antiphon.inference_worker.engines.local.rules.quantities.units import is_unit
from antiphon.inference_worker.engines.local.rules.text import ASKS, LONGEST_CHARS, peeled, plain
from antiphon.inference_worker.engines.local.spoken_text.lexicon import MONTHS, WEEKDAYS

STOPPED = "All right."
"""The answer to "stop". A request to continue after it means what was stopped."""

_PREPOSITION = (
    r"(?:(?P<preposition>of|in|for|from|to|with|on|at|by|as for|until|till|before|after|about)\s+)?"
)
_CONTINUES = re.compile(
    r"(?:(?:and|or|but|ok|okay|so)[, ]+)?(?P<lead>and|what about|how about)[, ]+(?:the one )?"
    rf"{_PREPOSITION}(?P<other>[^,.?!]{{1,60}}?)(?: then| maybe| instead)?[.?!]*",
    re.IGNORECASE,
)
_CORRECTS = re.compile(
    r"(?:(?:no|nope|sorry|wait|oh|actually)[,.! ]+)*(?:i (?:meant|mean|said|asked (?:for|about))"
    rf"|not [\w' -]{{1,30}}(?:,| but))[, ]+{_PREPOSITION}(?P<other>[^,.?!]{{1,60}})[.?!]*",
    re.IGNORECASE,
)
_NO_OTHER = re.compile(
    r"(?:stop|no|yes|thanks?|thank you|hello|hi|goodbye|bye|enough|wait|please)\b.*", re.IGNORECASE
)
"""What no question is about: "I said stop"."""

_OF_THE_SAME = re.compile(
    r"(?:(?:and|so|but|oh|wow|ok)[, ]+)*how (?:tall|high|long|big|deep|wide|far|heavy|fast|large|old)"
    r" (?:is|are|was) (?:it|that|they)[?. ]*",
    re.IGNORECASE,
)
"""After it, "And in Europe?" asks for another tallest mountain, and not how tall it is."""

_IN_YEAR = re.compile(
    r"(?:and )?(?P<words>[a-z]+ [a-z]+) (?:it )?(?:in )?(?P<year>\d{4})[?. ]*", re.IGNORECASE
)
"""Asks the question before of another year: "And who won in 2022?"."""

_MOST_EARLIER = 20
"""Turns that a follow-up may refer to; a client may send a thousand."""

_MOST_WORDS = 4
_CAPITAL = r"[A-Z][\w'-]*(?: (?:of |the )?[A-Z][\w'-]*)*"
_NAME = re.compile(rf"(?<=[a-z,] ){_CAPITAL}")
_NUMBER = re.compile(r"(?:minus )?\d+(?:[.,]\d+)*")
_PERCENT = re.compile(
    r"(?:(?<!\d)\d+(?:\.\d+)?|\b[a-z]+(?:-[a-z]+)?) ?(?:%|per ?cent\b)", re.IGNORECASE
)
"""Begins at the first digit: a search from each digit of a long number would take very long."""

_HOW_MANY = re.compile(r"(?<=\bhow many )[a-z]+", re.IGNORECASE)
_BETWEEN = re.compile(r"\bbetween [^.?!]+", re.IGNORECASE)
_DAY = re.compile(
    rf"\b(?:{WHEN}|(?:next |this |last )?(?:mon|tues|wednes|thurs|fri|satur|sun)day|tonight"
    r"|(?:next|this|last|the) (?:week|month|year|weekend))\b",
    re.IGNORECASE,
)
_ON_DAY = re.compile(rf"(?:\bon )?{_DAY.pattern}", re.IGNORECASE)
_THING = re.compile(r"\b(?:an?|the) [a-z]+")
_ONE_OF_MANY = re.compile(r"\ban? [a-z]+")
_THE_LAST = re.compile(r"\bthe [a-z]+(?=[.?!]*$)")
_THE_NAME = re.compile(rf"\bthe {_CAPITAL}")
_HEAD = re.compile(r"\bthe [a-z]+(?= of (?:the )?[A-Z])")
_MOST = re.compile(r"\bthe [a-z]+est\b")
_ORDINAL = re.compile(r"\bthe (?:(?:very )?first|second|third|fourth|fifth|last)\b")
_LAST_WORD = re.compile(r"(?<=\b(?:of|to) )[a-z]+(?=[.?!]*$)|(?<=\bfor )[a-z]+(?=[.?!]*$)")
_REFERS = re.compile(
    r"(?:it|that|this|these|those|them|you|your\w*|me|my\w*|us|i|he|she|they|so)\b.*"
)
_PASSING = re.compile(
    r"(?:ok|thanks|thank you|great|nice|wow|cool|i see|yes|no|sorry|pardon|what|stop|wait|again|go on"
    r"|continue|shorter"
    r"|(?:repeat|say) (?:that|it)(?: again)?)"
)
"""What a follow-up may skip to find the question before it, like words on how to speak."""


def whole_question(text: str, earlier: Iterable[str]) -> str:
    """`text` with the question that it continues or corrects, or `text` itself. `earlier`: oldest first.

    Of the last question, the last name, number, day or thing is replaced by that of `text`.
    """
    asked, named = "", _Named()
    for question in list(earlier)[-_MOST_EARLIER:]:
        if not (is_passing(question) or (asked and _OF_THE_SAME.fullmatch(question))):
            asked = _continued(_with_names(question.strip(), named), asked)
        named = named.after(question)
    return _continued(_with_names(text.strip(), named), asked)


def proposed(text: str) -> str:
    """The last words of "What about a joke?"; empty if `text` has another form."""
    found = _CONTINUES.fullmatch(text)
    other = found["other"].strip() if found else ""
    return "" if len(other.split()) > _MOST_WORDS or ASKS.match(plain(other)) else other


def is_passing(text: str) -> bool:
    """Whether `text` asks nothing: "Thanks", "Slower, please"."""
    forms = peeled(plain(text)) if len(text) <= LONGEST_CHARS else ()
    return any(kind.fullmatch(form) for form in forms for kind in (_PASSING, PACE, LOUDNESS))


def _continued(text: str, asked: str) -> str:
    same = _IN_YEAR.fullmatch(text)
    if same and asked.lower().startswith(f"{same['words'].lower()} "):
        return re.sub(r"\b\d{4}\b", same["year"], asked)
    corrects = _CORRECTS.fullmatch(text)
    found = corrects or _CONTINUES.fullmatch(text)
    other = found["other"].strip() if found else ""
    if found is None or not asked or len(other.split()) > _MOST_WORDS or _NO_OTHER.fullmatch(other):
        return text
    if _NUMBER.fullmatch(number := with_digits(other.lower())):
        other = number
        asked = asked if re.search(r"\d", asked) else with_digits(asked.lower())
    preposition = found["preposition"] or ""
    if preposition in ("until", "till") and (end := re.search(rf"\b{preposition} [^.?!]+", asked)):
        return f"{asked[: end.start()]}{preposition} {other}{asked[end.end() :]}"
    if _BETWEEN.fullmatch(other) and (pair := _BETWEEN.search(asked)):
        return f"{asked[: pair.start()]}{other}{asked[pair.end() :]}"
    day = f"in {other}" if preposition == "in" else other
    if _DAY.fullmatch(with_ordinals(plain(day))):
        return _on_day(asked, day, exact=preposition == "on")
    for replaced in _replaced_by(other, corrects=corrects is not None):
        if places := list(replaced.finditer(asked)):
            return f"{asked[: places[-1].start()]}{other}{asked[places[-1].end() :]}"
    if preposition in ("in", "at") and ASKS.match(plain(asked)):
        return f"{asked.rstrip('.?! ')} {preposition} {other}?"
    return text


_FORMS: tuple[tuple[re.Pattern[str], tuple[re.Pattern[str], ...]], ...] = (
    (_ONE_OF_MANY, (_ONE_OF_MANY,)),
    (_MOST, (_MOST,)),
    (_ORDINAL, (_ORDINAL,)),
    (_THE_NAME, (_THE_NAME, _NAME)),
    (_THE_LAST, (_HEAD, _THE_LAST)),
)
"""What words of a form may stand for."""


def _replaced_by(other: str, *, corrects: bool) -> Iterator[re.Pattern[str]]:
    """What of a question `other` may stand for."""
    for amount in (_NUMBER, _PERCENT):
        if amount.fullmatch(other):
            yield amount
            return
    if _REFERS.fullmatch(other.lower()):
        return
    if corrects or other[:1].isupper():
        yield _NAME
    if corrects:
        yield _THING
    else:
        yield from next((places for form, places in _FORMS if form.fullmatch(other)), ())
    if corrects or other.isalpha():
        yield _LAST_WORD
    if is_unit(other):
        yield _HOW_MANY


def _on_day(asked: str, day: str, *, exact: bool) -> str:
    is_on = exact or day.title() in WEEKDAYS or day == "the weekend"
    on_day = f"on {day}" if is_on else day
    if places := list(_ON_DAY.finditer(asked)):
        other = on_day if places[-1][0].lower().startswith("on ") else day
        return f"{asked[: places[-1].start()]}{other}{asked[places[-1].end() :]}"
    question = asked.rstrip(".?! ")
    return f"{question} {on_day}{asked[len(question) :]}"


_HOUR = re.compile(
    r"\bat (noon|midnight|(?:[a-z]+|\d{1,2}(?::[0-5]\d)?)(?: [a-z]+)?(?: ?[ap]\.?m\b| o['’]clock))",
    re.IGNORECASE,
)
_PLACE = re.compile(
    rf"\b(?:in|to) (?!(?:{'|'.join((*MONTHS, *WEEKDAYS))})\b)([A-Z][\w'-]*(?: [A-Z][\w'-]*)*)"
)
_DATE = re.compile(rf"\b{WHEN}\b")

_UNTIL_THEN = re.compile(
    r"\b(?P<before>until|till|before) (?:then|(?:i|we) (?:leave|go|fly|travel)|it starts)\b",
    re.IGNORECASE,
)
_WEEKDAY = re.compile(
    r"\b(?P<before>what (?:week)?day(?: of the week)? (?:is|was)) (?:that|it|then)(?=[.?!]*$)",
    re.IGNORECASE,
)
_FROM_NOW = re.compile(r"\bhow long is (?:that|it) from now\b", re.IGNORECASE)
_THERE = re.compile(
    r"(?P<before>\b(?:time|hour|weather|languages?|currency|money|people live)\b[^.?!]*?)(?: over)? there\b"
    r"|(?P<they>\b(?:languages?|currency|money) do (?:they|people) (?:speak|use))(?=[.?!]*$)",
    re.IGNORECASE,
)


class _Named(NamedTuple):
    """What the texts so far named last; empty if they named none."""

    hour: str = ""
    place: str = ""
    date: str = ""

    def after(self, text: str) -> _Named:
        """The same, after `text`."""
        return _Named(
            _last_in(text, _HOUR) or self.hour,
            _last_in(text, _PLACE) or self.place,
            _last_in(with_ordinals(plain(text)), _DATE) or self.date,
        )


def _with_names(text: str, named: _Named) -> str:
    """`text` with the names that the texts before, or its own sentences before, gave."""
    *begin, last = re.split(r"(?<=[.!?])\s+", text)
    hour, place, date = functools.reduce(_Named.after, begin, named)
    if place:
        last = _THERE.sub(rf"\g<before>\g<they> in {place}", last)
    if date:
        last = _WEEKDAY.sub(rf"\g<before> {date}", last)
        last = _FROM_NOW.sub(f"how long is it until {date}", last)
    if hour or date:
        last = _UNTIL_THEN.sub(rf"\g<before> {hour or date}", last)
    return " ".join([*begin, last])


def _last_in(text: str, pattern: re.Pattern[str]) -> str:
    found = list(pattern.finditer(text))
    return found[-1][found[-1].lastindex or 0] if found else ""


_WHAT = r"(?:it|that|then|now|the (?:story|answer|list|explanation)|your (?:story|answer)|where you stopped)"

GO_ON = re.compile(
    r"(?:(?:you can|you may|can you|could you|let us) )?"
    rf"(?:go on|go ahead|continue|carry on|keep going|keep talking|resume)(?: (?:with )?{_WHAT})?"
    r"|and then(?: what)?|what (?:happens|happened|comes|came) (?:next|then|after that)"
    r"|where were (?:you|we)|what were you (?:saying|going to say)"
    r"|tell me the rest|finish (?:it|the story|your sentence)"
)


def rest_to_continue(messages: Sequence[dict[str, Any]], rest: str) -> str:
    """`rest`, if the last of `messages` asks to continue it; empty otherwise."""
    last = messages[-1]
    if not rest or last["role"] != "user" or not isinstance(last["content"], str):
        return ""
    asks = any(GO_ON.fullmatch(shorter) for shorter in peeled(plain(last["content"])))
    return rest if asks else ""
