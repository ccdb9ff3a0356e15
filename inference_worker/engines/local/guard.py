"""Ends an answer that repeats itself or becomes obscene. Small models do both."""

from __future__ import annotations

import re
from collections import Counter

CLOSING = "I would rather not say that."
"""The end of an obscene answer."""

_MOST_REPEATS = 3
_PHRASE_WORDS = 5

_OBSCENE = re.compile(
    r"(?:mother)?fuck\w*|\w*fucker\w*|cunts?|cocksuck\w*|(?:blow|hand|rim)jobs?|jizz\w*|cumshots?|cumming|dildos?"
    r"|sluts?|slutty|whor(?:es?|ing)|bitch(?:es|y|ing)?|puss(?:y|ies)|tit(?:ty|ties)|boobs?|horny|porn\w*|masturbat\w*"
    r"|gangbang\w*|deepthroat\w*|dickheads?|(?:ass|arse)holes?|(?:bull|horse)?shit(?:s|ty|ting|head\w*)?|wank(?:s|er|ers|ing)?"
    r"|twats?|penis(?:es)?|vaginas?|nigg(?:er|a)s?|faggots?"
)
"""Whole words: "Scunthorpe", "cockpit" and "Dickens" are none of them."""

_WORD = re.compile(r"\s*\S+(?:\n|(?=\s))")
"""With the space before it, because a text that another worker continues does not end with one. The end of
its line belongs to it: it ends a clause.
"""
_SENTENCE_END = re.compile(r"[.!?][\"')*_]*\s*$")


class AnswerGuard:
    """Takes the pieces of an answer and returns what may be said of it.

    It keeps the last word until it is complete, and a sentence that begins like one that was said
    twice until it differs. After `ended`, nothing follows.
    """

    def __init__(self, *, filter_obscene: bool) -> None:
        self.ended = False
        self._filter_obscene = filter_obscene
        self._raw = ""
        self._held = ""
        self._words: list[str] = []
        self._sentence: list[str] = []
        self._sentences: Counter[tuple[str, ...]] = Counter()
        self._phrases: Counter[tuple[str, ...]] = Counter()
        self._in_code = False

    def feed(self, piece: str) -> str:
        """What `piece` completes."""
        self._raw += piece
        said = ""
        while not self.ended and (found := _WORD.match(self._raw)):
            self._raw = self._raw[found.end() :]
            said += self._add(found[0])
        return said

    def flush(self) -> str:
        """The rest, after the last piece."""
        if self.ended:
            return ""
        said = self._add(self._raw) if self._raw.strip() else self._raw
        rest, self._held, self._raw = self._held, "", ""
        return said if self.ended else said + rest

    def _add(self, word: str) -> str:
        if "```" in word:
            self._in_code = not self._in_code
        plain = re.sub(r"[^\w']|_", "", word.lower()).strip("'")
        if self._filter_obscene and self._is_obscene(word, plain):
            self.ended = True
            space = " " if self._words else ""
            return f"{self._release()}{space}{CLOSING}"
        if word.lstrip(" ").startswith("\n"):
            self._sentence = []
        if plain and not self._in_code:  # programs repeat themselves
            self._words.append(plain)
            self._sentence.append(plain)
            if self._repeats_phrase() or (_SENTENCE_END.search(word) and self._repeats_sentence()):
                self.ended = True
                return ""
        self._held += word
        if word.endswith("\n") or _SENTENCE_END.search(word):
            self._sentence = []
        return "" if self._begins_like_repeated() else self._release()

    def _release(self) -> str:
        said, self._held = self._held, ""
        return said

    def _is_obscene(self, word: str, plain: str) -> bool:
        before = self._words[-1] if self._words else ""
        parts = [plain, f"{before}{plain}", *re.findall(r"[^\W_]+", word.lower())]
        return any(_OBSCENE.fullmatch(part) for part in parts)

    def _repeats_phrase(self) -> bool:
        phrase = tuple(self._words[-_PHRASE_WORDS:])
        if len(phrase) < _PHRASE_WORDS:
            return False
        self._phrases[phrase] += 1
        return self._phrases[phrase] >= _MOST_REPEATS

    def _repeats_sentence(self) -> bool:
        sentence = tuple(self._sentence)
        if len(sentence) < 2:
            return False
        self._sentences[sentence] += 1
        return self._sentences[sentence] >= _MOST_REPEATS

    def _begins_like_repeated(self) -> bool:
        begin = tuple(self._sentence)
        return bool(begin) and any(
            count >= _MOST_REPEATS - 1 and sentence[: len(begin)] == begin
            for sentence, count in self._sentences.items()
        )


def cleaned(text: str) -> str:
    """A complete text, cut at its first obscene word."""
    guard = AnswerGuard(filter_obscene=True)
    return (guard.feed(text) + guard.flush()).strip()
