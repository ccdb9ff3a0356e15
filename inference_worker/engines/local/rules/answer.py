"""Answers a question by rule: about the assistant, dates, units and sums, and in a quiz."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace

from antiphon.inference_worker.engines.local.hearing.completeness import is_open
from antiphon.inference_worker.engines.local.rules.about_itself import ABOUT_ITSELF, limit_in
from antiphon.inference_worker.engines.local.rules.after_statement import (
    AfterStatement,
    after_statement,
)
from antiphon.inference_worker.engines.local.rules.courtesy import FAREWELL, WELCOME
from antiphon.inference_worker.engines.local.rules.facts_and_jokes import FACT_AND_JOKE_ROWS
from antiphon.inference_worker.engines.local.rules.fallbacks import FALLBACKS
from antiphon.inference_worker.engines.local.rules.follow_up import proposed, whole_question
from antiphon.inference_worker.engines.local.rules.knowledge import answer_knowledge
from antiphon.inference_worker.engines.local.rules.listening import listen
from antiphon.inference_worker.engines.local.rules.quantities.arithmetic import (
    answer_next_sum,
    answer_sum,
)
from antiphon.inference_worker.engines.local.rules.quantities.clock import answer_clock
from antiphon.inference_worker.engines.local.rules.quantities.dates import (
    answer_date,
    compare_dates,
)
from antiphon.inference_worker.engines.local.rules.quantities.distances import answer_distance
from antiphon.inference_worker.engines.local.rules.quantities.units import (
    answer_conversion,
    compare_previous,
    convert_previous,
)
from antiphon.inference_worker.engines.local.rules.quiz import answer_quiz, approved_in_quiz
from antiphon.inference_worker.engines.local.rules.situation import Situation
from antiphon.inference_worker.engines.local.rules.small_talk import SMALL_TALK
from antiphon.inference_worker.engines.local.rules.text import (
    ASKS,
    COMMON_WORDS,
    LONGEST_CHARS,
    peeled,
    plain,
)
from antiphon.inference_worker.engines.local.rules.user_facts import USER_ROWS, introduced
from antiphon.inference_worker.engines.local.rules.user_statements import not_told, quoted

_ASKS_BACK = re.compile(r"(?<![^.!]) [^.!?]+\?$")
"""The question at the end of an answer: several answers together ask one at most."""

ENGLISH_ONLY = "I understand English only, and I did not understand that."


def answer(question: str, situation: Situation) -> str | None:
    """The answer by rule to what the user said or wrote; None if the language model answers it.

    Of several sentences, each needs a rule.
    """
    asked = question.strip()
    question = introduced(whole_question(asked, situation.said))
    if not question:
        return None
    if is_not_english(question):
        return ENGLISH_ONLY
    if len(question) > LONGEST_CHARS:
        return None
    return (
        _answer_whole(question, situation)
        or _answer_parts(question, situation)
        or _looked_up(question, situation)
        or _answer_end(question, situation)
        or _answer_proposal(asked, situation)
        or _answer_fragment(question, situation)
        or listen(question, situation)
    )


def _answer_whole(question: str, situation: Situation) -> str | None:
    # Statements before a question are no reason to answer them alone.
    talks = situation.small_talk and not _ASKS_LAST.search(question)
    stated = None if talks else _answer_one(plain(question), situation, _by_statements)
    whole = stated or _answer_one(plain(question), replace(situation, small_talk=talks))
    is_one = not _SENTENCE_END.search(question)
    return whole or (_looked_up(question, situation) if is_one else None)


def _answer_parts(question: str, situation: Situation) -> str | None:
    for separator in _SEPARATORS:
        parts = [piece for piece in separator.split(question) if plain(piece)]
        if len(parts) > 1 and (together := _answer_all(parts, situation)):
            return together
    return None


def _answer_end(question: str, situation: Situation) -> str | None:
    """Thanks, a farewell, what the user told before, or what the model would answer as a person."""
    *_, last = re.split(r"(?<=[.!?])\s+", question)
    courtesy = _answer_one(plain(last), situation)
    if courtesy in (FAREWELL, WELCOME):
        return courtesy
    begin, _, end = question.rpartition(",")
    if not ASKS.match(plain(begin)) and _answer_one(plain(end), situation) == FAREWELL:
        return FAREWELL
    ways = after_statement(question)
    behind = next(filter(None, (_answer_after(way, situation) for way in ways)), None)
    return behind or _answer_one(plain(last), situation, _by_fallbacks)


def _answer_after(said: AfterStatement, before: Situation) -> str | None:
    """The answer to the question behind a statement, if it is one that other words do not change."""
    stated = plain(said.statement)
    situation = replace(before, said=(*before.said, said.statement))

    def exactly(text: str, situation: Situation) -> str | None:
        if of_user := _by_user_rows(text, situation) or _by_statements(text, situation):
            return of_user
        elsewhere = _IN_PLACE.search(text) and _HOUR.search(stated)
        hour = _AT_HOUR.search(stated) if _HAS_TIME.fullmatch(text) else None
        return (
            (answer_clock(f"how long until {hour[1]}", situation.now) if hour else None)
            or (None if elsewhere else answer_clock(text, situation.now))
            or answer_date(text, situation.now)
            or answer_conversion(text)
            or convert_previous(text, stated)
            or answer_sum(text)
            or _limit_or_joke(text, situation)
        )

    asked = whole_question(said.question, situation.said)
    return _answer_one(plain(asked), situation, exactly) or _looked_up(asked, situation)


_IN_PLACE = re.compile(r"\bin\b")
_HOUR = re.compile(r"\d ?(?:[ap]\.?m|o'clock|:\d)|\b(?:noon|midnight)\b")
""" "It is noon in London. What time is it in Tokyo?" does not ask for now."""

_AT_HOUR = re.compile(r"\bat ((?:quarter|half|\d|noon|midnight|an? )[\w: ]*)$")
_HAS_TIME = re.compile(
    r"(?:so )?how (?:long|much time) (?:have (?:i|we) (?:got|left)|do (?:i|we) have|is (?:that|it|there))"
    r"(?: left| until then| from now)*"
)


def _limit_or_joke(text: str, situation: Situation) -> str | None:
    for rows, is_taken in ((ABOUT_ITSELF, limit_in), (_JOKES, bool)):
        for pattern, function in rows if situation.small_talk else ():
            found = pattern.fullmatch(text)
            said = function(found, situation) if found else None
            if said and is_taken(said):
                return said
    return None


_JOKES = tuple((re.compile(pattern), answer) for pattern, answer in FACT_AND_JOKE_ROWS)


_SENTENCE_END = re.compile(r"[.!?]\s")
_ASKS_LAST = re.compile(r"[.!] [^.!]+\?$")


def _looked_up(question: str, situation: Situation) -> str | None:
    """A larger model knows more than the dictionary. A single word may be the answer to a question."""
    replies = situation.previous.endswith("?") and not _OFFERS.search(situation.previous)
    asks = "?" in question or any(map(ASKS.match, peeled(plain(question))))
    if not situation.small_talk or situation.persona or (replies and not asks):
        return None
    return answer_knowledge(question, situation.said)


def _answer_proposal(asked: str, situation: Situation) -> str | None:
    """ "How about a joke?", and "And ethereum?" after a price that the assistant cannot know.

    "What about good night?" asks for another translation: nobody proposes a farewell.
    """
    other = plain(proposed(asked))
    if not other:
        return None
    forms = (other, f"tell me {other}", *_as_request(other))
    answers = (_answer_one(form, situation) for form in forms)
    said = next((one for one in answers if one and one != FAREWELL), None)
    names_another = not re.search(r"^(?:an?|the|some) | of ", other)
    return said or (limit_in(situation.previous) if names_another else None)


def _as_request(doing: str) -> Iterator[str]:
    """ "can you set a timer" of "setting a timer"."""
    verb, _, rest = doing.partition(" ")
    if rest and verb.endswith("ing"):
        stem = verb.removesuffix("ing")
        once = stem[:-1] if stem[-2:-1] == stem[-1:] else stem
        yield from (f"can you {form} {rest}" for form in (stem, f"{stem}e", once))


_SEPARATORS = (
    re.compile(r"(?<=[.!?])\s+|,?\s+and\s+(?=(?:what|who|how|when|where)\b)"),
    re.compile(r"(?<=[.!?,])\s+"),
)
"""Of sentences, and of what people say in one breath: "Stop, thank you, goodbye"."""


_ADVICE = re.compile(
    r"what (?:should|shall|can|do) i do(?: now| about (?:it|that))?"
    r"|what (?:do|would) you (?:suggest|recommend|advise)|(?:(?:do you have|have you got"
    r"|is there) )?any (?:advice|tips?|ideas?|suggestions?)"
)
"""After a trouble for which there is a rule: a small model's advice would be worse than none."""


