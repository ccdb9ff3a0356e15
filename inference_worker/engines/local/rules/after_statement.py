"""A question behind a statement in one breath: "I'm in a hurry, what time is it?"."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from antiphon.inference_worker.engines.local.rules.text import ASKS, peeled, plain


class AfterStatement(NamedTuple):
    """A turn of the user in two parts."""

    statement: str
    question: str


_OF_CLAUSES = """
know knows knew known wonder wondering sure idea see saw seen understand understood remember forget
forgot forgotten told tell tells ask asked asking about of is was are were be like explain decide decided
matter matters on said say says learn learned learnt care for to than with by in from at guess show
showed shows hear heard find found out notice noticed not never always just exactly only neither nor so
as realise realize check choose discuss discussed believe imagine think me him her us them you into over
depends
"""
_INDIRECT = "|".join(_OF_CLAUSES.split())
"""Words before a clause that asks nothing: "I know what is wrong"."""

_VERB = "is|are|was|were|do|does|did|should|shall|can|could|will|would"
_SOMEBODY = r"i|you|we|he|she|it|they|my [a-z]+"
_MEASURE = "many|much|long|old|far|tall|often|big|heavy|hot|cold"
_WITHIN = re.compile(
    rf"(?<!\w)(?P<before>(?!(?:{_INDIRECT})\b)[\w'’%.:]+),? (?:(?:so|and|but|then|well|ok|okay),? )?"
    rf"(?P<question>(?:(?:what|how|why)(?:['’]?s| (?:{_VERB}))\b"
    rf"|(?:where|when)(?:['’]s| (?:{_VERB}) (?:{_SOMEBODY}|the|that|this|there|an?))\b"
    r"|who(?:['’]s| is| was) the\b"
    rf"|what (?:time|day|year|date|kind|sort|colou?r) (?:{_VERB})\b"
    rf"|how (?:{_MEASURE}) (?!(?:{_SOMEBODY})\b)"
    rf"|which (?!(?:{_VERB}|has|had|makes|means|{_SOMEBODY})\b)[a-z]+ (?:{_VERB})\b"
    rf"|(?:can|should|could|shall) (?:{_SOMEBODY}) [a-z]"
    r"|(?:do|does|did) (?:i|you|we|he|she|it|they) (?:know|have|think|need|want)\b).*)",
    re.IGNORECASE | re.DOTALL,
)
"""A question without a mark before it: not "which is", which belongs to the word before."""

_SEEKS_IDEAS = re.compile(
    r"\bany (?:other )?(?:ideas?|tips?|advice|suggestions?|thoughts)[.?! ]*$", re.IGNORECASE
)
_RELATIVE = re.compile(r"\s*(?:who|which|where|when|whose|whom)\b", re.IGNORECASE)
_MOST_COMMAS = 6
_SAYS = re.compile(
    r"\b(?:said|says|say|asked|asks|ask|called|wrote|sings?|sang|named|titled|is|and|or)$"
)
_SUPPOSES = re.compile(
    r"(?:.*\b)?(?:if|suppose|supposing|imagine|assume|assuming|pretend|let us say|say)\b.*"
)


def asks_within(text: str) -> bool:
    """Whether there is a question in `text` behind other words."""
    return bool(_WITHIN.search(text) or _SEEKS_IDEAS.search(text))


def after_statement(text: str) -> Iterator[AfterStatement]:
    """The ways to read `text` as a statement and a question that stands for itself.

    Not "If it is noon in London, what time is it?", and not what somebody else has asked.
    """
    for found in _ways(text):
        stated = plain(found.statement)
        if stated and not _SUPPOSES.fullmatch(stated) and not _SAYS.search(stated):
            yield found


def _ways(text: str) -> Iterator[AfterStatement]:
    *before, last = re.split(r"(?<=[.!?])\s+", text.strip())
    if before and _asks(last):
        yield AfterStatement(" ".join(before), last)
    for comma in [at.start() for at in re.finditer(",", last)][-_MOST_COMMAS:]:
        begin, end = last[:comma], last[comma + 1 :].strip()
        if _asks(end) and ("?" in end or not _RELATIVE.match(end)):
            yield AfterStatement(" ".join([*before, begin]), end)
    within = _WITHIN.search(last)
    if within and not _asks(begin := last[: within.end("before")]):
        yield AfterStatement(" ".join([*before, begin]), within["question"])


def _asks(text: str) -> bool:
    return any(map(ASKS.match, peeled(plain(text))))
