"""What a very small language model reads of a conversation: the exchanges that the question refers to."""

import re
from collections.abc import Iterable, Sequence

from antiphon.inference_worker.engines.local.dialogue import CUT, LlmMessage
from antiphon.inference_worker.engines.local.doubt import UNSURE
from antiphon.inference_worker.engines.local.guard.answer_guard import NO_CONTENT
from antiphon.inference_worker.engines.local.rules.about_itself import LIMITS
from antiphon.inference_worker.engines.local.rules.after_statement import asks_within
from antiphon.inference_worker.engines.local.rules.follow_up import whole_question
from antiphon.inference_worker.engines.local.rules.listening import REACTIONS
from antiphon.inference_worker.engines.local.rules.text import ASKS, peeled, plain

_MOST_EXCHANGES = 2
"""Of 24 easy questions the bundled model answers 22 alone, and 15 to 19 after three other exchanges."""

_EXAMPLES: tuple[LlmMessage, ...] = (
    {"role": "user", "content": "I had a long day at work."},
    {
        "role": "assistant",
        "content": "That sounds tiring. I hope you can rest now. What made it so long?",
    },
    {"role": "user", "content": "I will be there soon."},
    {
        "role": "assistant",
        "content": "All right. Is there anything that I can do for you?",
    },
)
"""Before what is no question: without them the model repeats the words, or its own description.

The model asks for more of what they are about, so the second one is about nothing.
"""

_FOLLOWS_UP = re.compile(
    r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|that|this|those|these|there|then|one"
    r"|ones|same|else|another|other|others|more|again|so|instead|both|either|neither|former|latter"
    r"|said|say|told|tell|mean|meant|continue|why|really|explain|shorter|longer|sure|next|happens|happened)\b"
    r"|^(?:and|but|or|yes|no|ok|what about|how about|go on|which|what|how|who|when|where)$"
    r"|^(?:and|but|or|yes|yeah|no|what about|how about|go on)\b"
)
"""Words that need what was said before, in plain form."""

_OPENING = re.compile(
    r"(?:(?:ok|fine|great|thanks|thank you|alright|well|so|now|then|by the way|anyway|wait|oh) )+"
)
"""Before a question that needs no other: "OK, then what is gravity?"."""

LONGEST_TURN, MOST_TURNS = 4000, 200
"""Characters and turns that are searched for what a question refers to: a client may send 64 MiB."""

_FEW_WORDS = 2

_MOST_STATEMENTS = 2
"""Of those before a question that have no word of it."""

_OF_THE_USER = re.compile(r"\b(?:i|me|my|mine|we|us|our|ours)\b")
_ENDS = re.compile(r"[.!?…]$")

_WORD = re.compile(
    r"\b(?!(?:about|after|all|also|and|any|are|because|been|before|being|but|can|could|did|does|doing|down|each"
    r"|even|ever|for|from|get|give|good|got|had|has|have|having|her|here|him|his|how|into|its|just|know|let"
    r"|like|long|made|make|many|much|must|need|not|one|only|our|out|over|please|same|she|should|some|such"
    r"|than|thank|thanks|that|the|their|them|then|there|these|they|thing|think|this|those|two|very|want|was"
    r"|well|were|what|when|where|which|while|who|why|will|with|word|would|you|your|yours)\b)"
    r"[a-z0-9]{3,}"
)
"""Words of three letters or more, but not those that any two texts share."""


def recalled(messages: Sequence[LlmMessage], *, examples: bool = True) -> list[LlmMessage]:
    """`messages` without the exchanges that the last question does not refer to.

    It refers to those that share a word with it, and to the last one if it cannot stand alone, together with
    the one that this continues. What is no question belongs to the last one, after `examples` of small talk.
    An apology is read only with a question that follows it: the model would apologise again.
    """
    asked = _last_user(messages)
    if asked is None or not all(isinstance(message["content"], str) for message in messages):
        return list(messages)
    first = next(place for place, said in enumerate(messages) if said["role"] != "system")
    exchanges, stated = _without_reactions(_exchanges(messages[first:asked])[-MOST_TURNS:])
    earlier = [_beginning(said) for said in messages[:asked] if said["role"] == "user"]
    text, begin = messages[asked]["content"], _beginning(messages[asked])
    if text == begin:
        text = begin = whole_question(text, earlier)
    question = plain(begin)
    asks = "?" in begin or any(map(ASKS.match, peeled(question))) or asks_within(begin)
    follows_up = not asks or _follows_up(question)
    words = _content_words(question)
    kept = [
        exchange
        for exchange in exchanges
        if words & _content_words(*(plain(_beginning(said)) for said in exchange))
        and not _apologises(exchange)
    ][-_MOST_EXCHANGES:]
    if exchanges and exchanges[-1] not in kept and follows_up and not stated:
        *before, last = exchanges
        continues = bool(before) and _follows_up(plain(_beginning(last[0])))
        continued = before[-1:] if continues and not _apologises(before[-1]) else []
        kept = [*(continued or kept)[1 - _MOST_EXCHANGES :], last]
    shown = _EXAMPLES if examples and not asks else ()
    chosen = (said for exchange in kept for said in exchange)
    if follows_up or _OF_THE_USER.search(question):
        newest = len(stated) - _MOST_STATEMENTS
        referred = (
            statement
            for place, statement in enumerate(stated)
            if place >= newest or words & _content_words(plain(statement))
        )
        text = _after_statements(referred, text)
    whole = {**messages[asked], "content": text}
    return [*messages[:first], *shown, *chosen, whole, *messages[asked + 1 :]]


