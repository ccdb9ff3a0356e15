"""Facts that people ask for and that never change, found by the words of the question.

facts.txt has on each line the keys, separated by slashes, and the answer after a bar. A key has the words
of a question that carry its meaning.
"""

import functools
import re
from pathlib import Path

from antiphon.inference_worker.engines.local.reference.countries import country_facts
from antiphon.inference_worker.engines.local.reference.words import singular

_FOLDER = Path(__file__).parent

_UNIMPORTANT = """
what which is are was were be been do does did has have had the a an of in on at to for by from there
it that this we you i me can could tell call called name named please so actually exactly about
"""
_FUNCTION_WORDS = frozenset(_UNIMPORTANT.split())
_SAME = {
    "largest": "biggest", "highest": "tallest", "quickest": "fastest", "film": "movie",
    "author": "wrote", "writer": "wrote", "written": "wrote",
    "painter": "painted", "inventor": "invented", "discoverer": "discovered",
    "zero": "0", "metre": "meter", "colour": "color", "centre": "center", "kilometre": "kilometer",
}  # fmt: skip
_MADE = frozenset(("wrote", "painted", "invented", "discovered", "composed"))
_ANYWHERE = re.compile(
    r"\b(?:on (?:planet )?earth|(?:in|of) (?:all )?(?:of )?the (?:whole |entire )?world|the world's)\b"
    r"|(?<=\bcapital )city\b"
)
"""What adds nothing to a question for the largest or the first."""

_REFERS = re.compile(
    r"\b(?:this|that(?! ever\b)|it(?! take| call| windy| rain| snow| thunder| from | to )"
    r"|(?<!is )(?<!are )(?<!was )(?<!were )there)\b"
)
_OF_SPEAKERS = re.compile(
    r"(?:i|we|my|our|you|your|call|it|that|this)\b.*"
    r"|(?:can|could|do|does|did|will|would|should|may|is|are|am|have|has)\b"
    r".* (?:i|me|my|we|us|our|you|your)\b.*"
)
"""The words that are left would be those of another question: "Could a whale eat me?", "I have burnout"."""
_ASKS_ELSE = re.compile(
    r"(?:is|are|was|were) there (?:an?|any|some)\b.*"  # now, and not what it is
    r"|(?:what|which|who) (?:\w+ )?eats?\b.*"  # and not what that eats
    r"|.*\bwritten in"  # and not by whom
    r"|what (?:to|(?:can|could|should|do) (?:i|we|you|people)) do (?:about|for|with|against)\b.*"
)
"""Questions whose important words are those of others, too."""


_REMEDY = re.compile(
    r"(?:what (?:to|(?:can|could|should|do) (?:i|we|you|people)) do (?:about|for|with|against)"
    r"|what (?:helps|works|is good) (?:with|for|against)"
    r"|how (?:(?:do|can|should) (?:i|you|we)|to) (?:get rid of|treat|cure|stop|help|ease|soothe))"
    r" (?:my |an? |the )?(.+)"
)
_RECIPE = re.compile(r"(?:.* )?recipe (?:for|of) (?:an? |some )?(.+)")
_KEYS_OF = ((_REMEDY, "help {}"), (_RECIPE, "how make {}"))
"""Questions of many forms, and the form of their keys."""


def key_of(text: str) -> frozenset[str]:
    """The words of `text`, in plain form, that carry its meaning, in the singular."""
    text = text if "people" in text else _ANYWHERE.sub(" ", text)
    text = text.replace(" city ", " ") if "capital" in text else text
    words = text.replace("'s", "").replace("-", " ").split()
    kept = (singular(word) for word in words if word not in _FUNCTION_WORDS)
    key = frozenset(_SAME.get(word, word) for word in kept)
    return key - {"who"} if key & _MADE else key


@functools.cache
def _facts() -> dict[frozenset[str], str]:
    found = {key_of(question): answer for question, answer in country_facts()}
    for line in (_FOLDER / "facts.txt").read_text("utf-8").splitlines():
        keys, _, answer = line.partition(" | ")
        for key in keys.split(" / "):
            found[key_of(key)] = answer.strip()
    return found


def fact(question: str) -> str | None:
    """The answer to a question in plain form, unless it refers to the speakers or to what was said before."""
    for pattern, key in _KEYS_OF:
        found = pattern.fullmatch(question)
        if found and (known := _facts().get(key_of(key.format(found[1])))):
            return known
    if any(one.fullmatch(question) for one in (_OF_SPEAKERS, _ASKS_ELSE)):
        return None
    return None if _REFERS.search(question) else _facts().get(key_of(question))