_GLAD = "I am glad."
"""To "Wow" before a question."""

_HESITATION = re.compile(
    r"(?:what|huh|again|sorry|pardon|oo+h|oh|a+h+|aha|ugh|(?:ha ?)+|h+m+|u+h+|u+m+|er+m*)"
)
"""Asks to repeat if it stands alone, but not before a question: "What? What time is it?"."""


def _answer_all(parts: list[str], situation: Situation) -> str | None:
    parts = [part for part in parts if not _HESITATION.fullmatch(plain(part))] or parts
    asked = [part for part in parts if not any(map(_ADVICE.fullmatch, peeled(plain(part))))]
    answers = [
        _answer_one(plain(part), situation) or _looked_up(part, situation)
        for part in (asked or parts)
    ]
    known = [text for text in answers if text is not None]
    if len(known) < len(answers):
        return None
    *first, last = dict.fromkeys(known)
    if last == FAREWELL:
        return last
    before = (_ASKS_BACK.sub("", f" {text}").strip() for text in first if text != WELCOME)
    return " ".join([*(text for text in before if text not in ("", _GLAD)), last])


_FILLERS = re.compile(
    r"\b(?:actually|really|at least|even|ever|still|(?:kind|sort) of|maybe|perhaps|honestly|basically"
    r"|already|just|also|at all|i guess|i think)\b|(?<!do )(?<!can )\byou know$"
)
"""Words that change nothing in a question: "So what can you actually do?"."""