def _without_reactions(
    exchanges: Iterable[list[LlmMessage]],
) -> tuple[list[list[LlmMessage]], list[str]]:
    """`exchanges` with the user's statements that got only a reaction by rule before what the user said next.

    The model would copy "I see. Tell me more about it.", and it answers a question for what is told in the
    same message far better. The second part are the statements after the last other exchange.
    """
    others: list[list[LlmMessage]] = []
    stated: list[str] = []
    for exchange in exchanges:
        begin, *replies = exchange
        if begin["role"] == "user" and replies and all(map(_is_reaction, replies)):
            stated.append(_beginning(begin))
            continue
        if stated and begin["role"] == "user":
            joined = {**begin, "content": _after_statements(stated, begin["content"])}
            exchange, stated = [joined, *replies], []
        others.append(exchange)
    return others, stated


def _is_reaction(message: LlmMessage) -> bool:
    """Whether `message` is a reaction to a statement, or the beginning of one that was interrupted."""
    said = str(message["content"]).removesuffix(CUT).strip()
    return bool(said) and any(reaction.startswith(said) for reaction in REACTIONS)


def _after_statements(statements: Iterable[str], text: str) -> str:
    sentences = (one if _ENDS.search(one) else f"{one}." for one in map(str.strip, statements))
    return " ".join([*sentences, text])


def _beginning(message: LlmMessage) -> str:
    """As much as shows what the text is about."""
    return str(message["content"])[:LONGEST_TURN]


def _last_user(messages: Sequence[LlmMessage]) -> int | None:
    if any(message["role"] == "tool" for message in messages):
        return None
    places = (place for place, said in enumerate(messages) if said["role"] == "user")
    return max(places, default=None)


def _exchanges(messages: Iterable[LlmMessage]) -> list[list[LlmMessage]]:
    """Each begins with a message of the user."""
    exchanges: list[list[LlmMessage]] = []
    for message in messages:
        if message["role"] == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(message)
    return exchanges


def _apologises(exchange: list[LlmMessage]) -> bool:
    return str(exchange[-1]["content"]).startswith((UNSURE, NO_CONTENT, *LIMITS))


def _follows_up(question: str) -> bool:
    if len(question.split()) <= _FEW_WORDS:
        return True
    begin = _OPENING.match(question)
    return bool(_FOLLOWS_UP.search(question[begin.end() if begin else 0 :]))


def _content_words(*texts: str) -> set[str]:
    return {word.rstrip("s") for text in texts for word in _WORD.findall(text)}


_MOST_ANSWERS = 2
"""That are compared with the next one."""


def said_already(messages: Sequence[LlmMessage]) -> list[str]:
    """Sentences of the last answers that another one should not repeat, because the last question is another.

    One that has a word of the question may be the answer: "It ended in 1945." to "When did it end?".
    """
    asked = _last_user(messages)
    if asked is None:
        return []
    text = _beginning(messages[asked])
    earlier = [_beginning(said) for said in messages[:asked] if said["role"] == "user"]
    if plain(text) in map(plain, earlier[-_MOST_ANSWERS:]):
        return []
    words = _content_words(plain(whole_question(text, earlier)))
    answers = [_beginning(said) for said in messages[:asked] if said["role"] == "assistant"]
    return [
        sentence
        for answer in answers[-_MOST_ANSWERS:]
        for sentence in re.split(r"(?<=[.!?])\s+", answer)
        if not words & _content_words(plain(sentence))
    ]
