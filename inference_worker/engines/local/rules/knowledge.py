"""What things are, who people are, and what words mean: from the dictionary and the table of facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from antiphon.inference_worker.engines.local.reference.countries import country_in
from antiphon.inference_worker.engines.local.reference.dictionary import EntryKind, dictionary
from antiphon.inference_worker.engines.local.reference.facts import fact
from antiphon.inference_worker.engines.local.reference.words import (
    article,
    singular,
    with_article,
)
from antiphon.inference_worker.engines.local.rules.follow_up import (
    is_passing,
    proposed,
    whole_question,
)
from antiphon.inference_worker.engines.local.rules.text import COMMON_WORDS, peeled, plain

_UNKNOWN = "Sorry, I do not know"

_SENTENCES = re.compile(r"(?<=[.!?])\s+")


def answer_knowledge(question: str, earlier: Sequence[str] = ()) -> str | None:
    """The answer to the last sentence of `question` that asks something; None if it is not known.

    `earlier` are the user's turns before. "It" and "he" stand for what they asked about. A name that they
    gave to somebody is not looked up.
    """
    asked = next((one for one in reversed(_SENTENCES.split(question)) if not is_passing(one)), "")
    said = " ".join(earlier)
    forms = (asked, *_with_topic(asked, earlier))
    answers = (_answered(form, said) for form in forms)
    return next(filter(None, answers), None) or _has_said(asked, earlier)


def _has_said(asked: str, earlier: Sequence[str]) -> str | None:
    """The fact that has the measure or the year that is asked for: "How tall is it?", "When was that?"."""
    wanted = next(
        (part for question, part in _PARTS if any(map(question.fullmatch, peeled(plain(asked))))),
        None,
    )
    if wanted is None or not earlier:
        return None
    *_, before = _SENTENCES.split(earlier[-1])
    known = next(filter(None, map(fact, peeled(plain(before)))), None)
    return known if known and wanted.search(known) else None


_PARTS = (
    (
        re.compile(
            r"(?:and |so )*how (?:tall|high|long|big|deep|wide|far|heavy|fast|large)(?: away)?"
            r" (?:is|are|was|were) (?:it|that|he|she|they|those)(?: exactly| then)?"
        ),
        re.compile(
            r"\d (?:square |cubic )?(?:kilo|centi|milli)?(?:met(?:re|er)s?|grams?|miles?|feet|tonnes?)\b"
        ),
    ),
    (
        re.compile(
            r"(?:and |so )*(?:when (?:was|did|is)|(?:in )?(?:what|which) year (?:was|did))"
            r" (?:it|that|this)(?: happen| be| built| invented| discovered)?(?: exactly)?"
        ),
        re.compile(r"\b\d{3,4}\b"),
    ),
)
"""Questions after a fact, and what in it answers them."""


def is_unknown(answer: str) -> bool:
    """Whether `answer` says that a word is in no dictionary."""
    return answer.startswith((f"{_UNKNOWN} what ", f"{_UNKNOWN} who "))


def has_topic(earlier: Sequence[str]) -> bool:
    """Whether one of the last turns asked what something is, so that "it" may mean that."""
    return any(any(_topic(turn)) for turn in earlier[-_TURNS:])


def _answered(asked: str, said: str) -> str | None:
    if (other := proposed(asked)) and " of " not in other:
        return None  # "And ethereum?" after its price
    forms = [
        form
        for text in peeled(plain(asked))
        for form in dict.fromkeys((text, _FOR_US.sub("", text)))
    ]
    known = None if _CALL.fullmatch(asked) else next(filter(None, map(fact, forms)), None)
    return known or next(filter(None, (_looked_up(form, asked, said) for form in forms)), None)


_FOR_US = re.compile(r" for (?:you|us|me|people|humans|everybody|everyone)$")
"""Adds nothing to "Is coffee bad for you?"."""

_CALL = re.compile(r"\w+!|(?:hey|hi|hello|ok|okay)\W+\w+\W*", re.IGNORECASE)
"""What asks nothing: "Ssh!", "Hey Siri"."""


def _with_topic(asked: str, earlier: Sequence[str]) -> Iterator[str]:
    """`asked` with what the turns before asked about: instead of a pronoun, or after its last word."""
    pronoun, owned = _PRONOUN.search(asked), _OWNED.fullmatch(asked)
    there = _THERE.search(asked)
    if not (pronoun or owned or there or _COUNTS.match(asked)):
        return
    for topic in _topics(earlier):
        if owned:
            yield f"what is the {owned['what']} of {topic}"
        elif there:
            without = _PRONOUN.sub("people", asked[: there.start()])
            yield f"{without}in {topic}{asked[there.end() :]}"
        elif pronoun:
            owner = "'s" if pronoun[0].lower() in ("its", "his", "their") else ""
            yield f"{asked[: pronoun.start()]}{topic}{owner}{asked[pronoun.end() :]}"
        else:
            yield f"{asked.rstrip('?. ')} {topic}"


def _topics(earlier: Sequence[str]) -> Iterator[str]:
    """What the last turns asked about, and the countries that they or their answers name, newest first."""
    for turn in range(len(earlier) - 1, max(-1, len(earlier) - 1 - _TURNS), -1):
        asked = whole_question(earlier[turn], earlier[:turn])
        yield from _topic(asked)
        if country := country_in(asked):
            yield country


_PRONOUN = re.compile(r"\b(?:its?|they|them|their|he|him|his|she|her)\b", re.IGNORECASE)
_OWNED = re.compile(
    r"(?:and |so )*(?:what(?:'s| is|s) )?(?:the|its)"
    r" (?P<what>capital|currency|population|(?:official )?language|neighbou?rs)[?. ]*",
    re.IGNORECASE,
)
_THERE = re.compile(r"\bthere(?=\W*$)", re.IGNORECASE)
_COUNTS = re.compile(r"(?:and |so )*how (?:many|long|big|old|far|tall|deep)\b", re.IGNORECASE)
_TURNS = 4
"""How far back a topic may be."""

_SUBJECT = re.compile(
    r"(?:The |An? )?[\w' -]{2,40}? "
    r"(?=(?:is|are|was|were|has|have|lives?|sank|began|ended|carries|can|goes|eats?|wrote|painted|composed"
    r"|invented|discovered|founded|directed|created|recorded|built|made)\b)"
)
_OF_WHOLE = re.compile(r".* of ((?:the )?[\w' -]+)")
_NAMED = re.compile(
    r"(?<=[a-z,] )(?:the )?[A-Z][\w'-]+(?: (?:(?:of|the|da|van|de) )*[A-Z][\w'-]+)*"
)


def _topic(text: str) -> Iterator[str]:
    """What the last sentence of `text` asks for and is looked up, as it is written there or in the fact.

    Of a fact, these are its subject, what the subject is a part of, and the names after it.
    """
    *_, asked = _SENTENCES.split(text)
    for form in peeled(plain(asked)):
        if (known := fact(form)) and (subject := _SUBJECT.match(known)):
            yield subject[0].strip()
            if whole := _OF_WHOLE.fullmatch(subject[0].strip()):
                yield whole[1]
            yield from _NAMED.findall(known)
            return
        for pattern, answer in _ROWS:
            found = pattern.fullmatch(form)
            if found is None or _is_common(found["word"]) or _PRONOUN.search(found["word"]):
                continue
            if answer(found, asked):  # "the weather" is no topic
                topic = (found.groupdict().get("article") or "") + found["word"]
                yield _as_written(topic, asked)
                return


def _looked_up(text: str, asked: str, said: str) -> str | None:
    for pattern, answer in _ROWS:
        found = pattern.fullmatch(text)
        if found is None:
            continue
        words = [found[name] for name in ("word", "other") if name in pattern.groupindex]
        of_words = answer in (_synonyms, _opposite)
        if any((_is_common(word) and not of_words) or _was_given(word, said) for word in words):
            continue
        if sentence := answer(found, asked):
            return sentence
    return None


def _is_common(word: str) -> bool:
    return word in _FIRST_NAMES or all(part in COMMON_WORDS for part in word.split())


_NAMES_OF_MANY = """
adam alexander andrew ann anna anne benjamin charles daniel david edward elizabeth esther frank george
hannah henry isaac jack jacob james jane jim joan joe john joseph laura lucy luke maria mark martha martin
mary matthew michael paul peter philip rachel rebecca richard robert ruth sam samuel sarah simon stephen
susan susanna thomas tom victoria william
"""
_FIRST_NAMES = frozenset(_NAMES_OF_MANY.split())
"""Who is meant by one of these alone is not in a dictionary."""


def _was_given(word: str, said: str) -> bool:
    """ "My dog is called Homer." """
    given = rf"\b(?:called|named|names?|is|am|i'm|it's) {re.escape(word)}\b"
    return re.search(given, said, re.IGNORECASE) is not None


def _thing(found: re.Match[str], asked: str) -> str | None:
    """What something is. `asked` tells a name, by its capital, from a thing without an article."""
    word, before = found["word"], found["article"]
    if before == "the ":
        return _first_of(word, _only_ones(word, asked), "The ")
    if before:
        return _first_of(word, _THINGS, counted=True)
    one = singular(word)
    if one != word and (said := _first_of(one, _THINGS, counted=True)):
        return said
    entries = dictionary().find(word)
    thing = entries.get(EntryKind.THING)
    is_name = (
        _has_capital(word, asked)
        or (thing is not None and _has_capital(word, thing.form))
        or (asked.islower() and EntryKind.PLACE in entries)  # typed without capitals
    )
    if EntryKind.QUALITY in entries and not is_name:
        return None  # "What is wrong?"
    if not entries and _LONG_WORD.fullmatch(word):  # a small model would invent it
        return f"{_UNKNOWN} what {_as_written(word, asked)} is."
    return _first_of(word, (*_NAMES, *_THINGS) if is_name else (*_THINGS, *_NAMES))


def _person(found: re.Match[str], asked: str) -> str | None:
    """What is not in the dictionary, a small model would invent."""
    word, verb = found["word"], "is" if re.search(r"\bis\b", found[0]) else "was"
    if said := _first_of(word, (EntryKind.PERSON, EntryKind.NAMED), verb=verb):
        return said
    named = [name for name in word.split() if _has_capital(name, asked)]
    unknown = len(named) == len(word.split()) and not dictionary().find(word)
    return f"{_UNKNOWN} who {_as_written(word, asked)} {verb}." if unknown else None


def _place(found: re.Match[str], _asked: str) -> str | None:
    if known := fact(f"where {found['word']}"):
        return known
    before = "The " if found["article"] else ""
    verb = "are" if re.search(r"\bare\b", found[0]) else "is"
    return _first_of(found["word"], (EntryKind.PLACE, EntryKind.NAMED), before, verb=verb)


def _born(found: re.Match[str], _asked: str) -> str | None:
    entry = dictionary().find(found["word"]).get(EntryKind.PERSON)
    if entry is None or not entry.born:
        return None
    era = " BC" if entry.died.endswith(" BC") else ""
    return f"{entry.form} was born in {entry.born}{era} and died in {entry.died}."


def _meaning(found: re.Match[str], _asked: str) -> str | None:
    word = found["word"]
    entries = dictionary().find(word) or dictionary().find(singular(word))
    kind = next(
        (
            kind
            for kind in (EntryKind.ACTION, EntryKind.QUALITY, *_THINGS, *_NAMES)
            if kind in entries
        ),
        None,
    )
    if kind is None:
        return None
    entry = entries[kind]
    text = re.sub(r"^used of [^;]*; ", "", entry.text)
    form = _upper(entry.form)
    return (
        f"To {entry.form} means to {text}." if kind is EntryKind.ACTION else f"{form} means {text}."
    )


def _synonyms(found: re.Match[str], _asked: str) -> str | None:
    entry = dictionary().find(found["word"]).get(EntryKind.SYNONYMS)
    words = entry.text.split(", ") if entry else []
    if not words:
        return None
    *first, last = words[:3]
    listed = f"{', '.join(first)} or {last}" if first else last
    return f"Instead of {found['word']} you can say {listed}."


def _opposite(found: re.Match[str], _asked: str) -> str | None:
    entry = dictionary().find(found["word"]).get(EntryKind.OPPOSITE)
    return f"The opposite of {entry.form} is {entry.text.replace(', ', ' or ')}." if entry else None


def _difference(found: re.Match[str], _asked: str) -> str | None:
    both = []
    for word, before in (
        (found["word"], found["article"]),
        (found["other"], found["before_other"]),
    ):
        one = singular(word)
        both.append(_first_of(one, _THINGS, counted=before is not None or one != word))
    definitions = {said.partition(" is ")[2] for said in both if said}
    return " ".join(filter(None, both)) if len(definitions) == len(both) else None


_LONG_WORD = re.compile(r"(?!\w+(?:self|selves|thing|body|one)$)[^\W\d_]{6,}")

_THINGS = (EntryKind.THING,)
_NAMES = (EntryKind.PLACE, EntryKind.PERSON, EntryKind.NAMED)


def _only_ones(word: str, asked: str) -> tuple[EntryKind, ...]:
    """What `word` with "the" may be if no story before it was about one: not "the problem"."""
    if " " in word:
        return (EntryKind.PLACE, EntryKind.NAMED, *_THINGS)
    is_name = _has_capital(word, asked) or EntryKind.NATURAL in dictionary().find(word)
    return (EntryKind.PLACE, EntryKind.NAMED, EntryKind.NATURAL) if is_name else ()


def _first_of(
    word: str,
    kinds: tuple[EntryKind, ...],
    before: str = "",
    *,
    counted: bool = False,
    verb: str = "is",
) -> str | None:
    entries = dictionary().find(word)
    kind = next((kind for kind in kinds if kind in entries), None)
    if kind is None:
        return None
    entry = entries[kind]
    if kind is EntryKind.PERSON:
        lived = f", who lived from {entry.born} to {entry.died}, was" if entry.died else f" {verb}"
        return f"{entry.form}{lived} {_short(with_article(entry.text))}."
    if counted and kind in _THINGS:
        before = f"{_upper(article(entry.form))} "
    form = f"{before}{entry.form}" if before else _upper(entry.form)
    return f"{form} {verb} {_short(with_article(entry.text))}."


_LONGEST = 36


def _short(text: str) -> str:
    """The first clauses of a long definition."""
    words = text.split()
    if len(words) <= _LONGEST:
        return text
    clauses = re.split(r"(?<=[,;]) ", " ".join(words[:_LONGEST]))
    return " ".join(clauses[:-1]).rstrip(",;") or text


def _has_capital(word: str, text: str) -> bool:
    found = re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE)
    return found is not None and found[0][0].isupper() and not text.isupper()


def _as_written(word: str, text: str) -> str:
    found = re.search(re.escape(word), text, re.IGNORECASE)
    return found[0] if found else word


def _upper(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


_IS = r"(?:is|are|was|were)"
_NAME = r"(?P<word>[^\W\d][\w' .-]*?)"
_X = rf"(?P<article>an? |the )?{_NAME}"
_WORD = rf"(?:the (?:word|term|expression) )?(?:an? |to )?{_NAME}"
_END = (
    r"(?: (?:exactly|to me|in (?:simple|a few|easy|plain) (?:words|terms)|in general|all about))?"
)
_SOMETHING = (
    r"(?:thing|animal|bird|fish|plant|fruit|food|drink|dish|machine|instrument|disease|stone|metal"
    r"|place)"
)

_LOOKS_UP: tuple[tuple[Callable[[re.Match[str], str], str | None], tuple[str, ...]], ...] = (
    (
        _difference,
        (
            rf"(?:what is|explain|tell me) the difference between {_X} and"
            r" (?P<before_other>an? |the )?(?P<other>[^\W\d][\w' -]*?)",
        ),
    ),
    (
        _meaning,
        (
            rf"what (?:does|do) {_WORD} mean",
            rf"what means {_WORD}",
            rf"what is the (?:meaning|definition) of {_WORD}",
            rf"define {_WORD}",
            rf"what is meant by {_WORD}",
        ),
    ),
    (
        _synonyms,
        (
            r"(?:(?:what is|tell me|give me|name|find) )?(?:an? |the |another |some |1 )*"
            rf"(?:synonyms? (?:for|of)|(?:other )?words? (?:for|like|that means? the same as)) {_WORD}",
        ),
    ),
    (_opposite, (rf"(?:what is )?(?:the|an?) (?:opposite|antonym) (?:of|to|for) {_WORD}",)),
    (
        _born,
        (
            rf"(?:when|in what year|what year) was {_NAME} born",
            rf"(?:when|in what year|what year) did {_NAME} (?:die|live)",
        ),
    ),
    (
        _person,
        (
            rf"who {_IS} {_NAME}",
            rf"who {_NAME} {_IS}",
            rf"what did {_NAME} do",
            rf"what {_IS} {_NAME} (?:famous|known|remembered) for",
            rf"why {_IS} {_NAME} (?:so )?famous",
        ),
    ),
    (
        _place,
        (
            rf"where {_IS} {_X}(?: located)?",
            rf"where {_X} {_IS}(?: located)?",
            r"(?:in |on )?(?:which|what) (?:country|continent|state|city|part of the world)"
            rf" is {_X}(?: in| on| located in)?",
        ),
    ),
    (
        _thing,
        (
            rf"(?:what (?:exactly )?{_IS}|explain(?: to me)?|describe) {_X}{_END}",
            r"(?:tell me|talk) (?:something (?:interesting )?|a (?:little |bit )?)?about"
            rf" {_X}{_END}",
            rf"(?:what do you know|do you know anything|what can you tell me) about {_X}",
            rf"have you (?:ever )?heard (?:of|about) {_X}",
            rf"what (?:(?:kind|sort|type) of )?{_SOMETHING} {_IS} {_X}{_END}",
            rf"(?:explain(?: to me)? )?what {_X} {_IS}{_END}",
            rf"what does (?P<article>an? ){_NAME} do(?: for a living)?",
        ),
    ),
)
_ROWS = tuple(
    (re.compile(pattern), answer) for answer, patterns in _LOOKS_UP for pattern in patterns
)
