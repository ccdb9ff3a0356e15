"""Ends an answer that repeats itself, becomes obscene or says nothing. Small models do all of it."""

import re
from collections import Counter
from collections.abc import Iterable
from enum import Enum

from antiphon.inference_worker.engines.local.chinese.script import (
    CLOSING as CLOSING_MARKS,
)
from antiphon.inference_worker.engines.local.chinese.script import (
    HAN,
    PAUSES,
    STOPS,
    continuation,
    has_han,
    said_in,
)
from antiphon.inference_worker.engines.local.guard.empty_answers import (
    EMPTY_OPENINGS,
    JUDGES_QUESTION,
    JUDGES_WITHIN,
    MAY_JUDGE,
    leaks,
    may_leak,
)
from antiphon.inference_worker.engines.local.guard.repetition import Loop, RepeatedItems

CLOSING = "I would rather not say that."
"""The end of an obscene answer."""

NO_CONTENT = "Sorry, I have no good answer to that."
"""In place of an answer that is only a list of the same numbers, or begins with EMPTY_OPENINGS or a leak."""

_MOURNS = re.compile(
    r"\b(?:died|dead|dies|dying|death|passed away|funeral|killed|lost my)\b", re.IGNORECASE
)

_MARKER = re.compile(r"(\s*[*_(]*)(\d{1,2})([.)、][*_]*\s*)")

_MOST_REPEATS = 3
_LEAST_WORDS_SAID = 5
"""Of a sentence that two answers do not share: "That is very good." may come again."""

_PHRASE_WORDS = 5

_OBSCENE = re.compile(
    r"(?:mother)?fuck\w*|\w*fucker\w*|cunts?|cocksuck\w*|(?:blow|hand|rim)jobs?|jizz\w*|cumshots?|cumming|dildos?"
    r"|sluts?|slutty|whor(?:es?|ing)|bitch(?:es|y|ing)?|puss(?:y|ies)|tit(?:ty|ties)|boobs?|horny|porn\w*|masturbat\w*"
    r"|gangbang\w*|deepthroat\w*|dickheads?|(?:ass|arse)holes?|(?:bull|horse)?shit(?:s|ty|ting|head\w*)?|wank(?:s|er|ers|ing)?"
    r"|twats?|penis(?:es)?|vaginas?|nigg(?:er|a)s?|faggots?"
)
"""Whole words: "Scunthorpe", "cockpit" and "Dickens" are none of them."""

_OBSCENE_PAIR = re.compile(
    r"(?:blow|rim) jobs?|(?:ass|arse) holes?|(?:bull|horse) shit|cock suck\w*|cum shots?|gang bang\w*"
)
"""Two words. Others of _OBSCENE, cut in two, are innocent words as well: "pen is", "who ring"."""

_BETWEEN_WORDS = re.compile(r"[—–/,;:!?()]|(?<=\w\w)\.")
"""Inside what has no space: "pen—is", "pen.Is"."""

_MARK = f"{STOPS}{PAUSES}…"
_WORD = re.compile(
    rf"\s*[^\s{_MARK}]*[{_MARK}]+[{CLOSING_MARKS}]*(?=[^\s{_MARK}{CLOSING_MARKS}])|\s*\S+(?:\n|(?=\s))"
)
"""With the space before it, because a text that another worker continues does not end with one. The end of
its line belongs to it: it ends a clause. Chinese has no spaces: there, it is all up to a mark.
"""
_SENTENCE_END = re.compile(rf"[.!?{STOPS}][\"')*_{CLOSING_MARKS}]*\s*$")

