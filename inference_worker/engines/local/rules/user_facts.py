"""Rules for what the user has said before in this conversation."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.rules.follow_up import is_passing
from antiphon.inference_worker.engines.local.rules.situation import Answer, Situation, fixed
from antiphon.inference_worker.engines.local.rules.text import COMMON_WORDS, plain

_END = r"(?: (?:and|but|or|so|because) .*)?$"

NAMED = (
    r"(?:my name is|i am called|(?:people|they|everyone) calls? me|(?:you can )?call me)"
    r"(?! (?:an?|the|at|on|in|by|back|later|tomorrow|when|if|names|not|so|it|right)\b)"
)
"""Before the user's name, in plain form."""

_PROPER = r"(?-i:\b[^\W\d_a-z][\w'’-]{0,9}?[^\WA-Z\d_][\w'’-]{0,20})"
_HAIL = r"(?:hello|hi|hey|good (?:morning|afternoon|evening))(?: there)?"
_INTRODUCED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?P<before>^|[.!?,;] |\b(?:hello|hi|hey|no|yes|and|actually) )(?:i['’]?m|i am) "
        rf"(?P<name>{_PROPER}(?: {_PROPER})?)"
        r"(?= *(?:$|[.,!?;])| (?:and|but|by the way|from|here|speaking|calling|nice)\b)",
        rf"^(?P<before>{_HAIL}[,.!]? )(?:this is|it is|it['’]s) (?P<name>{_PROPER})(?= *(?:$|[.,!;]))",
        rf"^(?P<before>(?:{_HAIL}[,.!]? )?)(?:this is |it['’]s )?(?P<name>{_PROPER}) (?:here|speaking)"
        r"(?= *(?:$|[.,!;]))",
        rf"(?P<before>^|[.!?] )(?P<name>{_PROPER}) is my name\b",
    )
)
_CAPITALISED = """
american african asian european arab arabian australian austrian belgian brazilian british bulgarian canadian
chinese croatian czech danish dutch egyptian english finnish french german greek hungarian indian indonesian
iranian irish israeli italian japanese jewish kenyan korean malaysian mexican nigerian norwegian pakistani
polish portuguese romanian russian scottish serbian slovak spanish swedish swiss syrian thai turkish ukrainian
vietnamese welsh buddhist catholic hindu muslim protestant everybody everyone nobody okay somebody same
amazing awesome bored christmas easter halloween raining snowing monday tuesday wednesday thursday friday
saturday sunday stop quit start listen sunny cold rainy filipino colombian vegan vegetarian latino
fine happy hungry look sad sit sorry stay thirsty tired wait
"""
_NO_NAMES = COMMON_WORDS | frozenset(_CAPITALISED.split())


def introduced(text: str) -> str:
    """`text` with "My name is Ann" for "I'm Ann" and "Ann here". Only the capital tells it from "I'm tired"."""
    for pattern in _INTRODUCED:
        text = pattern.sub(_with_name, text)
    return text


def _with_name(found: re.Match[str]) -> str:
    first = re.split(r"[ '’]", found["name"].lower())[0]
    return found[0] if first in _NO_NAMES else f"{found['before']}My name is {found['name']}"


def _sentences(situation: Situation) -> list[str]:
    """What the user said, in plain form, newest first."""
    said = map(introduced, situation.said)
    texts = [part for text in said for part in re.split(r"[.!?,;]", text)]
    return [text for part in reversed(texts) if (text := plain(part))]


def _find(situation: Situation, pattern: str) -> str | None:
    """The group of `pattern` in the newest sentence that has it."""
    found = (re.search(pattern, text) for text in _sentences(situation))
    return next((match[1] for match in found if match), None)


def _titled(value: str) -> str:
    """`value` as a name, but for its small words."""
    return re.sub(r"\b(Of|The|And)\b", lambda small: small[0].lower(), value.title())


def _fact_of(asked: str, situation: Situation) -> str | None:
    says = NAMED if asked == "name" else rf"my {re.escape(asked)} is"
    value = _find(situation, rf"\b{says} (?:called )?([^.,!?]+?)(?: from .*)?{_END}")
    if value is None and asked.endswith("'s name"):
        return _name_of(asked.removesuffix("'s name"), situation)
    if value is not None:
        return f"You said that your {asked} is {value.title() if asked == 'name' else value}."
    if any(f"my {asked}" in plain(text) for text in situation.said):
        return None
    return f"I do not know your {asked} yet."


