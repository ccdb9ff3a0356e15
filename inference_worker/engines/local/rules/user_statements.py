"""What the user asks of their own life: the sentence in which they told it, or that they have not told it.

The bundled model would invent it.
"""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from antiphon.inference_worker.engines.local.rules.situation import Situation
from antiphon.inference_worker.engines.local.rules.text import ASKS, COMMON_WORDS, peeled, plain

NOT_TOLD = "You have not told me that yet."

_KIN = (
    r"(?:grand)?(?:mother|mum|mom|father|dad|son|daughter|child|children|kids?)|ma|pa|grandma|grandpa"
    r"|brother|sister|wife|husband|uncle|aunt|cousin|niece|nephew|girlfriend|boyfriend|partner|friend|baby|boss|teacher"
    r"|doctor|dentist|colleague|neighbou?r|(?:mother|father|brother|sister)-in-law"
)
_PET = "dog|cat|pet|bird|parrot|fish|hamster|rabbit|horse|puppy|kitten|tortoise|guinea pig"
_WHICH = r"(?:(?:kind|type|sort|breed|make|brand|model|colou?r) of )"
_ASKED = (
    rf"(?:who|whom|whose(?: [a-z]+)?|where|when|what time|(?:what|which)(?: {_WHICH}?[a-z]+)?"
    r"|how (?:old|long|far|tall|often)|how (?:many|much)(?: [a-z]+)?)"
)
_SAID = r"(?:say|said|tell|told|mention|mentioned)(?: to)?(?: you)?(?: that| about)?"
_STATE = (
    r"have(?! to\b)|own|live|work|drive|like|love|hate|prefer|play|speak|study|teach|collect|come|weigh"
    r"|want|go to|wear|eat|drink|use to"
)
_REMEMBER = r"(?:(?:do|can) you (?:still )?(?:remember|recall|know|tell me)|remind me|tell me)"

_QUESTIONS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?P<asked>{_ASKED}) (?:did|have) i (?:just |already )?{_SAID} (?P<rest>.+)",
        rf"(?P<asked>{_ASKED}) (?:is|are|was|were|does|do|did|has|have) (?:my|our) (?P<rest>.+)",
        rf"(?P<asked>{_ASKED}) (?:am|was|did|had|have) i (?P<rest>.+)",
        rf"(?P<asked>{_ASKED}) do i (?P<rest>(?:{_STATE})\b.*)",
        rf"{_REMEMBER} (?P<asked>{_ASKED}) (?:i|my|our|we) (?P<rest>.+)",
        rf"(?P<asked>{_ASKED}) (?:is|are) (?P<rest>.*\b(?:on|in) (?:my|our) .+)",
        r"(?P<asked>am) i (?P<rest>(?:allergic|married|engaged|divorced|retired|pregnant|vegan"
        r"|vegetarian)\b.*)",
        rf"(?P<asked>do) i (?:have|own) (?:any|an?) (?P<rest>(?:{_KIN}|{_PET}|car|job)s?)",
    )
)
_ANOTHER_ANSWER = re.compile(
    r"\b(?:called|named|name|now|left|altogether|in total|remain(?:ing|s)?|wrong|think(?:ing)?|feel(?:ing)?"
    r"|talk(?:ing)?|supposed|if|should|need to|look(?:ing)?|hold(?:ing)?|mean|right|worth|per|for (?:a|an)"
    r"|in (?:human|dog|cat) years|ask(?:ed|ing)?|first|last|before that|lists?|calendar|schedule|agenda"
    r"|alarms?|timers?)\b"
)
"""Of what must be calculated, seen or judged, and of names, for which there are other rules."""

_WORDS_OF_ALL = """
a about again all also am an and any are as at be been being but by can could did do does doing for from
get got had has have having he her here him his how i if in into is it its just like me more my name
named called mine no not now of off on one or our out over said say she so some still tell that the their
them then there these they this time to told too up us was we were what when where which while who whom
whose why will with would you your ever already really exactly remember please today usually
"""
_IGNORED = frozenset(_WORDS_OF_ALL.split())
_KINDS = """
kind type sort breed brand make model colour color size number day date year month age old job country
city town place street level language much many long far tall often animal instrument sport
"""
_ASKED_FOR = frozenset(_KINDS.split())
"""The answer takes the place of these, in what the user told."""

