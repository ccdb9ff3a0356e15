"""Finds what small models say again and again: a round of words, or a thing in a list."""

import re
from collections import Counter

_LOOP_ROUNDS, _LOOP_WORDS, _LONGEST_ROUND = 6, 30, 60
"""A loop is the same words so often one directly after the other, and at least so many words in all.

A round has at most _LONGEST_ROUND words.
"""


class Loop:
    """Finds words that come again and again without others between them."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._same = [0] * (_LONGEST_ROUND + 1)
        """How many of the last words are the same as those so many words before."""

    def closes(self, word: str) -> bool:
        """Whether `word`, the next one, ends a loop. Numbers alone are data, not a loop."""
        self._words.append(word)
        for length in range(1, min(len(self._words), _LONGEST_ROUND + 1)):
            same = self._words[-1 - length] == word
            self._same[length] = count = self._same[length] + 1 if same else 0
            if count < max((_LOOP_ROUNDS - 1) * length, _LOOP_WORDS - length):
                continue
            if not all(one.isdigit() for one in self._words[-length:]):
                return True
        return False


_LEAST_ITEMS, _MOST_SAME_ITEMS = 2, 3
_ITEM = re.compile(
    r"(?:.* )?(?:an?|the|some|your) (?P<thing>[a-z']{4,}(?: [a-z']+){0,2})"
    r"|(?:and |or )?(?P<bare>[a-z']{4,}(?: [a-z']+){0,2})"
)


class RepeatedItems:
    """Finds the thing that comes a third time among the items of a sentence: "a cake, a pizza, a cake …".

    An item is between two commas. From the second one on, the last comma and what follows wait until the next
    item is complete, so that the sentence can end before it.
    """

    def __init__(self) -> None:
        self._things: Counter[str] = Counter()
        self._item: list[str] = []
        self._comma = 0
        self._written = 0

    @property
    def waiting(self) -> int:
        """Characters that wait."""
        return self._comma + self._written if self._things.total() >= _LEAST_ITEMS else 0

    @property
    def item_length(self) -> int:
        """Characters of the item that is not complete."""
        return self._written

    def closes(self, word: str, plain: str) -> bool:
        """Whether `word`, which is `plain` without marks, ends an item that was there twice."""
        self._item.append(plain)
        text = word.rstrip()
        if not text.endswith((",", ".", "!", "?", ";")):
            self._written += len(word)
            return False
        if named := _ITEM.fullmatch(" ".join(self._item)):
            thing = named["thing"] or named["bare"]
            self._things[thing] += 1
            is_list = named["thing"] or len(self._things) > 1  # not a song's "merrily, merrily"
            if is_list and self._things[thing] >= _MOST_SAME_ITEMS:
                return True
        self._item = []
        self._comma, self._written = 1 + len(word) - len(text), 0
        return False
