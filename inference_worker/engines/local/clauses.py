"""Cuts a stream of model text into clauses that can be spoken."""

import enum
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from antiphon.inference_worker.engines.local.chinese import reader as chinese_reader
from antiphon.inference_worker.engines.local.chinese.script import (
    CLOSING,
    MARKS,
    OPENING,
    PAUSES,
    STOPS,
    is_unspaced,
)
from antiphon.inference_worker.engines.local.speech import Clause, Word
from antiphon.inference_worker.engines.local.spoken_text.markup import Markup
from antiphon.inference_worker.engines.local.spoken_text.reader import spoken_words


@dataclass(slots=True)
class _Draft:
    """A word before its clause is complete. `code`: it is in a block of code, which is not read out."""

    text: str
    tokens: int
    code: bool
    glued: bool


@dataclass(frozen=True, slots=True)
class _Length:
    """Words after which a clause ends: at a comma, before a word that joins phrases, anywhere."""

    at_comma: int
    at_joint: int
    anywhere: int


_LENGTHS = (_Length(3, 4, 10), _Length(5, 8, 14), _Length(7, 18, 24))
_CHINESE_LENGTHS = (_Length(4, 99, 36), _Length(9, 99, 36), _Length(14, 99, 36))
"""Of the first clause, the second and those that follow. Longer ones have better intonation.

The user waits for the first one in silence. The natural voices take half as long to compute a clause
as it lasts, so each may be twice as long as the one before it. A Chinese word is one character here, and a
clause ends at a comma: the words of several characters are not known.
"""

_JOINT = re.compile(
    r"a|about|after|an|and|around|as|at|because|before|but|by|during|for|from|if|in|into|its|like|my|near|of|on|or"
    r"|our|over|since|so|than|that|the|their|then|through|to|under|until|when|where|whether|which|while|who|with|without|your"
)

_SENTENCE_END = re.compile(rf"""[.!?…{STOPS}]["')\]”’»{CLOSING}]*$""")
_CLAUSE_END = re.compile(rf"""(?:[,;:{PAUSES}]["')\]”’»{CLOSING}]*|[—–-])$""")
_NO_END = re.compile(
    r"""^["'(\[“‘]?(?:\d+)?(?:mr|mrs|ms|dr|prof|st|mt|ft|vs|approx|ca|cf|nos|nr|fig|vol|pp|al|gen|col|lt|capt|sgt|sen|rep"""
    r"""|gov|rev|jr|sr|dept|incl|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|etc|apt|lbs?|oz|tsp|tbsp|inc|ltd|corp|co|ph\.d|[^\W\d_]|(?:[^\W\d_]\.)+[^\W\d_])\.$"""
    r"""|^\(?\d+!$""",
    re.IGNORECASE,
)
_MAY_END_SENTENCE = re.compile(r"(?:etc|lbs?|oz|tsp|tbsp|inc|ltd|corp|[ap]\.m)\.$", re.IGNORECASE)
_NUMBER_FOLLOWS = "No."
"""An abbreviation inside a sentence, and a sentence where one may begin."""

_UNFINISHED = re.compile(
    r"(?:(?:^|[ ($€£¥])\d[\d.,]*(?<!,)[%°]?|[+*/×÷=<>≤≥≈^−$€£¥]|[\d%°)] [-–]|(?:^| )[a-z] [-–]"
    r"|(?:^|\d)[ap]\.?m\.? [-–]|\.)$"
)
"""The next word may belong to these: a sign, a unit, the second number, the name after a title."""

_MORE_BREATH_WORDS = 4
_CODE_BLOCK = "code."


def ends_sentence(word: str) -> bool:
    """True if a sentence ends with `word`. Abbreviations, initials and factorials do not end one."""
    return bool(_SENTENCE_END.search(word)) and not _NO_END.match(word)


def words_of(text: str, language: str = "en") -> tuple[Word, ...]:
    """The words of a text that the model did not write. Each counts as one token."""
    splitter = ClauseSplitter(language)
    clauses = [clause for raw in text.split() for clause in splitter.feed(f"{raw} ")]
    return tuple(word for clause in [*clauses, *splitter.flush()] for word in clause.words)


def clauses_of(words: Iterable[Word], language: str = "en") -> Iterator[Clause]:
    """The clauses of an answer, or of its rest, that is known: cut as ClauseSplitter cuts its text."""
    bounds = _Bounds(language)
    clause: list[Word] = []
    for word in words:
        if clause and (end := bounds.before(len(clause), clause[-1].text, word.text)):
            yield bounds.cut(clause, end)
            clause = []
        clause.append(word)
        if end := bounds.after(len(clause), word.text, word.text):
            yield bounds.cut(clause, end)
            clause = []
    if clause:
        yield Clause(tuple(clause), ends_sentence=False)


class _End(enum.Enum):
    """What ends with a clause."""

    CLAUSE = enum.auto()
    SENTENCE = enum.auto()