_SMALL_NUMBER = r"\d|\b(?:an?|no|both|couple|few|half|only)\b"
_TIME = (
    r"\d|\b(?:[a-z]+day|noon|midnight|tomorrow|tonight|morning|afternoon|evening|night|week(?:end)?s?|month"
    r"|year"
    r"|(?:january|february|march|april|may|june|july|august|september|october|november|december)"
    r"|spring|summer|autumn|winter|christmas|easter|soon|days?|ago)\b"
)
_TELLS: tuple[tuple[str, str], ...] = (
    (
        r"colou?r",
        r"\b(?:red|blue|green|yellow|black|white|brown|gr[ea]y|orange|pink|purple|golden|silver|beige"
        r"|blonde?|ginger|dark|light|turquoise|violet)\b",
    ),
    (r"when|what (?:time|day|date|year|month)|(?:what|which) (?:day|date|year|month)", _TIME),
    (
        r"how (?:many|much|old|long|far|tall|often)|(?:what|which) (?:number|age|size|level)",
        _SMALL_NUMBER,
    ),
    (
        r"where|(?:what|which) (?:country|city|town|place|street)",
        r"\b(?:in|at|on|to|from|near|behind|under|outside|inside|beside|next|by|abroad|home)\b",
    ),
    (r"whose", rf"\b(?:my|our) (?:\w+ )?(?:{_KIN}|{_PET})\b|[a-z]'s "),
    (r"who", rf"\b(?:{_KIN}|with|by|is|are|was|called|named|alone)\b"),
    (
        r"(?:what|which) (?:kind|type|sort|breed|brand|make|model)\b.*",
        r"\b(?:is|was|have|got|bought) an? ",
    ),
)
"""By what is asked for: what a sentence has that tells it."""

_THIRD_PERSON = re.compile(r"\b(?:he|she|his|her|it|its|they|their|him|them)\b")
_OF_THE_USER = re.compile(r"\b(?:i|me|my|mine|we|us|our|he|she|his|her|it|they|their)\b")
_REQUESTS = re.compile(
    r"(?:add|put|set|remind|wake|play|call|turn|send|book|order|buy|remember|remove|delete|cancel|open"
    r"|start|stop|let)\b"
)
_PRONOUNS = frozenset(("he", "she"))
_LONGEST_QUOTE = 160


class _Statement(NamedTuple):
    """A statement of the user: as it was written, in plain form, and the stems of its words."""

    written: str
    plain: str
    stems: frozenset[str]


def quoted(text: str, situation: Situation) -> str | None:
    """The statement with which the user has told what `text`, in plain form, asks; None if there is none."""
    if _ANOTHER_ANSWER.search(text):
        return None
    found = next(filter(None, (question.fullmatch(text) for question in _QUESTIONS)), None)
    if found is None:
        return None
    asked, rest = found["asked"], _normalized(found["rest"])
    if "colo" in asked and situation.scene is not None:
        return None  # what the camera shows is better known
    wanted = _wanted(asked, rest)
    tells = next((tells for kind, tells in _TELLS if re.match(kind, asked)), None)
    for statement in _statements(situation) if wanted else ():
        says_more = statement.stems - wanted - _VERBS_OF_MANY - _PRONOUNS
        matches = re.search(tells, statement.plain) if tells else says_more
        if wanted <= statement.stems and (matches or asked in ("am", "do")):
            return f'You said: "{statement.written}"'
    return None


def _wanted(asked: str, rest: str) -> frozenset[str]:
    """Stems of words that the statement must have."""
    named = frozenset(_stems(f"{asked} {rest}"))
    is_counted = re.match(r"how (?:many|much) ", asked)
    thing = frozenset() if is_counted else frozenset(_stems(" ".join(asked.split()[-1:])))
    of_rest = frozenset(_stems(rest))
    sure = (of_rest if of_rest - _VERBS_OF_MANY else named - thing) - _VERBS_OF_MANY
    pronoun = _PRONOUNS & frozenset(rest.split())
    return (sure | (named if is_counted else frozenset())) or (named - thing) or pronoun or thing


def _stems(text: str) -> Iterator[str]:
    for word in re.findall(r"[a-z0-9]+(?:-[a-z]+)?", re.sub(r"'s\b", "", text)):
        if word not in _IGNORED and word not in _ASKED_FOR:
            yield _stem(word)


