"""The lists that a user lets the assistant keep during a conversation. They are in what the user has said."""

from __future__ import annotations

import re
from collections.abc import Iterable

from antiphon.inference_worker.engines.local.rules.situation import Answer, Situation
from antiphon.inference_worker.engines.local.rules.text import ASKS, LONGEST_CHARS, PLEASE

_LIST = r"(?:my|the|our|a|an|that) (?:(?:\w+[ -]){1,2}?)?list"
_ADDS = rf"{PLEASE}(?:add|put|write|note)(?: down)? (?P<things>.+?) (?:to|on|onto|in|into) {_LIST}"
_ADDS_MORE = rf"(?:and |also |then )*{PLEASE}(?:and|also|plus|add|put) (?P<things>.+?)(?: too| as well| to it)?"
_TAKE = rf"{PLEASE}(?:remove|delete|take|cross|scratch)(?: off| out)?"
_REMOVES_FROM = rf"{_TAKE} (?P<things>.+?) (?:from|off|of) {_LIST}"
_REMOVES = rf"{_TAKE} (?P<things>(?!.*\blist\b).+?)(?: (?:off|out|again))?"
_CLEARS = rf"{PLEASE}(?:clear|empty|delete|forget) {_LIST}"
_SHOWS = (
    rf"(?:so |and |now )*{PLEASE}(?:what (?:is|do i have|have i got) on|what is in|(?:read|show|tell|give|say)"
    rf"(?: me)?(?: what is on)?) {_LIST}(?: now| so far| again)?"
)
_SHOWS_IT = (
    r"(?:so |and |now )*(?:what is (?:on|in) it|what do i have|read it(?: to me)?)(?: now| so far)?"
)

_NO_THING = re.compile(
    r"(?:thanks?|thank you|bye|goodbye|stop|that is (?:all|it)|no\b|yes\b).*", re.IGNORECASE
)

_ON_IT = "It is on your list."
_OFF_IT = "It is off your list."
_UNTIL_END = "I keep the list until this conversation ends."
_EMPTY = "Your list is empty."
_CLEARED = "Your list is empty now."
_NOT_ON_IT = "That is not on your list."
_BEGIN = "On your list: "


def _speaks_of_list(answer: str) -> bool:
    return answer.startswith((_ON_IT, _OFF_IT, _EMPTY, _CLEARED, _NOT_ON_IT, _BEGIN))


def _is_thing(things: str) -> bool:
    return not (ASKS.match(things) or _NO_THING.fullmatch(things))


def _things(text: str) -> list[str]:
    parts = (part.strip() for part in re.split(r",\s*(?:and\s+)?|\s+and\s+", text))
    return [re.sub(r"^(?:the|some|my)\s+", "", part) for part in parts if part]


def _kept(said: Iterable[str]) -> list[str]:
    """What is on the list after these turns of the user."""
    kept: list[str] = []
    speaks_of_it = False
    for turn in (turn for turn in said if len(turn) <= LONGEST_CHARS):
        text = re.sub(r"\bwhat's\b", "what is", turn.lower().strip(" .!?"))
        text = re.sub(r"^(?:ok|okay|thanks|thank you)[,. ]+|,? please$", "", text)
        forms: tuple[str, ...] = (_ADDS, _REMOVES_FROM, _CLEARS, _SHOWS)
        if speaks_of_it:
            forms = (*forms, _SHOWS_IT, _REMOVES, _ADDS_MORE)
        form, found = next(
            ((form, found) for form in forms if (found := re.fullmatch(form, text))), ("", None)
        )
        speaks_of_it = found is not None
        if found is None:
            continue
        if form == _CLEARS:
            kept = []
        elif form in (_REMOVES, _REMOVES_FROM):
            kept = [thing for thing in kept if thing not in _things(found["things"])]
        elif form in (_ADDS, _ADDS_MORE) and _is_thing(found["things"]):
            kept += [thing for thing in _things(found["things"]) if thing not in kept]
    return kept


def _add(_: re.Match[str], situation: Situation) -> str:
    return _ON_IT if _kept(situation.said) else f"{_ON_IT} {_UNTIL_END}"


def _add_more(found: re.Match[str], situation: Situation) -> str | None:
    goes_on = _speaks_of_list(situation.previous) and _is_thing(found["things"])
    return _ON_IT if goes_on else None


def _remove(found: re.Match[str], situation: Situation) -> str | None:
    if not _speaks_of_list(situation.previous) and "list" not in found[0]:
        return None
    kept = _kept(situation.said)
    return _OFF_IT if any(thing in kept for thing in _things(found["things"])) else _NOT_ON_IT


def _show(_: re.Match[str], situation: Situation) -> str:
    kept = _kept(situation.said)
    *first, last = kept or [""]
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"{_BEGIN}{listed}." if kept else _EMPTY


def _show_it(found: re.Match[str], situation: Situation) -> str | None:
    return _show(found, situation) if _speaks_of_list(situation.previous) else None


LIST_ROWS: tuple[tuple[str, Answer], ...] = (
    (_ADDS, _add),
    (_SHOWS, _show),
    (_SHOWS_IT, _show_it),
    (_CLEARS, lambda _found, _situation: _CLEARED),
    (_REMOVES_FROM, _remove),
    (_REMOVES, _remove),
    (_ADDS_MORE, _add_more),
)
