"""A quiz: asks questions one after the other, and judges the answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from antiphon.inference_worker.engines.local.rules.text import PLEASE, peeled, plain


@dataclass(frozen=True, slots=True)
class _Question:
    """`answer` completes "No, it is …". `right`: a pattern of what a right answer contains, in plain form."""

    text: str
    answer: str
    right: str


_QUESTIONS = (
    _Question("What is the capital of Italy?", "Rome", "rome|roma|roam"),
    _Question("How many legs does a spider have?", "eight", "8|ate"),
    _Question("Which planet is the largest?", "Jupiter", "jupiter"),
    _Question("In which country are the pyramids of Giza?", "Egypt", "egypt"),
    _Question("What is seven times eight?", "fifty-six", "56"),
    _Question("Which animal is the tallest?", "the giraffe", "giraffes?"),
    _Question("Which ocean is the largest?", "the Pacific", "pacific"),
    _Question("How many minutes are in two hours?", "120", "120"),
    _Question("What is the capital of Japan?", "Tokyo", "tokyo"),
    _Question("Which colour do you get from blue and yellow?", "green", "green"),
)

_BEGIN = re.compile(
    rf"{PLEASE}(?:quiz me|ask me (?:a|another|one more) (?:quiz |trivia )?question|(?:start|play|do|make) (?:a"
    rf"|the|another) quiz(?: with me)?|let us (?:play|do|have|start) (?:a|the|another) quiz|next question"
    rf"|another question)"
)
_GIVES_UP = re.compile(
    r"(?:(?:i )?(?:do not|dont) know(?: it| that)?|(?:i have )?no idea|(?:i )?pass|skip(?: it| this)?|next"
    r"(?: one)?|tell me(?: the answer)?|i give up|not sure|i am not sure)"
)
_NO_ANSWER = re.compile(
    r".*\b(?:stop|quit|enough|end|finish|bye|goodbye|thanks?|hello|sorry|who|what is your|why|how"
    r"|tell me (?:a|about)|repeat|again)\b.*"
)
_MOST_WORDS = 7
"""A longer sentence is no answer to a quiz question."""


def answer_quiz(said: str, previous: str) -> str | None:
    """The reply to `said`, in plain form. `previous`: what the assistant said before.

    None if nobody asks for a quiz and `previous` asks none of its questions.
    """
    asked = _asked_in(previous)
    shorter = list(peeled(said))
    if any(map(_BEGIN.fullmatch, shorter)):
        return f"Here is a question. {_next(asked).text}"
    if asked is None or len(said.split()) > _MOST_WORDS:
        return None
    if re.search(rf"\b(?:{asked.right})\b", said):
        return f"That is right! Next question: {_next(asked).text}"
    if any(map(_GIVES_UP.fullmatch, shorter)):
        return f"It is {asked.answer}. Next question: {_next(asked).text}"
    if _NO_ANSWER.fullmatch(said):
        return None
    return f"No, it is {asked.answer}. Next question: {_next(asked).text}"


def _asked_in(previous: str) -> _Question | None:
    """The question that ends `previous`. The user may have interrupted its last word."""
    end = plain(previous)
    for question in _QUESTIONS:
        words = plain(question.text).split()
        if end.endswith((" ".join(words), " ".join(words[:-1]))):
            return question
    return None


def _next(asked: _Question | None) -> _Question:
    place = -1 if asked is None else _QUESTIONS.index(asked)
    return _QUESTIONS[(place + 1) % len(_QUESTIONS)]
