"""A quiz, and riddles: asks one after the other, and judges the answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from antiphon.inference_worker.engines.local.rules.follow_up import STOPPED
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

_RIDDLES = (
    _Question("What gets wetter the more it dries?", "a towel", "towels?|tower"),
    _Question("What has hands, but cannot clap?", "a clock", "clocks?|watch"),
    _Question("What has to be broken before you can use it?", "an egg", "eggs?"),
    _Question("What has many teeth, but cannot bite?", "a comb", "combs?|saw|come"),
    _Question("What goes up, but never comes down?", "your age", "age"),
    _Question("What has a neck, but no head?", "a bottle", "bottles?"),
)

_BEGIN_RIDDLE = re.compile(
    rf"{PLEASE}(?:(?:tell|give|ask) me |do you know |say )?(?:a|another|1 more|any|some) (?:good "
    rf"|funny )*riddles?"
    r"|(?:the )?next riddle"
)
_BEGIN = re.compile(
    r"(?:(?:let us |can we |i want to )?(?:play|do) (?:a |some )?)?trivia"
    rf"|{PLEASE}(?:quiz me|ask me (?:a|another|1 more) (?:quiz |trivia )?question|(?:start|play|do|make) (?:a"
    rf"|the|another) quiz(?: with me)?|let us (?:play|do|have|start) (?:a|the|another) quiz|next question"
    rf"|another question)"
)
_GIVES_UP = re.compile(
    r"(?:(?:(?:i )?(?:do not|dont) know(?: it| that)?|(?:i have )?no idea|(?:i )?pass|skip(?: it| this)?|next"
    r"(?: 1)?|tell me(?: the answer)?|i give up|not sure|i am not sure|what is (?:it|the answer)"
    r"|(?:do |give me |(?:ha ?)+ |(?:nice|good|funny) 1 )*another(?: 1)?"
    r"|(?:give me |can i have )?(?:an?|another) (?:harder|easier|different|other|new) (?:1|riddle|question)"
    r"|(?:that|this) is too (?:easy|hard|difficult))(?: |$))+"
)
_HINT = re.compile(
    rf"(?:{PLEASE}give me |can i (?:have|get) |i need )?(?:a|another|1 more|any|some) (?:hints?|clues?|tips?)"
)
_REACTION = re.compile(
    r"yes|yay|oh|damn|really|easy|i knew (?:it|that)|that was easy|i am ready|my mistake|is (?:that"
    r"|it) (?:true|right|correct)"
    r"|(?:are|did|do|am) (?:you|i) .*|i said .*|let me .*|i have to think|ask me later"
)
"""To the last answer: the question is asked again."""

_APPROVAL = re.compile(r"(?:oh )?(?:ok|cool|nice|great|good|fine|wow|hm+|got it|alright|all right)")
"""Elsewhere it ends a subject. During a quiz the question is asked again."""

_STOP = re.compile(
    r"(?:stop|end|quit|finish|leave|no more)(?: (?:the|this|with the))? (?:quiz|riddles?|game"
    r"|questions?|playing)|i do not want to play(?: any ?more)?|no more(?: of (?:this|these|them))?"
    r"|i do not want (?:any )?more"
)
_NO_ANSWER = re.compile(
    r"(?:(?:what|how)(?! about\b)|when|where|which|tell|give|say|can|could|let us|something|i do not)\b.*"
    r"|.*\b(?:slower|faster|topic|something else|stop|quit|enough|end|finish|bye|goodbye|thanks?|hello"
    r"|sorry|who|what is your|why|how"
    r"|tell me (?:a|about)|repeat|again)\b.*"
)
_MOST_WORDS = 7
"""A longer sentence is no answer to a quiz question."""


def answer_quiz(said: str, previous: str) -> str | None:
    """The reply to `said`, in plain form. `previous`: what the assistant said before.

    None if the user asks for no quiz and `previous` asks none of its questions.
    """
    asked = _asked_in(previous)
    shorter = list(peeled(said))
    if any(map(_BEGIN.fullmatch, shorter)):
        return f"Here is a question. {_next(asked, _QUESTIONS).text}"
    if any(map(_BEGIN_RIDDLE.fullmatch, shorter)):
        return f"Here is a riddle. {_next(asked, _RIDDLES).text}"
    if asked is None or len(said.split()) > _MOST_WORDS:
        return None
    if any(map(_STOP.fullmatch, shorter)):
        return STOPPED
    if any(map(_HINT.fullmatch, shorter)):
        letter = re.sub("^(?:an?|the|your) ", "", asked.answer)[0].upper()
        return f"It begins with {letter}. {asked.text}"
    if _REACTION.fullmatch(said):
        return asked.text
    follows = _following(asked)
    if not said.startswith("not ") and re.search(rf"\b(?:{asked.right})\b", said):
        return f"That is right! {follows}"
    if any(map(_GIVES_UP.fullmatch, shorter)):
        return f"It is {asked.answer}. {follows}"
    if _NO_ANSWER.fullmatch(said):
        return None
    return f"No, it is {asked.answer}. {follows}"


def approved_in_quiz(said: str, previous: str) -> str | None:
    """The question that `previous` asks, if `said` only approves of what was said."""
    asked = _asked_in(previous) if _APPROVAL.fullmatch(said) else None
    return asked.text if asked else None


def _asked_in(previous: str) -> _Question | None:
    """The question that ends `previous`. The user may have interrupted its last word."""
    end = plain(previous)
    for question in (*_QUESTIONS, *_RIDDLES):
        words = plain(question.text).split()
        if end.endswith((" ".join(words), " ".join(words[:-1]))):
            return question
    return None


def _following(asked: _Question) -> str:
    if asked in _RIDDLES:
        return f"Next riddle: {_next(asked, _RIDDLES).text}"
    return f"Next question: {_next(asked, _QUESTIONS).text}"


def _next(asked: _Question | None, questions: tuple[_Question, ...]) -> _Question:
    place = questions.index(asked) if asked in questions else -1
    return questions[(place + 1) % len(questions)]
