"""What "then", "there" and "that day" refer to: the last hour, place or date that was named."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from antiphon.inference_worker.engines.local.rules.dates import WHEN
from antiphon.inference_worker.engines.local.rules.numbers import with_ordinals
from antiphon.inference_worker.engines.local.rules.text import plain

_HOUR = re.compile(
    r"\bat (noon|midnight|(?:[a-z]+|\d{1,2}(?::[0-5]\d)?)(?: [a-z]+)?(?: ?[ap]\.?m\b| o['’]clock))",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\b(?:in|to) ([A-Z][\w'-]*(?: [A-Z][\w'-]*)*)")
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
    r"(?P<before>\b(?:time|hour|weather)\b[^.?!]*?)(?: over)? there\b", re.IGNORECASE
)


class Named(NamedTuple):
    """What the texts so far named last; empty if they named none."""

    hour: str = ""
    place: str = ""
    date: str = ""

    def after(self, text: str) -> Named:
        """The same, after `text`."""
        return Named(
            _last(_HOUR, text) or self.hour,
            _last(_PLACE, text) or self.place,
            _last(_DATE, with_ordinals(plain(text))) or self.date,
        )


def with_names(text: str, named: Named) -> str:
    """`text` with the names that the texts before, or its own sentences before, gave."""
    *begin, last = re.split(r"(?<=[.!?])\s+", text)
    hour, place, date = functools.reduce(Named.after, begin, named)
    if place:
        last = _THERE.sub(rf"\g<before> in {place}", last)
    if date:
        last = _WEEKDAY.sub(rf"\g<before> {date}", last)
        last = _FROM_NOW.sub(f"how long is it until {date}", last)
    if hour or date:
        last = _UNTIL_THEN.sub(rf"\g<before> {hour or date}", last)
    return " ".join([*begin, last])


def _last(pattern: re.Pattern[str], text: str) -> str:
    found = list(pattern.finditer(text))
    return found[-1][found[-1].lastindex or 0] if found else ""