_OBSCENE_CHINESE = re.compile(
    "肏|操你|操他|[干日]你[妈娘]|傻[逼屄]|煞笔|[牛装][逼屄]|鸡巴|屌|婊子|骚货|荡妇|做爱|口交|手淫"
    "|自慰|阴茎|阴道|乳头|色情|黄片|他妈的|狗娘养|王八蛋|嫖娼"
)
_INNOCENT_CHINESE = re.compile(
    "(?:[体早做广课间情节贞]操|[生今节假周昨明每近次末当整终往同]日|[饼能若才骨树包肉果笋风]干)(?=[你他])"
    "|做爱(?=心(?![情里理])|国|吃|喝|干净|学习|读书|笑|好者|美|玩|情|护|因斯坦|尔兰|迪生|丽丝)"
    "|口交(?=[警通费货互易谈接汇叉给付代流换界涉])|[独各亲]自慰(?=问)|[角景特本夜月神声]色情(?=[感节况调景绪])"
    "|[蛋姜大地牛麻硫金发]黄片"
)
"""Words around characters of _OBSCENE_CHINESE that mean something else."""

_LONG_PHRASE = 10
"""Characters of a Chinese phrase, of which five alone are often said again."""


class Repeats(Enum):
    """What of an answer may come again and again."""

    ALL = "all"
    """Of a large model, or of a text that no model wrote."""
    NO_LOOP = "no loop"
    """Of a small model: all but a loop, which is never ended in code or JSON."""
    FEW = "few"
    """Of a very small model: no sentence or phrase a third time. Its lists are renumbered."""