def _answer_exactly(text: str, situation: Situation) -> str | None:
    if again := approved_in_quiz(text, situation.previous):
        return again
    if distance := answer_distance(text, situation.previous):
        return distance
    if stated := _by_statements(text, situation):
        return stated
    for pattern, function in (*(SMALL_TALK if situation.small_talk else ()), *ABOUT_ITSELF):
        if (found := pattern.fullmatch(text)) and (sentence := function(found, situation)):
            return sentence
    return (
        answer_quiz(text, situation.previous)
        or answer_clock(text, situation.now)
        or answer_date(text, situation.now)
        or answer_conversion(text)
        or convert_previous(text, plain(situation.previous))
        or convert_previous(text, plain(" ".join(situation.said[-1:])))
        or compare_previous(text, plain(situation.previous))
        or compare_dates(text, situation.previous, situation.now)
        or answer_next_sum(text, situation.previous)
        or answer_sum(text)
        or (not_told(text, situation) if situation.small_talk else None)
    )


def _answer_one(
    text: str,
    situation: Situation,
    exactly: Callable[[str, Situation], str | None] = _answer_exactly,
) -> str | None:
    """Try `exactly` on `text`, without polite words at its ends, and without fillers."""
    forms = dict.fromkeys((text, " ".join(_FILLERS.sub(" ", text).split())))
    answers = (exactly(shorter, situation) for form in forms for shorter in peeled(form))
    return next(filter(None, answers), None)


def _by_statements(text: str, situation: Situation) -> str | None:
    """A larger model finds by itself what the user has told."""
    if not situation.small_talk:
        return None
    return _by_user_rows(text, situation) or quoted(text, situation)


def _by_user_rows(text: str, situation: Situation) -> str | None:
    """What the user has said of themselves, whatever the sentences before the question are."""
    if not ASKS.match(text):
        return None
    found = ((re.fullmatch(pattern, text), row) for pattern, row in USER_ROWS)
    return next((said for match, row in found if match and (said := row(match, situation))), None)


def _by_fallbacks(text: str, situation: Situation) -> str | None:
    """What the model would answer as a person."""
    rows = FALLBACKS if situation.small_talk else ()
    found = ((pattern.fullmatch(text), row) for pattern, row in rows)
    return next(filter(None, (row(match, situation) for match, row in found if match)), None)


_FRAGMENT_WORDS = 3
_NONSENSE_WORDS = 5
_OFFERS = re.compile(r"(?:help you|do for you|do better|talk about|to know(?: about .*)?)\?$")
"""Ends of questions that no single word answers."""

