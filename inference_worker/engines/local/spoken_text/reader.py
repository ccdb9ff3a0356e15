"""What an English voice says for shown words."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from antiphon.inference_worker.engines.local.spoken_text import (
    abbreviations,
    addresses,
    dates,
    quantities,
    signs,
)
from antiphon.inference_worker.engines.local.spoken_text.rule import LETTER, NEXT_WORD

MARKS = ",.;:!?…—()"
"""What a voice can say apart from Latin letters with apostrophes and hyphens between them."""

_BETWEEN_LETTERS = f"{MARKS} '-"

_RULES = (
    *abbreviations.RULES,
    *dates.RULES,
    *addresses.RULES,
    *quantities.RULES,
    *signs.RULES,
)

_PLAIN_WORD = re.compile(r"(?<![^\s(])(?![ivx]+\b)[a-z]{5,}(?=[,;!?)]?(?: |$)|\.$)")
_DOT_INSIDE = re.compile(r"\.(?= [a-z])(?<=[A-Za-z]\.)")
_POSSESSIVE = re.compile(r"(?<=\w)'s\b")
_LETTERS = re.compile(rf"{LETTER}+(?:'{LETTER}+)*")
_TYPOGRAPHY = str.maketrans(
    {"’": "'", "‘": "'", "ʼ": "'", "“": '"', "”": '"', "″": '"', "′": "'", "\u00a0": " "}
)
_SUPERSCRIPTS = "⁻ⁿ"
"""They are part of a power, as the superscript digits are."""
_LONGEST_WORD = 200
_LONGEST_LETTERS = 45
_LONGEST_SPEECH = 240

_SPACE_BEFORE_MARK = re.compile(r"\s+(?=[,.;:!?…)])|(?<=\() +")
_REPEATED = re.compile(r"([,;:!?—])(?:\s*\1)+")
_DOTS = re.compile(r"\.(?:\s*\.)+|…(?:\s*[.…])+")
_MIXED_MARKS = re.compile(r"[,;:.!?…]{2,}")
_LOOSE_HYPHENS = re.compile(r"(?<![^\W_])[-']+|[-']+(?![^\W_])")


def spoken_words(words: Sequence[str]) -> list[str]:
    """What is said for each of `words`: one or several words, or nothing.

    Numbers, signs, addresses and abbreviations become words. Emoji and letters of other scripts than
    Latin are silent, apart from single Greek letters.
    """
    text = " ".join(_readable(word) for word in words)
    ends = list(accumulate(len(_readable(word)) + 1 for word in words))
    spoken: list[list[str]] = [[] for _ in words]
    at = 0
    while at < len(text):
        said, end = _say(text, at)
        starts = [at, *(at + space.end() for space in re.finditer(" +", text[at:end]))]
        for part, start in zip(said.split(NEXT_WORD), starts, strict=False):
            spoken[bisect_right(ends, start)] += [part, " "] if NEXT_WORD in said else [part]
        at = end
    return [_tidy("".join(parts)) for parts in spoken]


def _say(text: str, at: int) -> tuple[str, int]:
    """What is said at `at`, and where the next part begins."""
    if text[at] == " ":
        return " ", at + 1
    if plain := _PLAIN_WORD.match(text, at) or _POSSESSIVE.match(text, at):
        return plain[0][:_LONGEST_LETTERS], plain.end()
    for one in _RULES:
        if found := one.read(text, at):
            said, end = found
            return _separated(said, text[end : end + 2]), end
    if letters := _LETTERS.match(text, at):
        return _latin(letters[0]), letters.end()
    if _DOT_INSIDE.match(text, at):
        return "", at + 1
    return text[at] if text[at] in MARKS else _unsaid(text[at]), at + 1


def _separated(said: str, following: str) -> str:
    """`said` as separate words, unless a possessive ending follows."""
    if said in ("-", ""):
        return said
    return f" {said}" if following == "'s" else f" {said} "


def _unsaid(character: str) -> str:
    """Nothing for a mark of the letter before it, such as an accent."""
    return "" if unicodedata.category(character) in ("Mn", "Cf") or character in "'\"" else " "


def _latin(letters: str) -> str:
    """`letters`, cut if they cannot be said; nothing for another script."""
    kept = "".join(letter for letter in letters if letter == "'" or is_latin(letter))
    return kept[:_LONGEST_LETTERS] if len(kept) == len(letters) else f" {kept[:_LONGEST_LETTERS]} "


@lru_cache(maxsize=1024)
def is_latin(character: str) -> bool:
    return character.isalpha() and unicodedata.name(character, "").startswith("LATIN ")


def _readable(word: str) -> str:
    """`word` with the usual form of each character, as long as before if it is not too long."""
    if word.isascii():
        return word[:_LONGEST_WORD]
    return "".join(map(_usual, word[:_LONGEST_WORD].translate(_TYPOGRAPHY)))


@lru_cache(maxsize=4096)
def _usual(character: str) -> str:
    category = unicodedata.category(character)
    if character in _SUPERSCRIPTS:
        return character
    if category == "Nd":
        return str(unicodedata.decimal(character))
    usual = unicodedata.normalize("NFKC", character) if category[0] in "LPS" else character
    return usual if len(usual) == 1 else character


def _tidy(said: str) -> str:
    """`said` with single spaces and marks; nothing if no letter is left."""
    text = "".join(one if is_latin(one) or one in _BETWEEN_LETTERS else " " for one in said)
    if not any(map(str.isalpha, text)):
        return ""
    text = _LOOSE_HYPHENS.sub(" ", text)
    text = _SPACE_BEFORE_MARK.sub("", " ".join(text.split()))
    text = _REPEATED.sub(r"\1", _DOTS.sub("…", text))
    text = _MIXED_MARKS.sub(lambda found: _strongest(found[0]), text)
    text = " ".join(text.split()).lstrip(",.;:!?…—) ")
    return text[:_LONGEST_SPEECH].rsplit(" ", 1)[0] if len(text) > _LONGEST_SPEECH else text


def _strongest(marks: str) -> str:
    return next(mark for mark in "?!….:;," if mark in marks)
