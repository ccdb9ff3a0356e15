"""Cuts a stream of model text into clauses that can be spoken."""

from __future__ import annotations

import re
import unicodedata

from antiphon.inference_worker.engines.local.speech import Clause, Word

_BULLET = re.compile(r"[-*+•–]|#{1,6}")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_SCHEME = re.compile(r"https?://(?:www\.)?")
_DOLLARS = re.compile(r"\$(\d[\d,]*(?:\.\d+)?)")
_MARKUP = re.compile(r"[*_`~#|<>\\^{}\[\]\"]+")
_MARKUP_INSIDE = re.compile(rf"(?<=[^\W_]){_MARKUP.pattern}(?=[^\W_])")
_ALONE = {"&": "and", "+": "plus", "=": "equals", "@": "at"}
_READ_OUT = (
    ("%", " percent"),
    ("°C", " degrees Celsius"),
    ("°F", " degrees Fahrenheit"),
    ("°", " degrees"),
    ("€", " euros"),
    ("£", " pounds"),
)
_TYPOGRAPHY = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "…": "...", "\u00a0": " "})
_SPEECHLESS = ("So", "Sk", "Cs", "Co", "Cn", "Cc", "Cf")


def normalise_word(raw: str, *, begins_line: bool) -> str:
    """`raw` (one whitespace-delimited word) without markup and symbols; empty if nothing remains.

    A list bullet or a heading mark at the start of a line is dropped.
    """
    if (begins_line and _BULLET.fullmatch(raw)) or raw.startswith("```"):
        return ""
    text = _LINK.sub(r"\1", raw.translate(_TYPOGRAPHY))
    text = _DOLLARS.sub(r"\1 dollars", _SCHEME.sub("", text))
    for symbol, words in _READ_OUT:
        text = text.replace(symbol, words)
    text = _MARKUP.sub("", _MARKUP_INSIDE.sub(" ", _ALONE.get(text, text)))
    text = "".join(c for c in text if unicodedata.category(c) not in _SPEECHLESS)
    return " ".join(text.split())


def is_speakable(word: str) -> bool:
    """True if `word` can be spoken; False for punctuation alone."""
    return any(character.isalnum() for character in word)


_FIRST_CLAUSE_WORDS = 3
_CLAUSE_WORDS = 7
_FIRST_BREATH_WORDS = 12
_BREATH_WORDS = 24
"""The first clause is short because the user waits for it. Longer ones have better intonation."""

_SENTENCE_END = re.compile(r"[.!?][\"')]*$")
_CLAUSE_END = re.compile(r"(?:[,;:][\"')]*|[—–-])$")
_ABBREVIATION = re.compile(
    r"^\(?(?:mr|mrs|ms|dr|prof|st|vs|e\.g|i\.e|approx|[a-z]|(?:[a-z]\.)+[a-z])\.$",
    re.IGNORECASE,
)


def ends_sentence(word: str) -> bool:
    """True if a sentence ends with `word`. Abbreviations and initials do not end one."""
    return bool(_SENTENCE_END.search(word)) and not _ABBREVIATION.match(word)


def words_of(text: str) -> tuple[Word, ...]:
    """The words of a text that the model did not write. Each counts as one token."""
    splitter = ClauseSplitter()
    clauses = [clause for raw in text.split() for clause in splitter.feed(f"{raw} ")]
    return tuple(word for clause in [*clauses, *splitter.flush()] for word in clause.words)


class ClauseSplitter:
    """Receives the model's text, one token each, and returns complete clauses."""

    def __init__(self) -> None:
        self._raw = ""
        self._tokens = 0
        self._begins_line = True
        self._words: list[Word] = []
        self._is_first = True

    def feed(self, piece: str) -> list[Clause]:
        """The clauses that `piece` completes."""
        finished: list[Clause | None] = []
        for character in piece:
            if not character.isspace():
                self._raw += character
                continue
            finished.append(self._end_word())
            if character == "\n":
                finished.append(self._cut(ends_sentence=True))
                self._begins_line = True
        self._tokens += 1
        return [clause for clause in finished if clause]

    def flush(self) -> list[Clause]:
        """The clauses in the remaining text."""
        finished = [self._end_word(), self._cut(ends_sentence=True)]
        return [clause for clause in finished if clause]

    def _end_word(self) -> Clause | None:
        if not self._raw:
            return None
        text = normalise_word(self._raw, begins_line=self._begins_line)
        self._raw, self._begins_line = "", False
        if not text:
            return None
        if not is_speakable(text) and self._words:
            self._join(text)
        else:
            self._words.append(Word(text, max(1, self._tokens)))
        self._tokens = 0
        return self._cut_at(text)

    def _join(self, mark: str) -> None:
        """Attach punctuation that is separated by a space to the word before it."""
        last = self._words[-1]
        self._words[-1] = Word(f"{last.text} {mark}", last.tokens + self._tokens)

    def _cut_at(self, word: str) -> Clause | None:
        if ends_sentence(word):
            return self._cut(ends_sentence=True)
        count = len(self._words)
        at_comma = count >= (_FIRST_CLAUSE_WORDS if self._is_first else _CLAUSE_WORDS)
        out_of_breath = count >= (_FIRST_BREATH_WORDS if self._is_first else _BREATH_WORDS)
        if out_of_breath or (at_comma and _CLAUSE_END.search(word)):
            return self._cut(ends_sentence=False)
        return None

    def _cut(self, *, ends_sentence: bool) -> Clause | None:
        words, self._words = self._words, []
        if not any(is_speakable(word.text) for word in words):
            return None
        self._is_first = False
        return Clause(tuple(words), ends_sentence)