def _stem(word: str) -> str:
    """ "park" of "parked" and "parking", "liv" of "lives"."""
    stem = re.sub(r"(?<=\w{3})ing$|(?<=\w\w)(?:ed|es|s)$", "", word)
    stem = re.sub(r"(?<=\w\w)[eiy]$", "", stem)
    return stem[:-1] if re.search(r"([^aeiouls])\1$", stem) else stem


_VERBS = """
leave start begin arrive depart come go going open end take happen use work live
"""
_VERBS_OF_MANY = frozenset(map(_stem, _VERBS.split()))
"""Stems of verbs that another one may stand for: "My train is at six"."""


def _normalized(text: str) -> str:
    text = re.sub(r"\b(he|she)'s\b", r"\1 is", text)
    return re.sub(r"\b(?:off|flying|travell?ing|heading) to\b", "going to", text)


def _statements(situation: Situation) -> Iterator[_Statement]:
    """The newest first; after all, those of "him" and "it" with the sentence before them."""
    sentences = [
        part
        for said in situation.said
        for part in map(str.strip, re.split(r"(?<=[.!?;])\s+", said))
        if 0 < len(part) <= _LONGEST_QUOTE and _is_statement(part)
    ]
    yield from map(_statement, reversed(sentences))
    for before, last in reversed(list(itertools.pairwise(sentences))):
        if _THIRD_PERSON.search(_normalized(plain(last))):
            yield _statement(f"{before}{'' if before[-1] in '.!?;' else '.'} {last}")


def _is_statement(sentence: str) -> bool:
    text = plain(sentence)
    asks = "?" in sentence or any(
        ASKS.match(form) or _REQUESTS.match(form) for form in peeled(text)
    )
    return not asks and bool(_OF_THE_USER.search(_normalized(text)))


def _statement(written: str) -> _Statement:
    text = _normalized(plain(written))
    somebody = re.search(rf"\b(?:he|she|(?:my|our) (?:{_KIN}|{_PET}))\b", text)
    return _Statement(written, text, frozenset((*_stems(text), *(_PRONOUNS if somebody else ()))))


