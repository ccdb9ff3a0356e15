"""Greetings, goodbyes and thanks, in the words that people use every day."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.rules.situation import Answer, fixed
from antiphon.inference_worker.engines.local.rules.text import PLEASE

WELCOME = "You are welcome."
FAREWELL = "Goodbye! It was nice to talk with you."
_GOES = "All right. Say goodbye to end the call."


def _greeting(found: re.Match[str], _: object) -> str:
    part = re.search(r"good (morning|afternoon|evening)", found[0])
    return f"{part[0].capitalize() if part else 'Hello'}! How can I help you?"


_BEFORE_BYE = (
    "(?:ok|okay|well|alright|that is all|i (?:will )?(?:have to|must|should|need to) go(?: now)?+"
    "|thank you|thanks|great|nice talking to you)"
)
_BYE = (
    r"(?:good ?bye|bye(?: bye|-bye)?|see you|see"
    r" you (?:later|soon|tomorrow)|good ?night"
    r"|(?:talk to|catch) you (?:later|soon)|see ya|farewell|have a (?:nice|good|great) (?:day|evening|night"
    r"|1)|take care)(?: (?:then|now|for now|antiphon|and thank you|thank you|bye|later"
    r"|soon))*"
)

_INTERJECTION = (
    r"(?:ok|cool|right|well|alright|all right|great|lovely|perfect|brilliant|good|fine|oh|anyway|so|then|no|yes"
    r"|thanks|thank you|cheers|bye|goodbye|night|and)"
)
_PARTING = (
    rf"(?:{_INTERJECTION}|nice|so|much|very|for|now|today|that|this|the|chat|help|is|everything|all|it|i|we|am|are"
    r"|off|will|would|have|must|should|had|better|to|get|going|go|run|leave|head|bed|let|you|until|was|talking"
    r"|speaking|really|appreciate|mate|with|then)"
)
"""Only with such words before it, a goodbye is not in the words of somebody else."""

_ASKS = r"(?!(?:what|who|how|when|where|why|can|could|do|does|did|will|would|is|are|shall|should|was|may)\b)"
_LATER = (
    r"(?:later|soon|tomorrow|around|tonight|in the morning|again|another time|in a (?:bit|while)|then"
    r"|(?:next|this) (?:week|month|year|time|weekend|[a-z]+day)|on (?:the )?(?:weekend|[a-z]+day))"
)
_TO_SOMEBODY = (
    r"(?: (?:mate|alligator|dear|everyone|all|now|then|for now|antiphon|thanks|thank you|bye))*"
)
_GOODBYES = (
    rf"{_ASKS}(?:{_PARTING} ){{0,12}}?(?:(?:talk to|speak to|chat to|see|catch) you(?: all| guys)?"
    rf"(?: {_LATER})+"
    r"|(?:(?:good ?night|night night|nighty night|sleep tight|sweet dreams)(?: and)?(?: |$))+"
    rf"|ciao|cheerio|(?:good ?bye|bye(?: bye)?)(?: for now)?(?: take care(?: of yourself)?)?){_TO_SOMEBODY}",
    rf"(?:{_INTERJECTION} )*(?:so long|until (?:the )?next time|till next time|toodle ?(?:oo|pip)"
    r"|have a (?:nice|good|great|lovely|wonderful|pleasant) (?:day|evening|night|afternoon|weekend|week|time|1)"
    rf"|all the best|take care(?: of yourself)?){_TO_SOMEBODY}",
)

_A_LOT = (
    r"(?: (?:so|very) much| (?:a )?1000000| a (?:lot|bunch|ton)| again| for (?:today|now)| antiphon| sir| man"
    r"| (?:my )?(?:mate|friend|dear|buddy|love))*"
)
_THANK = rf"(?:many )?(?:thanks|thank you|cheers){_A_LOT}"
_PRAISED = (
    r"(?:(?:very|so|really|quite|most|super) )*(?:helpful|kind|nice|useful|great|good|perfect|lovely|brilliant"
    r"|wonderful|awesome|amazing|fantastic|interesting|sweet|excellent|clear|fun)(?: of you| to know)?"
)
_ALL = (
    r"(?:all|everything|it|enough)(?: (?:for (?:today|now)|i (?:need|needed|wanted)(?: to know)?))*"
)
_PRAISES = (
    rf"(?:(?:(?:that|this|it) (?:is|was)|(?:they|those) (?:are|were)|you (?:were|have been)) {_PRAISED}"
    rf"|that (?:is|was|will be) {_ALL}|i (?:really |do )?appreciate (?:it|that|this|your help))"
)
_THANKS = (
    rf"(?:{_INTERJECTION} )*{_THANK} (?:and )?{_PRAISES}",
    rf"(?:{_INTERJECTION} )*{_PRAISES} (?:and )?{_THANK}",
    rf"(?:{_INTERJECTION} )*{_THANK}|(?:{_INTERJECTION} )*ta(?: very much)?",
    r"(?:that is )?(?:very |much |really |greatly )*appreciated",
    r"i (?:really |do )?appreciate (?:it|that|this|your help)",
    rf"you have been {_PRAISED}",
)

COURTESY_ROWS: tuple[tuple[str, Answer], ...] = (
    (r"(?:(?:hello|hi|hey|yo|hiya|howdy|greetings|good (?:morning|afternoon|evening|day))(?: there| again|"
     rf" antiphon| you| everyone)?)+|{PLEASE}say (?:hello|hi)(?: to .+)?", _greeting),
    (r"(?:(?:hello|hi|hey|good (?:morning|afternoon|evening)) )?(?:there )?(?:how are you(?: doing| today"
     r"| feeling)*|how (?:is|are|was) (?:it(?= going)|life|everything|things|all|your (?:day|morning"
     r"|evening|week|weekend))(?: going| been| with you| so far| today"
     r"| treating you)*|how do you do|how have you been|what is up|are you (?:doing )?(?:ok|okay|well|fine))",
     fixed("I am well, thank you. How can I help you?")),
    (rf"(?:{_BEFORE_BYE}(?: so much| very much| now)? (?!for ))*+(?:{_BEFORE_BYE} for [\w ]+? )?"
     rf"(?:and )?{_BYE}",
     fixed(FAREWELL)),
    *((goodbye, fixed(FAREWELL)) for goodbye in _GOODBYES),
    (r"(?:ok |okay |great |oh |well |no )*(?:many )?(?:thank you|thanks|cheers)(?: so much| very much| a"
     r" lot| teacher| sir| buddy| man| friend| again| for \w+(?: \w+)*+| (?:to )?you| antiphon"
     r"| (?:that|this|it) (?:helped|helps?)(?: a lot| me)?"
     r"| that is (?:very |so )?(?:kind|nice)(?: of you)?)*+|i appreciate (?:it|that)",
     fixed(WELCOME)),
    *((thanks, fixed(WELCOME)) for thanks in _THANKS),
    (r"(?:i am )?(?:so |very )?sorry(?: about that)?|(?:my )?apologies|excuse me|i did not mean (?:it"
     r"|that|to .+)|(?:i am )?sorry that was (?:rude|mean|not nice)(?: of me)?|that was (?:rude|mean"
     r"|not nice) of me", fixed("No problem.")),
    (r"nice to meet you(?: too)?|pleased to meet you", fixed("Nice to meet you, too.")),
)  # fmt: skip

GOES_ROWS: tuple[tuple[str, Answer], ...] = (
    (r"(?:(?:sorry )?i (?:really )?(?:have to|must|should|need to|got to|better) (?:go|leave|run)"
     r"(?: now| soon)?)+", fixed(_GOES)),
    (rf"(?:{_INTERJECTION} )*(?:i )?(?:really )?(?:(?:have|need|got) to|must|should|(?:(?:would|had) )?better)"
     r" (?:(?:be )?(?:go|leave|run|dash|off)|(?:get|be) going|let you go|head (?:off|out)|say goodbye)"
     r"(?: now| soon| then)*", fixed(_GOES)),
    (rf"(?:{_INTERJECTION} )*i am (?:hanging up|leaving now|off now|heading off|going now)(?: now| then)*",
     fixed(_GOES)),
)  # fmt: skip
"""The user wants to go, but has not said goodbye: the call stays."""