class AnswerGuard:
    """Takes the pieces of an answer and returns what may be said of it.

    It keeps the last word until it is complete, and with Repeats.FEW a sentence that begins like one
    that was said twice until it differs. After `ended`, nothing follows.
    """

    def __init__(
        self,
        *,
        filter_obscene: bool,
        language: str = "en",
        ends_empty: bool = False,
        repeats: Repeats = Repeats.FEW,
        said: Iterable[str] = (),
    ) -> None:
        """`ends_empty`: replace an answer that begins with EMPTY_OPENINGS, and end one in which they follow.

        Such an answer says no sentence twice, and none of those in `said`. It ends before one that `leaks`.
        """
        self.ended = False
        self._repeats = repeats
        self._loop = Loop()
        self._ends_empty = ends_empty
        self._most_sentences = 2 if ends_empty else _MOST_REPEATS
        self._opening: list[str] | None = [] if ends_empty else None
        """The first words of a sentence, while they may become such an opening."""
        self._skips_sentence = self._has_skipped = False
        self._closing = said_in(language, CLOSING)
        self._filter_obscene = filter_obscene
        self._raw = ""
        self._held = ""
        self._words: list[str] = []
        self._first_of_pair = ""
        """The last word, if no mark follows it."""
        self._sentence: list[str] = []
        self._sentences: Counter[tuple[str, ...]] = Counter()
        for sentence in said:
            words = tuple(map(_plain, sentence.split()))
            if len(words) >= _LEAST_WORDS_SAID:
                self._sentences[words] = self._most_sentences - 1
        self._has_said = self._has_ended_sentence = False
        self._list = RepeatedItems()
        self._phrases: Counter[tuple[str, ...]] = Counter()
        self._code = _Code()
        self._no_content = said_in(language, NO_CONTENT)
        self._numbers: tuple[int, ...] = ()
        """Of the last item of a list: what the model wrote, and what is said."""
        self._item_is_empty = False
        self._may_begin_item = True

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
        said = self._open() + said
        if self._has_skipped and not self._words:
            return self._no_content
        rest, self._held, self._raw = self._held, "", ""
        if len(self._sentence) >= _LEAST_WORDS_SAID and self._begins_like_repeated():
            rest = "" if self._has_said else self._no_content
        return said if self.ended else said + rest

    def _add(self, word: str) -> str:
        if self._skips_sentence:
            return self._skip(word)
        if self._opening is None:
            return self._say(word)
        self._opening.append(word)
        begin = tuple(map(_plain, self._opening))
        if begin in EMPTY_OPENINGS:
            self.ended = True
            return "" if self._words else self._no_content
        ends = word.rstrip().endswith((",", ".", "!", "?", ":"))
        if ends and JUDGES_QUESTION.fullmatch(" ".join(begin)):
            self._skips_sentence = self._has_skipped = True
            self._opening = None
            return self._skip(word)
        may_judge = begin[0] in MAY_JUDGE and len(begin) < JUDGES_WITHIN
        if may_judge and not _SENTENCE_END.search(word):
            return ""
        if any(opening[: len(begin)] == begin for opening in EMPTY_OPENINGS):
            return ""
        return self._open()

    def _skip(self, word: str) -> str:
        if word.endswith("\n") or _SENTENCE_END.search(word):
            self._skips_sentence, self._opening = False, []
        return ""

    def _open(self) -> str:
        """The first words: they have become no empty opening."""
        words, self._opening = self._opening or [], None
        if words and self._has_skipped and not self._words:
            words[0] = words[0].lstrip()
        return "".join(self._say(word) for word in words if not self.ended)

    def _say(self, word: str) -> str:
        is_code = self._code.has(word)
        plain = _plain(word)
        if self._filter_obscene and self._is_obscene(word, plain):
            self.ended = True
            closing = self._closing
            if self._words:
                closing = continuation(self._words[-1], closing)
            return f"{self._release()}{closing}"
        if word.lstrip(" ").startswith("\n"):
            self._sentence = []
        if not is_code and (marker := self._begins_item(word)):
            return self._add_item(marker)
        self._may_begin_item = word.rstrip().endswith((":", "："))
        self._item_is_empty = self._item_is_empty and not plain
        if plain and not is_code:  # programs repeat themselves
            words = _words_in(plain)
            self._words += words
            self._sentence += words
            if (end := self._end(word, plain, words)) is not None:
                self.ended = True
                return end
        elif plain:
            self._loop = Loop()
        self._held += word
        if word.endswith("\n") or _SENTENCE_END.search(word):
            self._sentence = []
            self._has_ended_sentence = True
            self._list = RepeatedItems()
            if self._ends_empty:
                self._opening = []
        return "" if self._waits() else self._release(kept=self._list.waiting)

    def _waits(self) -> bool:
        """Whether the sentence may become one that is not said."""
        return self._begins_like_repeated() or (self._ends_empty and may_leak(self._sentence))

    def _end(self, word: str, plain: str, words: list[str]) -> str | None:
        """What is still said if the answer ends before `word`, None if it continues."""
        if self._repeats_itself(word, words):
            return "" if self._has_said or not self._ends_empty else self._no_content
        if self._ends_empty and leaks(self._sentence):
            return self._break_off()
        if self._repeats is Repeats.FEW and self._list.closes(word, plain):
            before = self._release(kept=self._list.item_length)
            return f"{before.rstrip(' ,')}."
        return None

    def _break_off(self) -> str:
        if not self._has_said:
            return self._no_content
        if len(self._held.split()) + 1 >= len(self._sentence):
            return ""
        return "…" if self._has_ended_sentence else f"… {self._no_content}"

    def _begins_item(self, word: str) -> re.Match[str] | None:
        """The marker of a list's item: a number at the beginning of a sentence."""
        begins = self._may_begin_item or not self._sentence
        return _MARKER.fullmatch(word) if begins and self._repeats is Repeats.FEW else None

    def _add_item(self, marker: re.Match[str]) -> str:
        """Small models write lists that begin again and again with the same number.

        An item gets the number that follows. If items are empty, the answer ends.
        """
        number = written = int(marker[2])
        if number in self._numbers:
            if self._item_is_empty:
                self.ended, self._held = True, ""
                return "" if self._words else self._no_content
            number = self._numbers[-1] + 1
        said = self._release()
        self._numbers, self._item_is_empty, self._may_begin_item = (written, number), True, True
        self._held = f"{marker[1]}{number}{marker[3]}"
        return said

    def _release(self, kept: int = 0) -> str:
        """What is held, but for its last `kept` characters."""
        end = max(0, len(self._held) - kept)
        said, self._held = self._held[:end], self._held[end:]
        self._has_said = self._has_said or bool(said.strip())
        return said

    def _is_obscene(self, word: str, plain: str) -> bool:
        text = word.strip(" ")
        pair = f"{self._first_of_pair} {plain}" if text[:1].isalnum() else ""
        self._first_of_pair = plain if text[-1:].isalnum() else ""
        if _OBSCENE_CHINESE.search(_INNOCENT_CHINESE.sub(" ", plain)):
            return True
        parts = [*map(_plain, _BETWEEN_WORDS.split(word)), *re.findall(r"[^\W_]+", word.lower())]
        return any(_OBSCENE.fullmatch(part) for part in parts) or bool(
            _OBSCENE_PAIR.fullmatch(pair)
        )

    def _repeats_itself(self, word: str, words: list[str]) -> bool:
        """Whether `word`, which added `words`, ends what was said too often."""
        if self._repeats is Repeats.ALL:
            return False
        if self._repeats is Repeats.NO_LOOP:
            closes = [self._loop.closes(one) for one in words]
            return any(closes)
        ends = bool(_SENTENCE_END.search(word))
        return self._repeats_phrase(len(words)) or (ends and self._repeats_sentence())

    def _repeats_phrase(self, added: int) -> bool:
        """Whether a phrase that ends in the last `added` words was said too often."""
        for end in range(len(self._words) - added + 1, len(self._words) + 1):
            length = _LONG_PHRASE if has_han(self._words[end - 1]) else _PHRASE_WORDS
            phrase = tuple(self._words[max(0, end - length) : end])
            if len(phrase) < length:
                continue
            self._phrases[phrase] += 1
            if self._phrases[phrase] >= _MOST_REPEATS:
                return True
        return False

    def _repeats_sentence(self) -> bool:
        sentence = tuple(self._sentence)
        if len(sentence) < 2:
            return False
        self._sentences[sentence] += 1
        return self._sentences[sentence] >= self._most_sentences

    def _begins_like_repeated(self) -> bool:
        begin = tuple(self._sentence)
        return bool(begin) and any(
            count >= self._most_sentences - 1 and sentence[: len(begin)] == begin
            for sentence, count in self._sentences.items()
        )