class _Bounds:
    """Where the clauses of an answer end."""

    def __init__(self, language: str) -> None:
        self._lengths = _CHINESE_LENGTHS if language == "zh" else _LENGTHS
        self._cut_clauses = 0

    def before(self, count: int, last: str, word: str) -> _End | None:
        """What ends because `word` follows a clause of `count` words, of which `last` is the last."""
        if word[:1].isupper() and _MAY_END_SENTENCE.search(last):
            return _End.SENTENCE
        joins = _JOINT.fullmatch(word) and not _JOINT.fullmatch(last.lower())
        if joins and count >= self._length.at_joint and not _UNFINISHED.search(last):
            return _End.CLAUSE
        return None

    def after(self, count: int, last: str, word: str) -> _End | None:
        """What ends with `word`. If that is a lone mark, `last` is the word to which it belongs, with it."""
        if ends_sentence(word) and not (word == _NUMBER_FOLLOWS and count > 1):
            return _End.SENTENCE
        at_comma, breath = count >= self._length.at_comma, self._length.anywhere
        if _UNFINISHED.search(last):
            # The next word may belong to this one: a sign, a unit, the second number.
            at_comma, breath = False, breath + _MORE_BREATH_WORDS
        ends = count >= breath or (at_comma and _CLAUSE_END.search(word))
        return _End.CLAUSE if ends else None

    def cut(self, words: Iterable[Word], end: _End) -> Clause:
        self._cut_clauses += 1
        return Clause(tuple(words), ends_sentence=end is _End.SENTENCE)

    @property
    def _length(self) -> _Length:
        return self._lengths[min(self._cut_clauses, len(self._lengths) - 1)]


class ClauseSplitter:
    """Receives the model's text, one token each, and returns complete clauses.

    `language` is that of the voice.
    """

    def __init__(self, language: str = "en") -> None:
        self._language = language
        self._raw = ""
        self._glued = False
        self._tokens = 0
        self._begins_line = True
        self._markup = Markup()
        self._words: list[_Draft] = []
        self._bounds = _Bounds(language)
        self._says_code = True

    def feed(self, piece: str) -> list[Clause]:
        """The clauses that `piece` completes."""
        finished: list[Clause | None] = []
        for character in piece:
            if not character.isspace():
                if self._begins_word(character):
                    finished += self._end_word()
                    self._glued = True
                self._raw += character
                continue
            finished += self._end_word()
            self._glued = False
            if character == "\n":
                finished.append(self._cut(_End.SENTENCE))
                self._begins_line = True
        self._tokens += 1
        return [clause for clause in finished if clause]

    def flush(self) -> list[Clause]:
        """The clauses in the remaining text."""
        finished = [*self._end_word(), self._cut(_End.SENTENCE)]
        return [clause for clause in finished if clause]

    def _begins_word(self, character: str) -> bool:
        """Whether `character` begins a Chinese word, which needs no space before it.

        Marks belong to the word before.
        """
        if (
            self._language != "zh"
            or not self._raw
            or character in MARKS
            or self._raw[-1] in OPENING
            or "`" in self._raw
            or "](" in self._raw
        ):
            return False
        return is_unspaced(character) or (
            is_unspaced(self._raw[-1]) and (character.isalnum() or character in f"$€£¥-+{OPENING}")
        )

    def _end_word(self) -> list[Clause | None]:
        if not self._raw:
            return []
        shown = self._markup.strip(self._raw, begins_line=self._begins_line)
        self._raw, self._begins_line = "", False
        if shown.ends_link:
            self._open_link()
        if not shown.text:
            return []
        finished = self._cut_before(shown.text)
        if self._words and not any(map(str.isalnum, shown.text)):
            # A mark that is separated by a space belongs to the word before it.
            self._words[-1].text += f" {shown.text}"
            self._words[-1].tokens += self._tokens
        else:
            self._words.append(_Draft(shown.text, max(1, self._tokens), shown.code, self._glued))
        self._tokens = 0
        return [finished, self._cut_after(shown.text)]

    def _open_link(self) -> None:
        """Remove the bracket before the text of a link, of which the last word has arrived."""
        for word in reversed(self._words):
            if "[" in word.text:
                word.text = re.sub(r"!?\[", "", word.text, count=1)
                return

    def _cut_before(self, word: str) -> Clause | None:
        """The clause that is complete because `word` follows it."""
        if not self._words:
            return None
        end = self._bounds.before(len(self._words), self._words[-1].text, word)
        return self._cut(end) if end else None

    def _cut_after(self, word: str) -> Clause | None:
        end = self._bounds.after(len(self._words), self._words[-1].text, word)
        return self._cut(end) if end else None

    def _cut(self, end: _End) -> Clause | None:
        drafts, self._words = self._words, []
        if not any(_is_shown_alone(character) for word in drafts for character in word.text):
            return None
        spoken = self._read([self._readable(word) for word in drafts])
        words = [
            Word(draft.text, draft.tokens, said, draft.glued)
            for draft, said in zip(drafts, spoken, strict=True)
        ]
        return self._bounds.cut(words, end)

    def _read(self, words: list[str]) -> list[str]:
        return chinese_reader.spoken_words(words) if self._language == "zh" else spoken_words(words)

    def _readable(self, word: _Draft) -> str:
        """The text of `word` to read out. A block of code is spoken as the word "code"."""
        if not word.code:
            self._says_code = True
            return word.text if word.glued or self._language != "zh" else f" {word.text}"
        text = _CODE_BLOCK if self._says_code else ""
        self._says_code = False
        return text


def _is_shown_alone(character: str) -> bool:
    """False for punctuation and spaces: a text of them alone is no answer."""
    return unicodedata.category(character)[0] in "LNS"
