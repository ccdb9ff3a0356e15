"""Rules that are tried last: what nothing else answers, and the language model would answer as a person."""

import re
from collections.abc import Iterator
from datetime import datetime

from antiphon.inference_worker.engines.local.rules.arithmetic import answer_sum
from antiphon.inference_worker.engines.local.rules.clock import answer_clock
from antiphon.inference_worker.engines.local.rules.dates import answer_date
from antiphon.inference_worker.engines.local.rules.follow_up import whole_question
from antiphon.inference_worker.engines.local.rules.knowledge import answer_knowledge
from antiphon.inference_worker.engines.local.rules.situation import Answer, Situation, fixed
from antiphon.inference_worker.engines.local.rules.stock import FACTS
from antiphon.inference_worker.engines.local.rules.table import (
    LIMITS,
    NO_LIFE,
    ONLY_TALK,
    of_itself,
)
from antiphon.inference_worker.engines.local.rules.text import peeled, plain
from antiphon.inference_worker.engines.local.rules.units import answer_conversion

_KNOWS = (
    r"(?:know|think|mean|understand|remember|hear|heard|see|(?:want|like) to|recommend|suggest|tell|say|explain"
    r"|give|help"
    r"|want me|have (?:a|an|any|some) (?:idea|tip|suggestion|advice|example|recipe|question|joke|fact)"
    r"|make mistakes|sure|certain|good at|listening|hearing|calculate|do (?:math|maths|sums)|answer"
    r"|have (?:information|knowledge|\d)|translate|write|accurate|reliable|get|catch|done|finished"
    r"|kidding|joking|free|cost|use|count|wrong|have (?:another|more|a (?:minute"
    r"|second))"
    r"|please|mind|ready|there|able|agree|believe|need)"
)
"""What it may know, or do in words: for the language model."""

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


def _proposes_another(found: re.Match[str], situation: Situation) -> str | None:
    """ "Isn't it Sydney?": the answer again, if a rule is sure of it."""
    if not (_is_sure(found, situation) or "").startswith("Yes"):
        return None
    is_it = set(found["other"].split()) <= set(plain(situation.previous).split())
    return f"{'Yes' if is_it else 'No'}. {situation.previous}"


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
    (rf"(?:do|did|have|had|were|are|will|would) you (?:not )?(?!{_KNOWS}s?\b).+"
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
     r" (?:is|are|was) (?:better|nicer|cooler|prettier)\b.* (?:or|and) .+"
     r"|(?:is|are) [a-z0-9' ]+ better than [a-z0-9' ]+",
     of_itself("I am a program, so I have no opinion. What do you think?")),
    (r"(?:do you think (?:that )?|will |would )(?:i|he|she|we|my \w+) [a-z].*|should i [a-z].*"
     r"|what (?:should|shall|can|do) i (?:do|say)(?: now| then| next| about (?:it|this|that|him|her|them))?",
     fixed("I cannot know that, and I cannot decide it for you. What do you think yourself?")),
)  # fmt: skip

LAST_ROWS = tuple((re.compile(pattern), answer) for pattern, answer in _ROWS)