_NAME_OF = re.compile(
    rf"(?:what|who) (?:is|was|are) my (?P<who>{_KIN}|{_PET})(?:'s name| called| named)"
    rf"|(?:what|who) (?:is|was) the name of my (?P<of>{_KIN}|{_PET})|who (?:is|was) my (?P<person>{_KIN})"
)
_UNTOLD: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(question), re.compile(statement))
    for question, statement in (
        (
            r"what is my blood (?:type|group)|(?:what|which) blood (?:type|group) (?:am|do) i(?: have)?",
            r"blood",
        ),
        (
            r"(?:what is my|(?:what|which)) (?:(?:star|zodiac|birth) ?)?sign(?: am i)?",
            r"\b(?:sign|aries|taurus|gemini|cancer|leo|virgo|libra|scorpio|sagittarius|capricorn|aquarius"
            r"|pisces"
            r"|born|birthday)\b",
        ),
        (
            r"what (?:is my|size) (?:shoes?|clothes|dress|shirt)(?: size)?(?: am i| do i (?:wear|take|have))?",
            r"\bsize\b",
        ),
        (
            r"what (?:is my eye colou?r|(?:is the )?colou?r (?:are|of) my eyes(?: are)?)",
            r"\beyes?\b",
        ),
        (
            r"what (?:is my hair colou?r|(?:is the )?colou?r (?:is|of) my hair(?: is)?)",
            r"\bhair(?:ed)?\b|\bblonde?\b",
        ),
        (r"how tall am i|what is my height", r"\btall\b|\bheight\b|\d (?:foot|feet|cm|centi)"),
        (
            r"how (?:much|heavy) (?:do i weigh|am i)|what is my weight",
            r"\bweigh|\bweight\b|\d (?:kilo|kg|pound|stone)",
        ),
        (
            r"what is my (?:middle|maiden|second|nick ?)(?: ?name)|what is my nickname",
            r"\bname\b|\bcalled\b|\bcalls?\b",
        ),
        (
            r"what is my (?:salary|income|religion|shoe size|car|school|university|hobby|team)",
            r"\b(?:earn|salary|income"
            r"|religio\w+|church|shoe|car|drive|school|university|hobb\w+|team)",
        ),
        (
            r"how many (?:kids|children|sons|daughters) (?:do|did|have) i (?:have|got|say i have)|do i have"
            r" (?:any |an? )?(?:kids?|child(?:ren)?|sons?|daughters?)",
            r"\b(?:kids?|child(?:ren)?|sons?|daughters?|baby|babies|boys?|girls?|twins|parent|father of"
            r"|mother of)\b",
        ),
        (
            r"(?:how many|what|which) (?:pets|dogs|cats|animals) (?:do|have) i (?:have|got)"
            r"|do i have (?:any |an? )?"
            rf"(?:{_PET})s?",
            rf"\b(?:{_PET})s?\b|\banimals?\b|\bkitt\w+|\bpupp\w+",
        ),
        (
            r"how many (?:brothers|sisters|siblings)(?: (?:and|or) (?:brothers|sisters))? (?:do"
            r"|have) i (?:have|got)"
            r"|do i have (?:any |an? )?(?:brothers?|sisters?|siblings?)(?: (?:and|or) (?:brothers?|sisters?))?",
            r"\b(?:brothers?|sisters?|siblings?|twins?|only child)\b",
        ),
        (
            r"am i (?:married|single|engaged|divorced|widowed|in a relationship)|do i have (?:a|an) (?:wife"
            r"|husband"
            r"|girlfriend|boyfriend|partner)|who am i married to",
            r"\b(?:wife|husband|married|single|engaged|divorced|widow\w*|partner|girlfriend|boyfriend|fianc\w+"
            r"|spouse|wedding|anniversary)\b",
        ),
        (
            r"(?:what am i|am i) allergic(?: to(?: anything| something)?)?|do i have (?:any|an) allerg(?:y|ies)"
            r"|what (?:is my allergy|are my allergies)",
            r"\ballerg\w+|\bintoleran\w+|\bcannot (?:eat|have)\b",
        ),
        (
            r"where do i (?:work|study)|(?:where|what) do i (?:work|study)(?: at| in)?",
            r"\b(?:work\w*|job|stud\w+|office|"
            r"company|school|university|college|retired|i am an?)\b",
        ),
        (
            r"(?:what|which) (?:kind of )?(?:car|bike|phone) do i (?:drive|have|own|ride|use)",
            r"\b(?:car|drive|bike|phone)\b",
        ),
        (
            r"what (?:is|do i have) in my (?:fridge|bag|pocket|handbag|suitcase|wallet|cupboard|garage)s?",
            r"\b(?:fridge|bag|pocket|handbag|suitcase|wallet|cupboard|garage)",
        ),
        (
            r"what did i (?:have|eat) for (?:breakfast|lunch|dinner|supper)(?: today| yesterday)?"
            r"|what did i eat(?: today"
            r"| yesterday)?",
            r"\b(?:breakfast|lunch|dinner|supper|ate|eat(?:en|ing)?)\b",
        ),
        (
            r"where did i (?:park|leave|put|grow up|go to (?:school|university|college)|meet)(?: (?:my|the"
            r"|our) [a-z]+)?"
            r"(?: my [a-z]+)?",
            r"\b(?:park\w*|left|leave|put|grew|grow|school|university|college|met|born|from)\b",
        ),
    )
)
"""Questions, and what the user's turns have if one may tell it: then the model answers."""

_TELLS_NAME = re.compile(r"\b(?:name|names|named|called|calls?)\b")


def not_told(text: str, situation: Situation) -> str | None:
    """NOT_TOLD if `text`, in plain form, asks what the user has certainly not told."""
    earlier = " . ".join(map(plain, situation.said))
    if found := _NAME_OF.fullmatch(text):
        who = found["who"] or found["of"] or found["person"]
        return None if _may_name(who, earlier, situation) else NOT_TOLD
    asked = any(
        question.fullmatch(text) and not statement.search(earlier)
        for question, statement in _UNTOLD
    )
    return NOT_TOLD if asked else None


def _may_name(who: str, earlier: str, situation: Situation) -> bool:
    """Whether the user may have said how somebody is called: "my brother Tom", "she is called Ann"."""
    if _TELLS_NAME.search(earlier):
        return True
    written = " ".join(situation.said)
    if re.search(rf"(?i:\b{who}s?\b)[^.!?]*?[ ,][A-Z][a-z]", written):
        return True
    after = re.findall(rf"\b{who}s? ([a-z]+)", earlier)
    return any(
        word not in COMMON_WORDS and not re.search(r"(?:s|ed|ing|ly|ght|ould)$", word)
        for word in after
    )