def _name_of(thing: str, situation: Situation) -> str | None:
    """The name that the user gave to somebody, or to an animal: "I have a cat called …", "Its name was …"."""
    what = re.escape(thing)
    name = _find(
        situation,
        rf"\b(?:i (?:have|had|got|have got) (?:an?|1)(?: [a-z]+)? {what} (?:called|named)"
        rf"|my {what} (?:is|was) (?:called|named)|my {what}'s name (?:is|was)|the name of my {what} (?:is|was))"
        r" ([a-z'-]+)",
    )
    if name is None and _find(situation, rf"\bmy ({what})\b"):
        named = r"(?:(?:his|her|its|the) name (?:is|was)|(?:he|she|it) (?:is|was) (?:called|named))"
        name = _find(situation, rf"^{named} ([a-z'-]+)$")
    if name is None:
        return None
    return f"You said that your {thing} is called {_corrected(name, situation).title()}."


_OTHERWISE = re.compile(r"(?:(?:no|sorry|wait|actually)(?: |$))+")


def _corrected(name: str, situation: Situation) -> str:
    """The last of the names that the user gave in place of `name`: "No, it's Karin"."""
    begun, before = False, ""
    for sentence in reversed(_sentences(situation)):
        other = re.fullmatch(
            r"((?:(?:no|sorry|wait|actually) )*)(it is|i meant|i said) ([a-z'-]+)", sentence
        )
        if other and begun and (other[1] or other[2] != "it is" or _OTHERWISE.fullmatch(before)):
            name = other[3]
        before = sentence
        begun = begun or re.search(rf" {re.escape(name)}\b", sentence) is not None
    return name


def _said_of(pattern: str, what: str, unknown: str) -> Answer:
    """`what` with the value of `pattern`."""

    def answer(_: re.Match[str], situation: Situation) -> str:
        value = _find(situation, pattern)
        return unknown if value is None else f"You said that you {what} {_titled(value)}."

    return answer


_NO_JOB = "bit|little|big|good|bad|fan|man|woman|mother|father|vegetarian|vegan"


def _job(found: re.Match[str], situation: Situation) -> str | None:
    job = _find(situation, rf"\bmy (?:job|profession) is ([^.,!?]+?){_END}")
    if job is not None:
        return f"You said that your job is {job}."
    job = _find(situation, rf"\bi (?:work|am working) ((?:as|at|in|for) [^.,!?]+?){_END}")
    if job is not None:
        return f"You said that you work {job}."
    job = _find(
        situation,
        rf"\bi am (an? (?!(?:{_NO_JOB})\b)[^.,!?]+?){_END}",
    )
    if job is not None:
        return f"You said that you are {job}."
    return None if found[0] == "what do i do" else "I do not know what you do."


_AGE = (
    r"\bi am (?:turning )?(\d{1,3})(?: years old)?(?: today)?"
    r"(?: (?:and|but|so) (?:i|my|we|he|she|it|still|just|live|have)\b.*)?$"
)
_BORN = r"\bi was born (?:(?:back )?in )(?:[a-z]+ )?(\d{4})\b"
_NO_AGE = "I do not know how old you are."


def _age_in_years(found: re.Match[str], situation: Situation) -> str:
    age = _find(situation, _AGE)
    if age is None:
        return _NO_AGE
    return f"You said that you are {age}, so you will be {int(age) + int(found['years'])}."


def _age(_: re.Match[str], situation: Situation) -> str:
    if (age := _find(situation, _AGE)) is not None:
        return f"You said that you are {age}."
    born = _find(situation, _BORN)
    years = situation.now.year - int(born) if born else 0
    if not 0 < years < _MOST_YEARS:
        return _NO_AGE
    return f"You are {years - 1} or {years} years old, before or after your birthday this year."


def _age_of_year(found: re.Match[str], situation: Situation) -> str | None:
    age = situation.now.year - int(found["year"])
    if not 0 < age < _MOST_YEARS:
        return None
    who = "You are" if " i " in f"{found[0]} " else "That person is"
    return f"{who} {age - 1} or {age} years old, before or after the birthday of this year."


_MOST_YEARS = 130


def _last_said(found: re.Match[str], situation: Situation) -> str:
    """The last question if the user asks for a question; "before that" counts from what was quoted."""
    said = situation.said
    if "before that" in found[0]:
        quoted = [text for text in said if situation.previous == _quoted((text,))]
        said = said[: said.index(quoted[-1])] if quoted else said[:-1]
    if "ask" in found[0] or "question" in found[0]:
        said = tuple(text for text in said if not is_passing(text))
    return _quoted(said[-1:])


