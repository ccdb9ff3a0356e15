"""Rules that are tried last: what nothing else answers, and the language model would answer as a person."""

import re
from collections.abc import Iterator
from datetime import datetime

from antiphon.inference_worker.engines.local.reference.dictionary import EntryKind, dictionary
from antiphon.inference_worker.engines.local.reference.facts import fact
from antiphon.inference_worker.engines.local.reference.offices import holders
from antiphon.inference_worker.engines.local.rules.about_itself import (
    LIMITS,
    NO_LIFE,
    ONLY_TALK,
    capabilities,
    of_itself,
)
from antiphon.inference_worker.engines.local.rules.facts_and_jokes import FACTS
from antiphon.inference_worker.engines.local.rules.follow_up import whole_question
from antiphon.inference_worker.engines.local.rules.knowledge import answer_knowledge
from antiphon.inference_worker.engines.local.rules.quantities.arithmetic import answer_sum
from antiphon.inference_worker.engines.local.rules.quantities.clock import answer_clock
from antiphon.inference_worker.engines.local.rules.quantities.dates import answer_date
from antiphon.inference_worker.engines.local.rules.quantities.units import answer_conversion
from antiphon.inference_worker.engines.local.rules.sight import SIGHT_FALLBACKS
from antiphon.inference_worker.engines.local.rules.situation import Answer, Situation, fixed
from antiphon.inference_worker.engines.local.rules.text import peeled, plain

_OFTEN = r"(?:(?:not|ever|really|always|often|sometimes|usually|also|just|still|already|even) )*"
_RELATIVE = (
    r"(?:family|mother|mom|mum|father|dad|parents|brother|sister|sibling|child|children|kid|baby|son"
    r"|daughter|wife"
    r"|husband|girlfriend|boyfriend|partner|friend|pet|dog|cat)s?"
)
_OWN = (
    rf"(?:{_RELATIVE}|house|home|car|job|boss|body|face|eyes|hands|legs|heart|brain|soul"
    rf"|emotions?|feelings?|hair"
    r"|birthday|hobby|hobbies|dreams?|plans?|money|salary|life|secrets?|fears?|religion|gender|book|music"
    r"|holiday"
    r"|vacation|breakfast|lunch|dinner|day|weekend|evening|night|fun)"
)
_STATE = (
    r"(?:happy|sad|angry|mad|tired|hungry|thirsty|lonely|bored|afraid|scared|jealous|sick|ill|cold|hot"
    r"|married|single"
    r"|gay|straight|religious|in love|born|asleep|awake|drunk|old|young|tall|pretty|beautiful|handsome"
    r"|nervous|excited"
    r"|proud|shy|hurt|offended|upset|annoyed|vegetarian|vegan|rich|poor|sentient|self-aware|busy|at (?:home"
    r"|work)"
    r"|on holiday|having fun|working (?:today|tonight|tomorrow|on [a-z]+day)|male|female|from [a-z]+)"
)
_LIVES = (
    r"(?:sle(?:ep|pt)|dream|eat(?:en)?|drink|feel|love|hate|like|enjoy|want|miss|breathe|suffer|cry|laugh|smile"
    rf"|get {_STATE}|go (?:to|out|on|home|shopping|swimming)|live|grow up|grown up|travel|exercise|cook"
    rf"|drive|swim"
    r"|dance|pray|believe in|smoke|wear|marry|die|bleed|watch|read(?! (?:my|this|out|the text)\b)|listen to"
    r"|visit"
    r"|play|prefer|kiss|hug|relax|wake up|get up|be my|be human|seen|been (?:to|in|there|married)|met|tried"
    r"|work(?: (?:hard|here|alone|weekends|nights|today|tomorrow|a lot|at night))?$)"
)
"""What people do, feel and have. Other questions with "you" are for the language model."""

_DANGER = "I make mistakes, and this matters. Please ask somebody who knows it."


