"""Reactions to what users tell of their lives, if no other rule has one.

A model of this size praises a loss and asks the bereaved for their son's name. What may be dangerous gets
whom to call, rather once too often.
"""

import re

from antiphon.inference_worker.engines.local.rules.about_itself import CRISIS
from antiphon.inference_worker.engines.local.rules.after_statement import asks_within
from antiphon.inference_worker.engines.local.rules.ideas import IDEA_TEXTS
from antiphon.inference_worker.engines.local.rules.situation import Situation
from antiphon.inference_worker.engines.local.rules.small_talk import CONDOLENCE
from antiphon.inference_worker.engines.local.rules.text import ASKS, peeled, plain

_TO_WHAT_IS = (
    "I see. Tell me more about it.",
    "I understand. Please go on.",
    "Thank you for telling me. What else should I know?",
)
_TO_WHAT_WAS = (
    "I see. What happened then?",
    "I understand. How did you feel about that?",
    "I see. Tell me more about it.",
)
_TO_MISFORTUNE = (
    "I am sorry to hear that. Do you want to tell me more?",
    "That is a pity. What are you going to do now?",
    "Oh no. How did that happen?",
)
_TO_LUCK = (
    "That is great! Tell me more about it.",
    "How nice! How do you feel about it?",
    "I am glad for you. What comes next?",
)
_TO_WISHES = "I see. How can I help you with that?"
_TO_GRIEF = (
    "That must be hard. I am listening.",
    "I understand that this hurts. Tell me more, if you like.",
    "It is all right to be sad. I am here.",
)
REACTIONS = frozenset((*_TO_WHAT_IS, *_TO_WHAT_WAS, *_TO_MISFORTUNE, *_TO_LUCK, _TO_WISHES))

DANGER = "That sounds serious. If anybody is in danger, call the emergency number now. I am only a program."
_SORRY = "I am very sorry to hear that. Do you want to talk about it?"

_DESPAIRS = re.compile(
    r".*\b(?:end(?:ing)? it all|want to be here any ?more|hate my life|(?:cut|cutting) myself|self harm"
    r"|(?:no reason|nothing left) to live(?: for)?|better off dead|cannot go on(?: any ?more| like this)?)\b.*"
)
_IS_IN_DANGER = re.compile(
    r"(?!.*\b(?:movie|film|book|game|story|series|show|dream(?:ed|t)?|song|news|play(?:ed|ing)?"
    r"|killing (?:me|it|time)|nose)\b)(?=.*\b(?:i|me|my|we|us|our|someone|somebody|there)\b)"
    r".*\b(?:kill(?:s|ed|ing)?|murder(?:s|ed|er)?|rap(?:e|ed|ing)|abus(?:e|es|ed|ing|ive)|guns?|bombs?|weapons?"
    r"|(?:hits?|beats?|hurts?|punch(?:es|ed)|chok(?:es|ed)|stab(?:s|bed)|shot|threaten(?:s|ed)|attack(?:s"
    r"|ed)|stalk(?:s|ed)"
    r"|following) (?:me|us|him|them|my|our|his)"
    r"|(?:am|is|are|was|were) (?:being )?(?:attacked|threatened|stalked|followed|beaten|stabbed|shot)"
    r"|with a knife|on fire|(?:drank|swallowed|mixed) (?:\w+ )*bleach|poisoned|overdos(?:e|ed)|pills|tablets"
    r"|swallow(?:s|ed)|(?:cannot|not) (?:breathe|breathing|get up|wake up)|unconscious|fainted|passed out"
    r"|bleed(?:s|ing)?|(?:car|bike|bad|traffic) accident|broke into|intruder|burglar|drown(?:s|ed|ing)?)\b.*"
)
_IS_ILL = re.compile(
    r"(?:i|he|she|my [a-z]+)(?: just)? (?:have|has|was diagnosed with|am diagnosed with) .*"
    r"\b(?:cancer|dementia|alzheimer|leuk(?:a)?emia|tumou?r|hiv|aids|depression|parkinson)\b.*"
)