def _quoted(said: tuple[str, ...]) -> str:
    return f'You said: "{said[0].strip()}"' if said else "You have not said anything yet."


_THING_TO_KEEP = r"(?:number|word|name|date|code|address|colou?r|sentence|list)s?"
_KEEPS = re.compile(
    rf"(?:remember|keep in mind|memori[sz]e) (?:this|the|these|my|following|a)* *(?P<what>{_THING_TO_KEEP})"
    r"[:,]? (?P<value>.+)",
    re.IGNORECASE,
)


def _kept(found: re.Match[str], situation: Situation) -> str | None:
    """What the user has asked to remember, in the user's words."""
    for text in reversed(situation.said):
        kept = _KEEPS.search(text)
        if kept and kept["what"].rstrip("s").lower() == found["what"].rstrip("s"):
            return f"You said: {kept['value'].strip(' .!')}."
    return None


USER_ROWS: tuple[tuple[str, Answer], ...] = (
    (_KEEPS.pattern, fixed("I will remember it until this conversation ends.")),
    (r"(?:now |so |and )*(?:what (?:was|were|is|are) (?:the|that|those|my)"
     r"|do you (?:still )?remember (?:the|that|my)|tell me (?:the|that|my))"
     rf" (?P<what>{_THING_TO_KEEP})(?: again)?(?: i (?:told|gave|said).*)?", _kept),
    (r"(?:what is|what was|do you (?:know|remember)) the name of my (?P<thing>[a-z]+)",
     lambda found, situation: _name_of(found["thing"], situation)),
    (r"(?:what is|what was|do you (?:know|remember)) my (?P<thing>[a-z]+)'s name",
     lambda found, situation: _name_of(found["thing"], situation)),
    (r"what (?:is|was|did i say) my (?P<thing>[a-z]+)(?: is| was)? (?:called|named)",
     lambda found, situation: _name_of(found["thing"], situation)),
    (r"(?:what is|when is|do you know|do you remember|tell me|what was|what did i say) my (?P<what>name|age"
     r"|birthday|address|phone number|email|email address|password|favou?rite \w+|hobby|nationality"
     r"|dog's name|cat's name|wife's name|husband's name|last name|surname|first name)(?: is| was)?",
     lambda found, situation: _fact_of(found["what"], situation)),
    (r"(?:do you (?:know|remember) )?where (?:do )?i live",
     _said_of(rf"\bi (?:live|am living) in ([^.,!?]+?){_END}", "live in", "I do not know where you live.")),
    (r"(?:do you (?:know|remember) )?where (?:do i come|am i|i am|i come) from",
     _said_of(rf"\bi (?:am|come|am come|came|am coming) (?:originally )?from ([^.,!?]+?){_END}", "are from",
              "I do not know where you are from.")),
    (r"what (?:do i do|is my (?:job|profession))(?: for (?:a living|work))?|what do i work(?: as)?", _job),
    (r"(?:do you (?:know|remember) )?(?:guess )?how old (?:am i|i am|(?:did|have) i (?:say|said|tell"
     r"|told)(?: you)?"
     r"(?: that)? i (?:am|was))|(?:what is|guess) my age", _age),
    (r"how old (?:is|are|would be|am|would|will) (?:i|someone|somebody|a person|people|a (?:man|woman|child)"
     r"|the person)(?: be)?(?: now| today)?(?: (?:if|when|who) (?:i|he|she|they) (?:was|were)| (?:who|that)"
     r" (?:is|are|was|were))? born in (?P<year>\d{4})", _age_of_year),
    (r"how old (?:will|would) i be in (?P<years>\d{1,2}) years?", _age_in_years),
    (r"who am i|what do you know about me|do you know (?:me|who i am)",
     lambda _, situation: _fact_of("name", situation)),
    (r"what (?:did i|was the thing i|have i) (?:ask(?:ed)?|say|said|tell|told)(?: you)? (?:at )?(?:first"
     r"|in the beginning)|what was my first question", lambda _, situation: _quoted(situation.said[:1])),
    (r"what (?:did|have) i (?:just )?(?:say|said|ask(?:ed)?|tell)(?: you)?(?: last| before(?: that)?| just"
     r" now)?|what was my (?:last |previous )?question(?: before that)?|(?:what )?before that", _last_said),
)  # fmt: skip
