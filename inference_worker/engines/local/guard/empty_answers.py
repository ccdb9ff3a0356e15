"""What the bundled model writes when it has no answer: a page of excuses, or parts of its prompt."""

import re
from collections.abc import Sequence

EMPTY_OPENINGS = tuple(
    tuple(opening.split())
    for opening in (
        "i'm sorry for your",
        "i'm sorry i'm unable",
        "i'm sorry for any",
        "i'm sorry for the confusion",
        "i'm sorry but i'm",
        "i'm sorry i'm sorry",
        "i'm sorry i'm not",
        "i'm not an ai",
        "i'm an ai",
        "i'm not sure",
        "that's a good question",
        "that is a great question",
        "i'm not equipped",
        "i'm a helpful assistant",
        "i'm just a helpful assistant",
        "i'm here to help",
        "i'm here to assist",
        "as an ai",
        "you're asking about",
        "you're asking a question",
        "you are a helpful assistant",
        "you do not know the weather",
        "a helpful assistant",
        "no no",
        "i'm antiphon a small voice",
    )
)
"""What the bundled model writes when it has no answer; a page of the same follows."""

_LEAKS = tuple(
    tuple(leak.split())
    for leak in (
        "weather the news or prices",
        "weather the news and prices",
        "weather news or prices",
        "weather news and prices",
        "helpful assistant",
        "small voice assistant",
    )
)
"""Parts of its prompt, which the bundled model also writes in the middle of a sentence about something else."""

_SPEAKS_OF_ITSELF = re.compile(r"(?:i|i'm|i am)(?: (?:just|only|not|also))*(?:$| an?\b)")
_IS_ASSISTANT = re.compile(r"ai|\w+related")
"""Words of such a sentence with which it is another leak: "I'm not a weather-related AI"."""

JUDGES_QUESTION = re.compile(
    r"(?:oh no )?(?:(?:that's|that is|it's|it is|this is) )?an? (?:(?:very|really|truly|quite) )*"
    r"(?:good|great|simple|important|interesting|complex|common|tough|difficult|deep|fascinating)"
    r" (?:question|topic|answer|perspective)"
)
"""A sentence of this, up to a mark, says nothing, but one with sense may follow."""

MAY_JUDGE = frozenset({"oh", "that's", "that", "it's", "it", "this", "a", "an"})
JUDGES_WITHIN = 9
"""Words that JUDGES_QUESTION has at most."""

_FIRST_WORDS = 6


def leaks(sentence: Sequence[str]) -> bool:
    """Whether the last of the words of `sentence` completes a part of the prompt."""
    words = tuple(sentence)
    is_assistant = _IS_ASSISTANT.fullmatch(words[-1]) and _speaks_of_itself(words)
    return bool(is_assistant) or any(words[-len(leak) :] == leak for leak in _LEAKS)


def may_leak(sentence: Sequence[str]) -> bool:
    """Whether the next words may complete one: what it says of itself waits for the whole sentence."""
    words = tuple(sentence)
    begins = any(
        words[-length:] == leak[:length]
        for leak in _LEAKS
        for length in range(1, min(len(leak), len(words) + 1))
    )
    return begins or _speaks_of_itself(words)


def _speaks_of_itself(words: Sequence[str]) -> bool:
    return bool(_SPEAKS_OF_ITSELF.match(" ".join(words[:_FIRST_WORDS])))
