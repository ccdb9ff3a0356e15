"""A question in the form that the rules expect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from antiphon.inference_worker.engines.local.rules.quantities.numbers import with_digits

_TYPOGRAPHY = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "\u00a0": " ", "°": " degrees "}
)
_CONTRACTIONS = (
    (re.compile(r"\b(what|who|how|where|when|it|that|there|here|name)'?s\b(?! name)"), r"\1 is"),
    (
        re.compile(r"\b(why|weather|how [a-z]+|(?:what|which) (?:time|day|date|year|month))'s\b"),
        r"\1 is",
    ),
    (re.compile(r"\btoday's (?=my|our|an?)\b"), "today is "),
    (re.compile(r"\blet'?s\b"), "let us"),
    (re.compile(r"\b(you|we|they|what|who|why|how|where)'re\b"), r"\1 are"),
    (re.compile(r"\bi'?m\b"), "i am"),
    (re.compile(r"\b(i|you|we|they)'ve\b"), r"\1 have"),
    (re.compile(r"\b(i|you|it|what|how)'ll\b"), r"\1 will"),
    (re.compile(r"\b(i|you)'d\b"), r"\1 would"),
    (
        re.compile(
            r"\b(how|what|where|when|why|who)'d\b(?! (?:be|have|happen|win|(?:you )?(?:like|love)))"
        ),
        r"\1 did",
    ),
    (re.compile(r"\bd'y(?:ou|a)\b"), "do you"),
    (re.compile(r"\b(can|could|do|would|will) ya\b"), r"\1 you"),
    (re.compile(r"\bcan'?t\b|\bcan not\b"), "cannot"),
    (re.compile(r"\b(do|does|did|is|are|was|will|could|would|have|should)n'?t\b"), r"\1 not"),
    (re.compile(r"\bwon'?t\b"), "will not"),
    (re.compile(r"\bokay\b"), "ok"),
    (re.compile(r"\bgood-bye\b"), "goodbye"),
    (re.compile(r"\bgonna\b"), "going to"),
    (re.compile(r"^(?:do you )?wanna play\b"), "let us play"),
    (re.compile(r"\bwanna\b"), "want to"),
    (re.compile(r"\b(?:have )?gotta\b"), "have to"),
    (re.compile(r"\bgimme\b"), "give me"),
    (re.compile(r"\blemme\b"), "let me"),
    (
        re.compile(
            r"\b(do|did|have|would|can|could) you (?:by any chance|happen to|perhaps|maybe|possibly|guys)\b"
        ),
        r"\1 you",
    ),
    (re.compile(r"\b(?:i )?dunno\b"), "i do not know"),
)


_FACTORIAL = re.compile(
    r"(?<=\d)!(?=\s*(?:[-+*/^×÷]|plus|minus|times|divided by|multiplied by)\s*[\d(])"
)
_SIGNS = r"[\d\s.()+*/^×÷!=?-]"
_ONLY_SIGNS = re.compile(
    rf"(?:what is|how much is|calculate|compute|evaluate|solve) {_SIGNS}+"
    rf"|(?={_SIGNS}*[-+*/^×÷=]){_SIGNS}+"
)


def _with_factorials(text: str) -> str:
    """ "5! + 3" has a factorial; "I am 5!" has none."""
    pattern = r"(?<=\d)!(?!!)" if _ONLY_SIGNS.fullmatch(text.strip()) else _FACTORIAL
    return re.sub(pattern, " factorial", text)


_REMEMBERED_CHARS = 500
"""Of a text whose plain form is kept. The rules ask for those of the newest rows a hundred times per answer."""


def plain(text: str) -> str:
    """`text` in lower case, without contractions and punctuation, with numbers in digits."""
    return _remembered(text) if len(text) <= _REMEMBERED_CHARS else _plain(text)


def _plain(text: str) -> str:
    text = text.translate(_TYPOGRAPHY).lower().replace('"', " ")
    for pattern, written in _CONTRACTIONS:
        text = pattern.sub(written, text)
    text = _with_factorials(with_digits(text))
    text = re.sub(r"(?<![\d])\.|\.(?!\d)|[,;:!?…]", " ", text)
    return " ".join(text.split())


_remembered = lru_cache(maxsize=1024)(_plain)


LONGEST_CHARS = 200
"""A longer text is no question that a rule answers."""

PLEASE = r"(?:please )?(?:can you |could you |will you |would you |i want you to |i need you to )?(?:please )?"
"""Polite words before an imperative, in plain form."""

_COMMON = """
a about after again all also always am an and another any anyone anything are as at away back be because been
before being best better big but by came can come could day did do does doing done down each even ever every few
find first for from get give go going good got great had has have having he hear hello help her here hey hi him
his how i if in into is it its just keep know last let like little long look made make many may me mean more
most much must my name need never new no not nothing now of off ok old on once one only or other our out over
own people please put really right said same say see she should show so some someone something speak still such
sure take talk tell than thank thanks that the their them then there these they thing things think this those
time to today too try two under until up us use very want was way we well went were what when where which
while who whose why will with without word work would yes yet you your yours
"""
COMMON_WORDS = frozenset(_COMMON.split())
"""The most common words of English: a text of several words without any is hardly English."""

ASKS = re.compile(
    r"^(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|could|will|would|should"
    r"|shall|may|has|have|had|am|in which|in what|give|tell|name|write|explain|describe|list|define|make|say"
    r"|show|help|translate|spell|count|compare|summari[sz]e|suggest|recommend|find|read|solve|calculate"
    r"|complete|continue|finish)\b"
)
"""The beginning of a question or a request, in plain form."""

_LEAD = re.compile(
    r"(?:please|can you|could you|would you|will you|can you please|could you please|tell me|do you know"
    r"|i want to know|i would like to know|i need to know|hello|hi|hey|ok|so|well|um|uh|oh|now|alright"
    r"|all right|antiphon"
    r"|just|and|then|but|quickly|quick question|excuse me|thanks|thank you|great|good|yes|no|sure"
    r"|computer|assistant|alexa|siri|google"
    r"|i was wondering|help me|hello there|hi there|sorry|if you know|let me know|by the way|wait|anyway"
    r"|listen|dear|(?:1 more|another) (?:thing|question)|fine|let me ask you(?: something)?"
    r"|(?:have you(?: got)?|do you have|got)? ?any idea"
    r"|(?:remind me(?: again)?(?: of)?|i (?:forgot|have forgotten|cannot remember|do not remember|wonder))"
    r"(?= (?:what|who|where|when|how|which|why|the (?:capital|currency|population|plural))\b))\s+"
)
_TAIL = re.compile(
    r"\s+(?:please|for me|thanks|thank you|antiphon|then|exactly|again|anyway|actually|dear|mate|my"
    r" friend|if you can|by the way|though"
    r"|(?:just )?out of (?:interest|curiosity)|just curious|by any chance|while (?:we|you) are at it"
    r"|off the top of your head|if you do not mind)$"
)


_ASIDE = re.compile(
    r"\s+(?:do you know|i (?:always forget|keep forgetting)|if you (?:know|happen to know)|any idea)$"
)
_WHOLE_QUESTION = re.compile(
    r"(?:(?:so|and|ok|but|well) )*(?:(?:what|who|where|when|which|why|how)(?: [a-z]+){0,3}? )?"
    r"(?:is|are|was|were|does|did|do|can|could|has|have|will) (?!i\b)[a-z0-9]+ "
)
"""Before words that would belong to "What do you know?"."""

_LONGEST_TAIL = 30
"""Characters, at least those of the longest text that _TAIL and _ASIDE match."""

_MOST_PEELED = 20
"""Polite words: a client may send a text of nothing else, and each takes a look at the rest."""


def peeled(text: str) -> Iterator[str]:
    """The plain `text`, then what remains of it as polite words are taken from its ends."""
    for _ in range(_MOST_PEELED):
        if not text:
            return
        yield text
        if tail := _TAIL.search(text, max(0, len(text) - _LONGEST_TAIL)):
            text = text[: tail.start()].strip()
        elif (aside := _ASIDE.search(text, max(0, len(text) - _LONGEST_TAIL))) and (
            _WHOLE_QUESTION.match(f"{text[: aside.start()]} ")
        ):
            text = text[: aside.start()].strip()
        elif lead := _LEAD.match(text):
            text = text[lead.end() :].strip()
        else:
            return
