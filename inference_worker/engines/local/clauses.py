"""Cuts a stream of model text into clauses that can be spoken."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from antiphon.inference_worker.engines.local.speech import Clause, Word
from antiphon.inference_worker.engines.local.spoken_text.markup import Markup
from antiphon.inference_worker.engines.local.spoken_text.reader import spoken_words


@dataclass(slots=True)
class _Draft:
    """A word before its clause is complete. `code`: it is in a block of code, which is not read out."""

    text: str
    tokens: int
    code: bool


_FIRST_CLAUSE_WORDS = 3
_CLAUSE_WORDS = 7
_FIRST_BREATH_WORDS = 12
_BREATH_WORDS = 24
"""The first clause is short because the user waits for it. Longer ones have better intonation."""

_SENTENCE_END = re.compile(r"""[.!?…]["')\]”’»]*$""")
_CLAUSE_END = re.compile(r"""(?:[,;:]["')\]”’»]*|[—–-])$""")
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
    r"(?:(?:^|[ ($€£¥])\d[\d.,]*(?<!,)[%°]?|[+*/×÷=<>≤≥≈^−$€£¥]|[\d%°)] [-–]|(?:^| )[a-z] [-–]|\.)$"
)
"""The next word may belong to these: a sign, a unit, the second number, the name after a title."""

_MORE_BREATH_WORDS = 4
_CODE_BLOCK = "code."


def ends_sentence(word: str) -> bool:
    """True if a sentence ends with `word`. Abbreviations, initials and factorials do not end one."""
    return bool(_SENTENCE_END.search(word)) and not _NO_END.match(word)


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
        self._markup = Markup()
        self._words: list[_Draft] = []
        self._is_first = True
        self._says_code = True

    def feed(self, piece: str) -> list[Clause]:
        """The clauses that `piece` completes."""
        finished: list[Clause | None] = []
        for character in piece:
            if not character.isspace():
                self._raw += character
                continue
            finished += self._end_word()
            if character == "\n":
                finished.append(self._cut(ends_sentence=True))
                self._begins_line = True
        self._tokens += 1
        return [clause for clause in finished if clause]

    def flush(self) -> list[Clause]:
        """The clauses in the remaining text."""
        finished = [*self._end_word(), self._cut(ends_sentence=True)]
        return [clause for clause in finished if clause]

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
            self._words.append(_Draft(shown.text, max(1, self._tokens), shown.code))
        self._tokens = 0
        return [finished, self._cut_after(shown.text)]

    def _open_link(self) -> None:
        """Remove the bracket before the text of a link, of which the last word has arrived."""
        for word in reversed(self._words):
            if "[" in word.text:
                word.text = re.sub(r"!?\[", "", word.text, count=1)
                return

    def _cut_before(self, word: str) -> Clause | None:
        """The clause before `word`, if its abbreviation was the end of a sentence."""
        if self._words and word[:1].isupper() and _MAY_END_SENTENCE.search(self._words[-1].text):
            return self._cut(ends_sentence=True)
        return None

    def _cut_after(self, word: str) -> Clause | None:
        count = len(self._words)
        if ends_sentence(word) and not (word == _NUMBER_FOLLOWS and count > 1):
            return self._cut(ends_sentence=True)
        at_comma = count >= (_FIRST_CLAUSE_WORDS if self._is_first else _CLAUSE_WORDS)
        breath = _FIRST_BREATH_WORDS if self._is_first else _BREATH_WORDS
        if _UNFINISHED.search(self._words[-1].text):
            # The next word may belong to this one: a sign, a unit, the second number.
            at_comma, breath = False, breath + _MORE_BREATH_WORDS
        if count >= breath or (at_comma and _CLAUSE_END.search(word)):
            return self._cut(ends_sentence=False)
        return None

    def _cut(self, *, ends_sentence: bool) -> Clause | None:
        drafts, self._words = self._words, []
        if not any(_is_shown_alone(character) for word in drafts for character in word.text):
            return None
        self._is_first = False
        spoken = spoken_words([self._readable(word) for word in drafts])
        words = [
            Word(draft.text, draft.tokens, said) for draft, said in zip(drafts, spoken, strict=True)
        ]
        return Clause(tuple(words), ends_sentence)

    def _readable(self, word: _Draft) -> str:
        """The text of `word` to read out. A block of code is spoken as the word "code"."""
        if not word.code:
            self._says_code = True
            return word.text
        text = _CODE_BLOCK if self._says_code else ""
        self._says_code = False
        return text


def _is_shown_alone(character: str) -> bool:
    """False for punctuation and spaces: a text of them alone is no answer."""
    return unicodedata.category(character)[0] in "LNS"