_VERB = re.compile(
    r"(?:'(?:s|re|m|ll|ve)|n't|\w{2}(?<!e)ed|hurts?|sucks?|cares?|left|loves?|happens?|yesterday|today)$"
)
"""Words of a statement: "Everything hurts"."""

_CLAUSE = re.compile(r"(?:because|if|when|while|although|unless|yes)\b")
_ASKS_AGAIN = "I did not understand that. Please say it in a whole sentence."
_ASKS_MEANING = "What do you mean by that?"


def _answer_fragment(question: str, situation: Situation) -> str | None:
    """A few words that neither ask nor answer anything. A small model invents what they mean."""
    text = plain(question)
    words = text.split()
    asked = situation.previous.endswith("?") and not _OFFERS.search(situation.previous)
    if not situation.small_talk or situation.persona or asked:
        return None
    if len(words) > 1 and any(map(_VERB.search, words)):
        return None
    if len(words) > 1 and "?" not in question and is_open(question) and not _CLAUSE.match(text):
        return "Please go on, I am listening."
    if _FRAGMENT_WORDS < len(words) <= _NONSENSE_WORDS and COMMON_WORDS.isdisjoint(words):
        return None if ASKS.match(text) or any(map(str.isdigit, text)) else _ASKS_AGAIN
    if len(words) > _FRAGMENT_WORDS or "?" in question:
        return None
    if not any(word.isalpha() and word not in COMMON_WORDS for word in words):
        return _ASKS_AGAIN if len(words) == 1 else None
    if ASKS.match(text) or any(word in COMMON_WORDS for word in words):
        return None
    if question.endswith("!"):
        return _ASKS_MEANING
    return f"What would you like to know about {question.strip(' .!,;:')}?"


_LEAST_LETTERS = 2
_LEAST_WORDS = 2
_CERTAIN_MARKERS = 2

_FOREIGN_WORDS = """
sprichst sprechen parlez-vous parle français parlez hablas habla español parli italiano fala português
der die das ist nicht und ich du wir ihr sie ein eine einen wie was wo wer warum wann mit auf für
von zu den dem sind kann kannst bitte mein dein heute gibt hast heißt heisst welche welcher viel
wieviel le la les des est sont je tu nous vous ne pas et que qui quel quelle quels pourquoi comment
où dans une un avec pour sur mon ton c'est qu'est-ce il elle au aux ce cette fait merci bonjour el
los las es son yo no y qué quién cuál cuánto cómo dónde por para con una de del en mi está estás
hola gracias puedes eres hace lo gli è sono io non e che chi quale quanto come dove perché per di
nel mio ciao grazie o os as são eu não qual onde com uma da do na meu você olá obrigado het een is
niet ik jij wij wat waar waarom hoe met voor van zijn mijn
buenos buenas dias días tardes noches muchas muchos hasta luego estas guten morgen abend danke wiedersehen
beaucoup bonsoir buongiorno arrivederci
"""
_ALSO_ENGLISH_WORDS = """
die es son per con van sur pas un en y e o la le de il ton mi ne den elle au io lo das von non wat hoe met pour
"""
_FOREIGN = frozenset(_FOREIGN_WORDS.split())
_MARKERS = _FOREIGN - COMMON_WORDS - frozenset(_ALSO_ENGLISH_WORDS.split())


def is_not_english(text: str) -> bool:
    """True for another script, or for words of other languages where English ones are missing.

    Rather False than True: a single foreign word or name is fine.
    """
    letters = [character for character in text if character.isalpha()]
    foreign = sum(not unicodedata.name(character, "").startswith("LATIN") for character in letters)
    if foreign >= _LEAST_LETTERS and foreign > len(letters) / 2:
        return True
    words = re.findall(r"[^\W\d_]+(?:['-][^\W\d_]+)*", text.lower())
    if len(words) < _LEAST_WORDS:
        return False
    markers = sum(word in _MARKERS for word in words)
    foreign = sum(word in _FOREIGN for word in words)
    english = sum(word in COMMON_WORDS and word not in _FOREIGN for word in words)
    if english:
        return markers >= _CERTAIN_MARKERS and markers > english * 2
    return markers >= 1 and foreign >= _CERTAIN_MARKERS
