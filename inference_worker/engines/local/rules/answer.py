"""Answers a question by rule: about the assistant, dates, units and sums, and in a quiz."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.rules.arithmetic import answer_sum
from antiphon.inference_worker.engines.local.rules.dates import answer_date
from antiphon.inference_worker.engines.local.rules.language import is_not_english
from antiphon.inference_worker.engines.local.rules.quiz import answer_quiz
from antiphon.inference_worker.engines.local.rules.situation import Situation
from antiphon.inference_worker.engines.local.rules.table import RULES
from antiphon.inference_worker.engines.local.rules.text import LONGEST_CHARS, peeled, plain
from antiphon.inference_worker.engines.local.rules.units import answer_conversion

ENGLISH_ONLY = "I understand English only, and I did not understand that."


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
    answers = (_answer_exactly(shorter, situation) for shorter in peeled(text))
    return next(filter(None, answers), None)


def _answer_exactly(text: str, situation: Situation) -> str | None:
    for pattern, function in RULES:
        if (found := pattern.fullmatch(text)) and (sentence := function(found, situation)):
            return sentence
    return (
        answer_quiz(text, situation.previous)
        or answer_date(text, situation.now)
        or answer_conversion(text)
        or answer_sum(text)
    )