def _has_happened(_: re.Match[str], situation: Situation) -> str | None:
    if situation.previous != _DANGER:
        return None
    return "If it can do harm, call the emergency number or a doctor now. I cannot judge it."


def _by_clock(text: str, now: datetime) -> Iterator[str]:
    return filter(None, (answer_clock(text, now), answer_date(text, now)))


def _without_digits(text: str) -> str:
    """The minutes since then change the answer."""
    return re.sub(r"\d", "", text)


_UNSURE = "No. My language model is very small and makes mistakes, so check what matters."


def _is_sure(_: re.Match[str], situation: Situation) -> str | None:
    """Of what a rule calculated or knows, but not of what the language model said."""
    previous = situation.previous
    if previous in FACTS:
        return "Yes, that is true."
    *earlier, last = situation.said or ("",)
    question = whole_question(last, earlier)
    if situation.small_talk and previous == answer_knowledge(question, earlier):
        return "Yes, I looked that up."
    asked = plain(question)
    sum_ = plain(re.split(r" (?:is|are) ", previous)[0])
    if previous.startswith(LIMITS):
        return "Yes, I am sure."
    if answer_sum(sum_) == previous or previous in map(answer_conversion, peeled(asked)):
        return "Yes, I calculated that."
    calendar = (answer for form in peeled(asked) for answer in _by_clock(form, situation.now))
    if _without_digits(previous) in map(_without_digits, calendar):
        return "Yes, by the clock of this computer."
    return None if situation.persona else _UNSURE


def _has_invented(found: re.Match[str], situation: Situation) -> str | None:
    sure = _is_sure(found, situation) or ""
    if sure.startswith("Yes"):
        return f"No{sure.removeprefix('Yes')}"
    return sure.removeprefix("No. ") or None


def _what_it_does(found: re.Match[str], situation: Situation) -> str | None:
    if situation.persona:
        return None
    plays = re.search(r"\b(?:games?|quiz|quizzes|riddles?|trivia|puzzles?)\b", found[0])
    return _GAMES if plays else capabilities(found, situation)


_GAMES = "I can play a quiz, riddles, and rock, paper, scissors. Say: quiz me."


def _proposes_another(found: re.Match[str], situation: Situation) -> str | None:
    """ "Isn't it Sydney?": the answer again, if a rule is sure of it."""
    if not (_is_sure(found, situation) or "").startswith("Yes"):
        return None
    is_it = set(found["other"].split()) <= set(plain(situation.previous).split())
    return f"{'Yes' if is_it else 'No'}. {situation.previous}"


_TAG = (
    r"(?:right|correct|true|yes|am i right|is that (?:right|correct|true)"
    r"|(?:is|are|was|were|does|do|did|has|have) (?:not (?:it|he|she|they)|(?:it|he|she|they) not))"
)
_CLAIMS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?P<claim>.+) {_TAG}",
        r"is it (?:true|right|correct) that (?P<claim>.+)",
        r"(?:is|was|are|were|did)(?: not)?(?: it)? (?P<claim>.+)",
    )
)
_MADE = {"write": "wrote", "paint": "painted", "invent": "invented", "discover": "discovered",
         "compose": "composed"}  # fmt: skip
_NAMES_MAKER = re.compile(
    rf"(?P<other>.+?) (?P<verb>{'|'.join([*_MADE, *_MADE.values()])}) (?P<asked>.+)"
)
_NAMES_YEAR = re.compile(
    r"(?P<asked>.+?) (?:(?P<verb>begin|start|end|sink|die|happen)|began|(?:start|end|happen)ed|sank|died"
    r"|(?:was )?(?P<made>built|born|invented|founded|discovered))(?: in| on) (?P<year>.*\b\d{3,4})"
)
_IRREGULAR = {"began": "begin", "sank": "sink", "died": "die"}
_IN_PLACE = re.compile(r"(?P<other>[a-z' -]+?)(?: is| are)? in (?P<place>[a-z ]+)")
_NAMES_THING = (
    re.compile(r"(?P<other>.+?)(?: that)?(?: is| was| are)? (?P<asked>the .+)"),
    re.compile(r"(?P<asked>the .+?) (?:is|was|are|would be) (?P<other>.+)"),
    re.compile(r"(?P<other>.+?) (?:is |was )?(?P<owner>[a-z ]+)'s (?P<what>[a-z ]+)"),
)