_PERSONAL = re.compile(r"\b(?:i|me|my|mine|we|us|our)\b")
_STATES = re.compile(
    r"(?:i|we|he|she|they|it|there|my|our|his|her|their|mine|the|this|that|these|those|sometimes|yesterday"
    r"|today"
    r"|last)\b.+"
)
_PAST = re.compile(
    r"\b(?!need|feed|bleed|speed|wed|bed|red)\w{2,}ed\b"
    r"|\b(?:was|were|had|did|went|(?<!have )got|took|came|said|told|gave|made|saw|found|lost|left|broke"
    r"|fell|met|bought|stole|fought|forgot|ate|drank|ran|sold|wrote|won|felt|thought)\b"
)
_HAPPENED = r"^(?!.*\b(?:not(?! work)|never|nearly|almost)\b).*"
_MISFORTUNE = re.compile(
    rf"{_HAPPENED}\b(?:broken?|split up|cancell?ed|missed|st[oa]len?|crashed|fired|laid off|failed|robbed"
    r"|delayed|ruined|burn(?:ed|t) down|lost (?:my|our|his|her|the|a)|cannot find|hurts?|not working"
    r"|(?:is|am|are|got|getting) (?:sick|ill)|does not work|divorced?)\b"
)
_LUCK = re.compile(
    rf"{_HAPPENED}\b(?:adopted|promoted|engaged|won|graduated|had a baby"
    r"|passed (?:my|the|our|his|her)|new (?:job|baby|home|house|puppy)"
    r"|got (?:the|a|my) (?:\w+ )?(?:job|raise|place|house|flat|puppy|kitten))\b"
)
_WISHES = re.compile(r"(?:i|we) (?:need|want|would like|am trying|are trying|am looking for)\b.+")
_FOR_THE_MODEL = re.compile(
    r".*\b(?:i (?:want|need|would like) (?:you|to (?:know|hear|learn|ask|talk|see|play|stop|change))"
    r"|i (?:think|mean|said|prefer)|(?:do|did|does) not (?:understand|know|get|hear|believe|want|like|think)"
    r"|meant|asked|not ask|(?:my|the) question|you|your|(?:have|got) to go|go now|(?:first|second|other"
    r"|last) 1|not [a-z]+$)\b.*"
)
"""Questions, corrections and opinions in the form of a statement."""

_LEAST_WORDS = 4


def listen(question: str, situation: Situation) -> str | None:
    """The reaction to statements about the user's life; None for everything else."""
    text = plain(question)
    if not text or "?" in question or not situation.small_talk:
        return None
    serious = ((_DESPAIRS, CRISIS), (_IS_IN_DANGER, DANGER), (_IS_ILL, _SORRY))
    for pattern, reaction in serious if not ASKS.match(text) else ():
        if pattern.fullmatch(text):
            return reaction
    if situation.persona or re.match(r"(?:no|nope|sorry)\b", text):
        return None
    *_, text = peeled(text)
    if (
        ASKS.match(text)
        or asks_within(text)
        or not _STATES.fullmatch(text)
        or _FOR_THE_MODEL.fullmatch(text)
    ):
        return None
    grieves = situation.previous.startswith(CONDOLENCE) or situation.previous in _TO_GRIEF
    if grieves and not _WISHES.fullmatch(text):
        return _one_of(_TO_GRIEF, situation)
    goes_on = situation.previous in REACTIONS or situation.previous in IDEA_TEXTS
    if len(text.split()) < _LEAST_WORDS or not (_PERSONAL.search(text) or goes_on):
        return None
    if _WISHES.fullmatch(text) and not goes_on:
        return _TO_WISHES
    kinds = ((_LUCK, _TO_LUCK), (_MISFORTUNE, _TO_MISFORTUNE), (_PAST, _TO_WHAT_WAS))
    kind = next((reactions for pattern, reactions in kinds if pattern.search(text)), _TO_WHAT_IS)
    return _one_of(kind, situation)


def _one_of(reactions: tuple[str, ...], situation: Situation) -> str:
    """Another one than the last."""
    return next(
        one
        for turn in range(len(reactions))
        if (one := reactions[(len(situation.said) + turn) % len(reactions)]) != situation.previous
    )
