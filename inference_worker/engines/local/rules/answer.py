"""Answers a question by rule: about the assistant, dates, units and sums."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.rules.arithmetic import answer_sum
from antiphon.inference_worker.engines.local.rules.dates import answer_date
from antiphon.inference_worker.engines.local.rules.language import is_not_english
from antiphon.inference_worker.engines.local.rules.table import RULES, Situation
from antiphon.inference_worker.engines.local.rules.text import plain
from antiphon.inference_worker.engines.local.rules.units import answer_conversion

LONGEST_CHARS = 200
"""A longer text is no question of these kinds."""

ENGLISH_ONLY = "I understand English only, and I did not understand that."

_LEAD = re.compile(
    r"(?:please|can you|could you|would you|will you|can you please|could you please|tell me|do you know"
    r"|do you happen to know"
    r"|i want to know|i would like to know|i need to know|hello|hi|hey|ok|so|well|um|uh|oh|now|alright"
    r"|all right|antiphon"
    r"|just|and|then|but|quickly|quick question|excuse me|thanks|thank you|great|good|yes|no|sure"
    r"|computer|assistant"
    r"|i was wondering|help me|hello there|hi there|sorry|if you know|let me know)\s+"
)
_TAIL = re.compile(
    r"\s+(?:please|for me|thanks|thank you|antiphon|then|exactly|again|anyway|actually|dear|mate|my"
    r" friend|if you can)$"
)


def answer(question: str, situation: Situation) -> str | None:
    """The answer by rule to what the user said or wrote; None if the language model answers it.

    Of several sentences, each needs a rule.
    """
    question = question.strip()
    if not question:
        return None
    if is_not_english(question):
        return ENGLISH_ONLY
    if len(question) > LONGEST_CHARS:
        return None
    if whole := _answer_one(plain(question), situation):
        return whole
    parts = _sentences(question)
    if len(parts) < 2:
        return None
    answers = [_answer_one(plain(part), situation) for part in parts]
    known = [text for text in answers if text is not None]
    return " ".join(dict.fromkeys(known)) if len(known) == len(parts) else None


def _sentences(question: str) -> list[str]:
    pieces = re.split(r"(?<=[.!?])\s+|,?\s+and\s+(?=(?:what|who|how|when|where)\b)", question)
    return [piece for piece in pieces if plain(piece)]


def _answer_one(text: str, situation: Situation) -> str | None:
    """Try the rules on `text`, and on what remains without polite words at its ends."""
    while text:
        if found := _answer_exactly(text, situation):
            return found
        shorter = _TAIL.sub("", text)
        if shorter == text and (lead := _LEAD.match(text)):
            shorter = text[lead.end() :]
        if shorter == text:
            return None
        text = shorter.strip()
    return None


def _answer_exactly(text: str, situation: Situation) -> str | None:
    for pattern, function in RULES:
        if (found := pattern.fullmatch(text)) and (sentence := function(found, situation)):
            return sentence
    return answer_date(text, situation.now) or answer_conversion(text) or answer_sum(text)