class _Code:
    """Finds the words of code and JSON: between fences or brackets, or on an indented line."""

    def __init__(self) -> None:
        self._fenced = False
        self._indented = False
        self._depth = 0
        self._begins_line = True

    def has(self, word: str) -> bool:
        """Whether `word`, the next one, belongs to code or JSON."""
        margin = word[: len(word) - len(word.lstrip())]
        ended = self._begins_line + margin.count("\n")
        if ended:
            indent = margin.rpartition("\n")[2].expandtabs(_CODE_INDENT)
            self._indented = len(indent) >= _CODE_INDENT and not _LIST_MARK.match(word.strip())
        if ended > 1 and not self._indented:
            self._depth = 0  # a bracket that prose forgets to close
        self._begins_line = word.endswith("\n")
        if word.count("```") % 2:
            self._fenced = not self._fenced
        opened = sum(word.count(bracket) for bracket in "[{")
        inside = opened or self._depth
        self._depth = max(0, self._depth + opened - sum(word.count(bracket) for bracket in "]}"))
        return bool(self._fenced or self._indented or inside)


_CODE_INDENT = 4
_LIST_MARK = re.compile(r"[-*+•]|\d+[.)]")


def _plain(word: str) -> str:
    return re.sub(r"[^\w']|_", "", word.lower()).strip("'")


def _words_in(plain: str) -> list[str]:
    """One word, or in Chinese each character."""
    return re.findall(f"[{HAN}]|[^{HAN}]+", plain)


def mourns(text: object) -> bool:
    """Whether the user speaks of a death, so that an answer may say that it is sorry for the loss."""
    return isinstance(text, str) and bool(_MOURNS.search(text))


def cleaned(text: str) -> str:
    """A complete text, cut at its first obscene word."""
    guard = AnswerGuard(filter_obscene=True, repeats=Repeats.ALL)
    return (guard.feed(text) + guard.flush()).strip()