_PRONOUN = re.compile(r"(?:it|that|this|he|she|they|there|here|you|i|we|what|who|which)\b")


def _checks(found: re.Match[str], _: Situation) -> str | None:
    """ "Is Bern the capital of Italy?", "Rome is in Italy, isn't it?": the fact, after "Yes." or "No."."""
    claims = (claim["claim"] for form in _CLAIMS if (claim := form.fullmatch(found[0])))
    return next(filter(None, map(_checked, claims)), None)


def _checked(claim: str) -> str | None:
    if (made := _NAMES_MAKER.fullmatch(claim)) and (
        known := fact(f"who {_MADE.get(made['verb'], made['verb'])} {made['asked']}")
    ):
        return _judged(known, made["other"], made["asked"])
    for form in _NAMES_THING:
        named = form.fullmatch(claim)
        if named and not _PRONOUN.match(named["other"]):
            asked = named.groupdict().get("asked") or f"the {named['what']} of {named['owner']}"
            if known := fact(f"what is {asked}"):
                return _judged(known, named["other"], asked)
    if dated := _NAMES_YEAR.fullmatch(claim):
        return _dated(dated)
    if (lies := _IN_PLACE.fullmatch(claim)) and EntryKind.PLACE in dictionary().find(lies["place"]):
        known = answer_knowledge(f"Where is {lies['other'].title()}?")
        is_there = known and set(lies["place"].split()) <= set(plain(known).split())
        return f"Yes. {known}" if is_there else known
    return fact(claim)


def _dated(claim: re.Match[str]) -> str | None:
    verb = claim["verb"] or claim["made"]
    if verb is None:
        past = claim[0][claim.end("asked") + 1 :].split()[0]
        verb = _IRREGULAR.get(past, past.removesuffix("ed"))
    known = fact(f"when {claim['asked']} {verb}")
    year = claim["year"].split()[-1]
    years = re.findall(r"\b\d{3,4}\b", known or "")
    return f"{'Yes' if year in years else 'No'}. {known}" if len(years) == 1 else known


_PARTS_OF_FACT = re.compile(
    r"(?P<subject>.+?) (?:is|are|was|were|wrote|painted|invented|discovered|composed) (?P<rest>[^,;.]+)"
)


def _words(text: str) -> set[str]:
    return set(plain(text).replace("'s", "").split()) - {"the", "a", "an", "of"}


def _judged(known: str, other: str, asked: str) -> str:
    """The fact `known`, with "Yes." or "No." if it says that `asked` is, or is not, `other`."""
    parts = _PARTS_OF_FACT.match(known)
    if parts is None:
        return known
    said = parts["rest"] if _words(asked) <= _words(parts["subject"]) else parts["subject"]
    if _words(other) <= _words(said):
        return f"Yes. {known}"
    return known if _words(other) & _words(known) else f"No. {known}"


def _of_another(found: re.Match[str], _: Situation) -> str | None:
    """ "And a banana, is that a berry?"."""
    rest = re.sub(r"^(?:still|really|also|actually) ", "", found["rest"])
    return fact(f"is {found['other']} {rest}")


_WARS = (
    (re.compile(r"\b(?:first world war|world war 1|ww1)\b"), (1914, 1918)),
    (re.compile(r"\b(?:second world war|world war 2|ww2)\b"), (1939, 1945)),
)
_YEAR = re.compile(r"\b1[0-9]\d\d\b|\b20\d\d\b")


