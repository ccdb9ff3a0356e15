"""Corrects what the recogniser writes: old spellings, numbers that sound like other words, and loops."""

from __future__ import annotations

import re

_OLD_SPELLING = re.compile(r"\b(to)-(day|night|morrow)\b", re.IGNORECASE)

_NUMBERS = {"to": "two", "too": "two", "for": "four", "won": "one", "ate": "eight"}
_NUMBER = "|".join(_NUMBERS)
_OPERATOR = r"(?:plus|minus|times|divided by|multiplied by)"
_JOINED = re.compile(rf"\b(plus|minus|times)(?=(?:{_NUMBER}|two|one|four)\b)", re.IGNORECASE)
_BEFORE = re.compile(rf"\b({_NUMBER}),? (?={_OPERATOR}\b)", re.IGNORECASE)
_AFTER = re.compile(rf"\b({_OPERATOR}),? ({_NUMBER})\b(?=[.,!?]|$| {_OPERATOR}\b)", re.IGNORECASE)
"""A number is the last word, or another operator follows."""

_WORD_LOOP = re.compile(r"\b([\w']+)(?:[\s,]+\1\b){3,}", re.IGNORECASE)
_PHRASE_LOOP = re.compile(r"\b([\w']+(?:[\s,]+[\w']+){1,2})(?:[\s,]+\1\b){2,}", re.IGNORECASE)
"""A word four times in a row, or a few words three times. The recogniser writes that for noise."""


def corrected(text: str) -> str:
    """`text` as it was probably said."""
    text = _JOINED.sub(r"\1 ", _OLD_SPELLING.sub(r"\1\2", text))
    text = _BEFORE.sub(lambda found: f"{_number(found[1])} ", text)
    text = _AFTER.sub(lambda found: f"{found[1]} {_number(found[2])}", text)
    return _PHRASE_LOOP.sub(r"\1", _WORD_LOOP.sub(r"\1", text))


def _number(word: str) -> str:
    return _NUMBERS[word.lower()]