def _held_office(found: re.Match[str], situation: Situation) -> str | None:
    groups = found.groupdict()
    when = groups.get("year") or groups.get("when") or ""
    is_then = re.fullmatch("(?:back )?then|at (?:the|that) time|in those days", when)
    years = list(map(int, _YEAR.findall(situation.previous if is_then else when)))
    years += [year for war, both in _WARS if war.search(when) for year in both]
    if not years and not is_then:
        return None
    place = f" of {found['place']}" if found["place"] else ""
    known = holders(f"{found['office']}{place}", min(years), max(years)) if years else None
    return known or "I do not know for certain who that was."


_OFFICE = (
    r"who was (?:the )?(?P<office>(?:[a-z]+ )?(?:president|prime minister|chancellor|king|queen|monarch"
    r"|emperor|pope"
    r"|mayor|governor))(?: of (?:the )?(?P<place>[a-z ]+?))?"
)

_ROWS: tuple[tuple[str, Answer], ...] = (
    (r"(?!(?:can|could|should) (?:i|we)\b)(?!.*\b(?:fridge|freezer|money|job|marriage|planet|home|humps?)\b)"
     r"(?:is|are|am|do|does|will|can|who) .*(?:\b(?:record|stor|sav)(?:e|ing)? (?:this|me|us|our|my|it|what)\b"
     r"|\bkeep(?:ing)? (?:(?:a )?recordings?|(?:my|our|this|the) (?:\w+ )?(?:data|voice|words"
     r"|conversations?|calls?|chats?)|what|(?:an? |my )?secrets?)\b|\b(?:my|this|our|i"
     r"|we)\b.* (?:recorded|stored|saved|private|sent|shared|sold|uploaded|collected"
     r"|kept|secure|confidential|encrypted)"
     r"|\b(?:send|share|sell|upload|collect|store)(?:s|ing)? (?:my|our|any|this)(?: \w+)? (?:data|voice|words"
     r"|conversations?|calls?|information|recordings?)\b"
     r"|\brecording$|\bspy|\blistening to (?:me|us|our|my) ).*"
     r"|(?:who|(?:is|does|do|can|could|are) (?:(?:any|some)(?:body|one)|(?:other )?people"
     r"|humans?))\b.*\b(?:listen"
     r"|hear|read|see|access|watch)(?:s|es|ing)?(?: in| to)*(?: (?:us|me|(?:this|our|my)(?: (?:call|chat"
     r"|conversation|voice|data|words|messages?))?|what (?:i|we) (?:say|said)))?(?: now| right now| too)*"
     r"|(?:what happens (?:to|with)|what do .+ do with|where (?:is|are|do(?:es)?)) my (?:voice|data|words"
     r"|messages?|recordings?|conversations?|information)\b.*",
     fixed("This conversation may be recorded. Who runs this service decides that, so ask there.")),
    (r"are you (?:very |quite |really |absolutely )?(?:sure|certain)(?: (?:about|that|it) .*)?|(?:oh )?really"
     r"|is that so|seriously|(?:is|was) (?:that|it|this) (?:true|right|correct|a true story)", _is_sure),
    (r"(?:is not (?:it|that)|is it not|is it really|(?:but )?i thought (?:it|that) (?:was|is))"
     r" (?P<other>[a-z0-9' -]+)", _proposes_another),
    (r"do you (?:ever |often )?make mistakes|are you (?:always |ever )?(?:right|accurate|reliable|correct)",
     of_itself(_UNSURE.removeprefix("No. "))),
    (r"are you (?:better|smarter|faster|more intelligent|cleverer|as (?:good|smart))(?: than| as) .+",
     of_itself(_UNSURE)),
    (r"(?:can|could|do|will|would) you (?:not )?(?:dance|(?:cook|wash|drive|fly|swim)(?!.* (?:in|with|on"
     r"|before|after|without) )|walk(?! (?:me|us) through)"
     r"|run(?! (?:that|this|it) by)|jump|smell|taste|hug|kiss"
     r"|clean|repair|bring(?! up)|meet|visit|download|install|post|pay|print|paint|buy"
     r"|go (?:online|out|shopping|to(?! (?:the|an?) (?:next|previous|last|other|different)))|whistle"
     r"|laugh|cry|hack"
     r"|watch)\b.*"
     r"|(?:please )?(?:open(?! source)|download|install|print|draw|post(?! office)|go to(?! (?:sleep|bed"
     r"|the next))) .+",
     of_itself(f"I cannot do that. {ONLY_TALK}")),
    (r"(?:do|did|will|can|would) you (?:still |ever )?(?:know me|(?:remember|recogni[sz]e) (?:me|us"
     r"|our (?:last|previous)|this later|.*\b(?:yesterday|tomorrow|(?:last|next) (?:time|week|month)))\b).*"
     r"|(?:have|did) we (?:ever )?(?:talk(?:ed)?|met|meet|spoken|speak|chat(?:ted)?)(?: (?:before|already"
     r"|yesterday|last|ever|once)\b.*)?|what did (?:we|i) .*\b(?:yesterday|last (?:time|week|month))",
     fixed("I remember only this conversation.")),
    (r"(?:is it|are they|is [a-z ]+) (?:safe|dangerous|harmful|poisonous|toxic|unhealthy) (?:for .+ )?to .+"
     r"|(?:can|should|may|could) (?:i|we|you(?= (?:safely )?(?:eat|drink|swallow) \w)|my \w+"
     r"|(?:an? )?(?:dogs?|cats?|child(?:ren)?|bab(?:y|ies)"
     r"|people)) (?:safely )?"
     r"(?:(?:eat|drink|swallow)\b|take .*\b(?:pills?|tablets?|aspirin|ibuprofen|paracetamol|medicine"
     r"|medication)\b).*",
     fixed(_DANGER)),
    (r"(?:but |well )?(?:i|we|he|she|it|they|my \w+) (?:have |has )?(?:did|done|drank|drunk|ate|eaten|swallowed"
     r"|took|taken|mixed|breathed|inhaled|used)\b.*", _has_happened),
    (r"(?:should|must|shall) (?:i|we|he|she|my \w+) (?:call|get|phone) (?:an?|the) (?:ambulance|emergency .*)"
     r"|(?:should|must|shall) (?:i|we|he|she|my \w+) go to (?:an?|the) (?:hospital|emergency room)(?: .*)?",
     fixed("If you are worried, yes. Call the emergency number yourself, because I cannot make calls.")),
    (r"(?:should|must|shall) (?:i|we|he|she|my \w+) (?:go to|see|call|visit|ask|take (?:him|her|it|them"
     r"|my \w+) to) (?:an?|the|my) (?P<who>doctor|vet|dentist)(?: .*)?",
     lambda found, _: f"If you are worried, yes. I cannot judge that, and a {found['who']} can."),
    (rf"(?:did|do|have|were|are) you {_OFTEN}(?:make (?:that|it|this|things|all that|stuff|them) up"
     r"|making (?:that|it|this) up|made (?:that|it) up|right about (?:that|it|this)|lying(?: to me)?)"
     rf"|(?:would|do|did|will) you {_OFTEN}lie(?: to me)?", _has_invented),
    (r"are you (?:(?:very|really|any|so) )*good (?:with|at) .+"
     r"|do you (?:do|handle|cover|support|teach|offer|provide) (?!the\b|what\b|it\b|this\b|that\b"
     r"|all\b).+", _what_it_does),
    (r"(?:are you (?:ok|fine|all right) with|do you mind) (?:me|if|my|when|that)\b.*",
     fixed("I do not mind. What would you like to know?")),
    (r"(?:do you have|have you got|what is|can i have|give me) (?:an?|your|any|the)? ?"
     r"(?:phone|telephone|mobile|cell|contact)(?: phone)? number|(?:do you have|have you got) (?:an?|any)"
     r" (?:e-?mail(?: address)?|website|address)",
     of_itself("I have no telephone number and no address. You can only talk with me here.")),
    (r"would you rather .+", of_itself("I am a program, so I have no opinion. What do you think?")),
    (rf"(?:do|did|have|had|were|are|will|would) you {_OFTEN}"
     rf"(?!(?:want|like|love|hope|need|prefer|feel like) (?:me )?(?:to|that|it if|if)\b)(?:{_LIVES}\b.*"
     rf"|{_STATE}\b.*"
     rf"|(?:have |got |own )+(?:(?:an?|any|your|the|some|many|lots of|nice|good|great|real|own|best|new"
     rf"|1) )*{_OWN}"
     r"(?: .*)?)"
     r"|have you ever (?!heard|wondered|thought|considered|noticed|made|told|read (?:my|this|out)).+"
     r"|can you (?:be my .*|(?:feel|love|eat|sleep|dream|enjoy)(?: (?:me|it|anything|pain|things|food|love))?)"
     r"|(?:what|how|where|when|who) (?:do|did|are|were|have|would) you (?:look|looking|wear|wearing|doing"
     r"|do all day|eat|eating|born|grow up|sleep|feel|feeling|like|love|married|sound)\b(?! (?:to|for"
     r"|with|better|well|in|at|when)\b).*",
     of_itself(NO_LIFE)),
    (r"is it (?:ever |really )?(?:ok|wrong|right|rude|moral|immoral|ethical|unethical|fair|unfair|a sin"
     r"|selfish) (?:to|if|when) .+"
     r"|(?:what|which|who) (?:is|was) the (?:best|greatest|nicest|funniest|most (?:beautiful|interesting"
     r"|talented)) (?!(?:way|time|method|place|thing|treatment|medicine|remedy"
     r"|part|selling|known)\b)[a-z]+(?: [a-z]+){0,2}(?: (?:ever|of all time|in the world|alive|in history))*",
     of_itself("I am a program, so I have no opinion. What do you think?")),
    (r"(?:which|what|who)(?: (?:team|club|band|player|singer|actor|city|country|car|phone|brand|language|1))?"
     r" (?:is|are|was) (?:better|nicer|cooler|prettier|smarter|cuter|funnier|tastier)\b.* (?:or|and) .+"
     r"|(?:is|are) [a-z0-9' ]+ better than [a-z0-9' ]+"
     r"|(?:is|was) (?:it|that|this|he|she) an? (?:really |very )?(?:good|great|nice|bad) (?:book|film|movie"
     r"|song|album|band|singer|writer|author|actor|actress|show|series|game)",
     of_itself("I am a program, so I have no opinion. What do you think?")),
    (r"(?:do you think (?:that )?|will |would )(?:i|he|she|we|my \w+) [a-z].*|should i [a-z].*"
     r"|what (?:should|shall|can|do) i (?:do|say)(?: now| then| next| about (?:it|this|that|him|her|them))?",
     fixed("I cannot know that, and I cannot decide it for you. What do you think yourself?")),
    (rf"{_OFFICE} (?P<when>(?:back )?then|at (?:the|that) time|in those days|(?:in|during|around|of) .+)",
     _held_office),
    (rf"in (?P<year>\d{{4}}) {_OFFICE}", _held_office),
    (r"(?:(?:and|so|but|what about|how about) )*(?P<other>(?:an? |the )?[a-z]+(?: [a-z]+)?)"
     r" (?:is|are) (?:that|it|they|those) (?P<rest>[a-z ]+)", _of_another),
    (r".+", _checks),
    *SIGHT_FALLBACKS,
)  # fmt: skip

FALLBACKS = tuple((re.compile(pattern), answer) for pattern, answer in _ROWS)
