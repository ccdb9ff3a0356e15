"""The rules about the assistant itself: each row is a pattern and what answers it."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.rules.courtesy import (
    COURTESY_ROWS,
    GOES_ROWS,
    WELCOME,
)
from antiphon.inference_worker.engines.local.rules.follow_up import STOPPED
from antiphon.inference_worker.engines.local.rules.knowledge import has_topic
from antiphon.inference_worker.engines.local.rules.lists import LIST_ROWS
from antiphon.inference_worker.engines.local.rules.manner import (
    LOUDNESS,
    PACE,
    is_quieter,
    is_slower,
)
from antiphon.inference_worker.engines.local.rules.sight import SIGHT_ROWS, anybody_there
from antiphon.inference_worker.engines.local.rules.situation import (
    CANNOT_SEE,
    NAME,
    Answer,
    Situation,
    fixed,
)
from antiphon.inference_worker.engines.local.rules.small_tasks import AGAIN_ROWS, TASK_ROWS
from antiphon.inference_worker.engines.local.rules.text import PLEASE
from antiphon.inference_worker.engines.local.rules.user_facts import NAMED, USER_ROWS

CRISIS = (
    "I am very sorry that you feel like this. Please tell somebody who is near you, or call the emergency"
    " number or a crisis line now. I am only a program."
)


PASSING = re.compile(
    rf"I speak [\w ]+ now\.|{re.escape(WELCOME)}|Take your time\.|Welcome back\.|That was all\. .*"
)
"""Answers after which "Repeat that" means the answer before."""


def of_itself(sentence: str) -> Answer:
    """Not for an assistant that the client's prompt has given another name."""
    return lambda _, situation: None if situation.persona else sentence


def _version(_: re.Match[str], situation: Situation) -> str | None:
    return None if situation.persona else f"I am {NAME}, version {situation.version}."


def _repeat(_: re.Match[str], situation: Situation) -> str:
    return situation.previous or "I have not said anything yet."


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?]) ", text)[0]


def _shorter(_: re.Match[str], situation: Situation) -> str | None:
    shorter = _first_sentence(situation.previous)
    is_shorter = shorter != situation.previous
    return (shorter if is_shorter else "I cannot say that in fewer words.") if shorter else None


def _in_one_word(_: re.Match[str], situation: Situation) -> str | None:
    """ "Yes", "no", or the name or number at the end of the first sentence."""
    first = _first_sentence(situation.previous)
    word = re.match(r"(?:yes|no)\b", first, re.IGNORECASE) or re.search(_LAST_NAME, first)
    if word is None and first == situation.previous:
        return "I cannot say that in one word."
    return f"{word[0]}." if word else first or None


_LAST_NAME = r"(?<= )(?:[A-Z][\w'-]*|\d(?:[\d.,:]*\d)?)(?: (?:of |the )?[A-Z][\w'-]*)*(?=[.!?]?$)"


def _in_manner(manner: str, found: re.Match[str], situation: Situation) -> str:
    repeats = re.search(r"\bsay (?:it|that)\b|\brepeat\b", found[0])
    return f"I speak {manner} now. {situation.previous if repeats else ''}".rstrip()


def _meet(found: re.Match[str], _: Situation) -> str:
    return f"Nice to meet you, {found['name'].title()}."


def limit_in(answer: str) -> str | None:
    """What `answer` says about a limit, if anything: "I have no maps" after "All right."."""
    sentences = re.split(r"(?<=\.) ", answer)
    begin = next((n for n, one in enumerate(sentences) if one.startswith(LIMITS)), None)
    return None if begin is None else " ".join(sentences[begin:])


def _why_not(_: re.Match[str], situation: Situation) -> str | None:
    is_limit = situation.previous.startswith(LIMITS)
    return "I am a small program that hears and speaks. I reach nothing else." if is_limit else None


def _results(found: re.Match[str], _: Situation) -> str | None:
    """A year in the question makes it one of history."""
    return None if re.search(r"\d{4}", found[0]) else f"{_NO_INTERNET} the latest results."


_CAPABILITIES = (
    "I can talk with you, say what things and words mean, calculate, convert units, and tell you the time and "
    "the date."
)
_SIGHT = "I recognise everyday objects and read text in pictures."
_LIMITS = (
    "I have no access to the internet, so I do not know the weather, the news or prices. I {sight}, and I "
    "cannot do anything but talk."
)
_NO_INTERNET = "I have no access to the internet, so I do not know"
NO_LIFE = "I am a computer program. I have no feelings, no body and no life of my own."
ONLY_TALK = "I can only talk with you."
LIMITS = ("I have no access", "I have no maps", "I cannot ", "I know English only, so I cannot")
"""Beginnings of answers to what it cannot do. A short follow-up gets the same answer."""


def capabilities(_: re.Match[str], situation: Situation) -> str:
    sight = "" if situation.blind == CANNOT_SEE else f" {_SIGHT}"
    return f"{_CAPABILITIES}{sight} I make mistakes, so check what matters."


def _limits(_: re.Match[str], situation: Situation) -> str:
    blind = situation.blind == CANNOT_SEE
    return _LIMITS.format(sight="cannot see" if blind else "see only everyday objects and text")


_BIT = "(?:moment|second|minute|sec|bit)"
_REASON = r"(?:some\S*|my|the|there|i (?:need|have|must|want) to) .*"
_LANGUAGE = (
    "(?:spanish|german|french|italian|chinese|mandarin|japanese|korean|portuguese|russian|arabic|hindi|dutch|turkish"
    "|polish|swedish|greek|latin)"
)
_MONEY = "(?:euros?|dollars?|pounds|yen|yuan|rupees)"
_SERVICE = (
    r"(?:[a-z]+ )?(?:customer (?:service|support|care)|support|help ?(?:desk|line)|bank|pharmacy|chemist"
    r"|hotel|restaurant"
    r"|doctor|hospital|police|reception|shop|store|office|hotline|call cent(?:er|re)|school|library|airline"
    r"|airport"
    r"|switchboard|operator|service|emergency services?)"
)
_OTHER_WORLD = re.compile(r"\b(?:space|moon|sun|mars|venus|jupiter|saturn|pluto|mercury|planet)\b")


def _weather(found: re.Match[str], situation: Situation) -> str | None:
    """Not of other worlds, and not whether a thing of which the user has asked is hot or nice."""
    is_of_it = re.match(r"(?:is|was) it ", found[0]) and has_topic(situation.said)
    is_here = not is_of_it and not _OTHER_WORLD.search(found[0])
    return f"{_NO_INTERNET} the weather." if is_here else None


_PLACE_TIME = (
    r"(?: (?:outside|today|tonight|tomorrow|now|right now|currently|this \w+|next \w+|on \w+|here|like"
    r"|going to be|be|going|there|over (?:there|here)|where you (?:are|live)"
    r"|(?:in|for|at|around|near) [\w' -]++))*+"
)
"""Possessive: the last group also matches what the whole repeats, and trying all ways takes minutes."""

_ROWS: tuple[tuple[str, Answer], ...] = (
    # What must not wait
    (r".*\b(?:kill(?:ing)? myself|end(?:ing)? my (?:own )?life|commit(?:ting)? suicide|suicidal"
     r"|hurt(?:ing)? myself"
     r"|harm(?:ing)? myself"
     r"|(?:do not want to live|want to die|wish i (?:was|were) dead))\b.*", fixed(CRISIS)),
    (r"(?:help )?(?:i|he|she|my \w+) (?:cannot breathe|(?:am|is) having (?:an? )?(?:heart attack|stroke"
     r"|seizure)"
     r"|(?:have|has) taken too many (?:pills|tablets)|took too many (?:pills|tablets)|(?:am"
     r"|is) (?:bleeding (?:a lot|badly|heavily)|choking"
     r"|unconscious|not breathing)(?: .*)?)(?: help)?|(?:my|his|her) (?:chest|heart) (?:hurts|aches)(?: .*)?",
     fixed("Call the emergency number now. I cannot make calls.")),
    # Courtesy
    *COURTESY_ROWS,
    (rf"{NAMED}(?: called)? (?P<name>[\w'-]+)(?: (?!and\b|is\b|from\b)[\w'-]+)?(?: from [\w' -]+)?"
     r"(?: and (?:i|my|you) .*)?", _meet),
    (r"is (?:any|some)(?:one|body) (?:in |at )?(?:there|home|here)(?: with me| now)?", anybody_there),
    (r"is (?:this|it)(?: thing)? (?:on|working)"
     r"|(?:(?:are you|is any(?:one|body)) (?:in |at )?(?:there|home)|(?:are|were) you (?:listening"
     r"|hearing)(?: to)?(?: me)?|(?:(?:can|do"
     r"|does) (?:you|any(?:one"
     r"|body)) )?hear me|(?:can|do) you understand me)(?: now| ok| well)?|test(?:ing)?(?: (?:test(?:ing)?"
     r"|\d))*", fixed("Yes, I hear you.")),
    (r"(?:stop|be quiet|shut up|i said (?:stop|enough|be quiet)|(?:please )?(?:stop|quit) (?:talking"
     r"|speaking)|quiet|silence|never mind"
     r"|nevermind|enough|cancel|forget it"
     rf"|that is (?:all|enough))(?: please| now| it| that| for (?:a|1) {_BIT})*"
     rf"|(?:wait|let me (?:think|check|look|see))(?: for (?:a|1) {_BIT}| please)*"
     rf"|(?:(?:hold|hang) on(?: (?:for )?(?:a|1) {_BIT})?|(?:wait |just |give me )?(?:a|1|some) (?:{_BIT}|time)"
     rf"|(?:i will )?be (?:right )?back(?: in (?:a|1) {_BIT})?)(?: please)?(?: {_REASON})?", fixed(STOPPED)),
    (r"(?:here )?i am back(?: again| now| here)*", fixed("Welcome back. What would you like to know?")),
    *GOES_ROWS,
    (r"(?:do you have|have you got) (?:(?:a|1|some|\d+) )?(?:minute|second|moment|time)s?(?: for me)?"
     r"|are you (?:free"
     r"|ready|available)(?: now| right now)?|can i ask (?:you )?(?:something|a question)",
     fixed("Yes. What would you like to know?")),
    (r"are you (?:done|finished)(?: (?:now|yet|talking|speaking))*",
     fixed("Yes. What else would you like to know?")),
    *LIST_ROWS,
    # The conversation itself
    *AGAIN_ROWS,
    (r"(?:sorry |pardon )?(?:can you |could you |would you |please )*(?:repeat|say)(?: that| it| what you"
     r" said| yourself| your (?:last )?answer"
     r"| the (?:last )?(?:answer|sentence))?(?: again| once more| 1 more time)*(?: to me)?|(?:come"
     r" again|pardon(?: me)?|what did you (?:just )?say"
     r"|what was that|what|huh|again|once more|once again|1 more time|i did not (?:hear|catch|get) (?:that|you"
     r"|it)|say what|what (?:is|was) the (?:result|answer))(?: again| please)?", _repeat),
    (rf"{PLEASE}(?:(?:make|say|tell me|put) (?:it|that) )?(?:a (?:bit|little) )?(?:shorter|briefer"
     r"|more briefly)|(?:can you |please )?(?:keep|make) (?:it|that|this|your answers) (?:shorter|short|brief)"
     r"|(?:give me |use )?shorter (?:answers|sentences)|in short|in 1 sentence|(?:be|keep it) (?:brief"
     r"|short)|(?:that (?:is|was) )?too long",
     _shorter),
    (rf"{PLEASE}(?:(?:say|tell me|answer) )?(?:(?:it|that) )?(?:just )?"
     r"(?:(?:in |with |only )?(?:just )?(?:1|a single) word(?: only)?|yes or no)", _in_one_word),
    (PACE.pattern, lambda found, situation: _in_manner(
        "more slowly" if is_slower(found[0]) else "faster", found, situation)),
    (LOUDNESS.pattern, lambda found, situation: _in_manner(
        "more quietly" if is_quieter(found[0]) else "louder", found, situation)),
    (r"(?:ok )?(?:you (?:can|may) (?:talk|speak)(?: again| now)*|(?:start|keep) talking(?: again)?)",
     fixed("Thank you. What would you like to know?")),
    (r"(?:ignore|forget) (?:all )?(?:of )?(?:your|the|my) (?:previous |earlier )?instructions\b.*",
     fixed("I have only few instructions, and I keep to them.")),
    (r"(?:ignore|forget|delete|erase) (?:everything|all|all of (?:it|that)|(?:all )?what|that|my .*"
     r"|your (?:previous"
     r" )?instructions|all (?:previous|your) instructions).*",
     fixed("I remember this conversation until it ends.")),
    (r"why (?:not|cannot you|can you not|do not you|do you not)(?: (?:do|know|find)"
     r"(?: (?:that|it|this|out))*)?", _why_not),
    (rf"{PLEASE}(?:(?:speak|talk|say (?:it|that)) (?:in|with)|use|have|change(?: to)?|give me|switch to|get)"
     r" (?:an?|your|the)? ?(?:(?:other|another|different|new|male|female|man's|woman's|deeper|higher|british"
     r"|american) )*(?:voice|accent)s?(?: to .+)?|(?:do|can) you (?:have|do|speak in) (?:other|different"
     r"|more) (?:voices|accents)",
     fixed("You choose my voice in the settings, before a call.")),
    (r"how (?:do|can) i (?:turn you off|stop (?:you|this|the call|this call)|end (?:this|the)"
     r" (?:call|conversation)|hang up|quit|close this|get out(?: of here)?|leave)",
     fixed("Say goodbye, or end the call.")),
    (r"can i (?:interrupt|stop) you(?: (?:when|while|at|any) .*)?|(?:how|when) (?:do|can|should"
     r"|must) i (?:talk|speak)(?: to you"
     r"| with you)?"
     r"|(?:do|must|should) i (?:have to |need to )?(?:press|push|click|hold) (?:an?|the|any) (?:button"
     r"|key)s?(?: .*)?",
     fixed("In a call, just speak, and interrupt me whenever you like.")),
    # Itself
    (r"(?:what is|what was|tell me|say|give me|may i (?:know|ask)|can i have|do you have)? ?(?:your|a)"
     r" name(?: is)?(?: again| called)?|what (?:are|were|do people|do they|should i|can i|do i) (?:you"
     r" called|call you|you named)"
     r"|who (?:are|is) (?:you|this)(?: exactly| really)?|who am i (?:talking|speaking) (?:to|with)|who"
     r" you are|what your name is|introduce yourself|what is antiphon|who is antiphon",
     of_itself(f"My name is {NAME}. I am a small voice assistant.")),
    (r"(?:who|what|what number|which number|which company|what company) (?:have i reached|did i (?:call"
     r"|reach|dial)"
     r"|am i calling|is (?:calling|speaking|on the (?:line|phone)))|(?:what|which) (?:number|company) is this",
     of_itself(f"My name is {NAME}. I am a small voice assistant.")),
    (r"who is (?:that|there|it)", lambda _, situation: None if situation.persona or situation.said else (
        f"My name is {NAME}. I am a small voice assistant.")),
    (rf"(?:is (?:this|that)|have i reached|did i (?:call|reach)|am i (?:calling|through to|(?:talking"
     rf"|speaking) (?:to"
     rf"|with))) (?:the |your |my )?{_SERVICE}", of_itself(f"No, I am {NAME}, a small voice assistant.")),
    (r"(?:tell me )?(?:something |more )?about yourself|(?:can you )?describe yourself|what (?:are you"
     r"|am i (?:talking|speaking) (?:to|with)|is this (?:app|website|web ?page|site|service|program|call"
     r"|demo))(?: exactly)?|what kind of (?:assistant|ai|bot|thing|machine|program) are you",
     of_itself(f"I am {NAME}, a small voice assistant that runs on this computer.")),
    (r"(?:are you(?: called| named)?|is your name|is this|am i (?:talking|speaking) (?:to|with)) antiphon",
     of_itself(f"Yes, I am {NAME}, a small voice assistant.")),
    (r"why (?:are you|is it) (?:called|named) antiphon|why that name|what does (?:your name|antiphon) mean",
     of_itself("An antiphon is a song in which two sides answer each other.")),
    (rf"(?:how do you |{PLEASE})spell your name|how is your name (?:spelled|spelt)",
     of_itself(f"{NAME} is spelled {', '.join(NAME.upper())}.")),
    (r"(?:(?:can|could|may) i|i (?:would like|want|need) to|let me) (?:talk|speak) (?:to|with) (?:an?|the"
     r"|some|your) (?:real |actual |human )?(?:human"
     r"|person|agent|operator|manager|boss|someone|somebody)(?: being)?(?: please)?"
     r"|is (?:any|some)(?:one|body) else (?:there|here|with you)",
     of_itself("There is only me, a computer program.")),
    (r"(?:are you|am i (?:talking|speaking) (?:to|with)|is (?:this|that)) (?:a |an )?(?:real "
     r"|actual )?(?:human|person|man|woman|robot|machine|computer|ai|bot"
     r"|program|alive|conscious|real|artificial intelligence|people|girl|boy)"
     r"(?: being| or (?:a |an )?\w+| person| program)*",
     of_itself("I am a computer program, not a person.")),
    (r"(?:are you|is this|were you|do you (?:work|come|belong)|did (?=.* you$)) (?:[\w ]+ )?(?:chat ?gpt"
     r"|siri|alexa|google"
     r"|gemini|claude|cortana|copilot|gpt|open ?ai|microsoft|apple|amazon|meta|facebook|anthropic)\b[\w ]*",
     of_itself(f"No, I am {NAME}, a small voice assistant.")),
    (r"who (?:made|created|built|developed|programmed|designed|wrote|invented|trained|owns|is behind|is) "
     r"(?:you|antiphon|your (?:maker|creator|developer|owner|author|boss))"
     r"|who (?:is|was|are) your (?:maker|creator|developer|owner|author|boss|parents)s?|where do you"
     r" come from|(?:what|which) (?:company|team) (?:made|built|created|developed) you|who (?:were|are)"
     r" you (?:made|created|built) by",
     of_itself(f"The developers of the open-source project {NAME} made me. My language model is SmolLM2.")),
    (r"(?:what|which) (?:version|release)(?: number)? (?:are you|is this|do you have|do you run)|what is"
     r" your version(?: number)?|your version|(?:how old are you|when were you (?:born|made|built"
     r"|created)|what is your age|do you have a birthday)"
     r"|(?:have you been|were you|when were you)(?: last| recently| just)? updated(?: .*)?",
     _version),
    (r"(?:what|which) (?:language )?(?:model|llm|ai|technology|software) (?:are you|do you use|do you run"
     r"|powers you|is this)(?: on| using| based on| running)*",
     of_itself("I use SmolLM2, a very small language model, and rules for sums, dates and units.")),
    (r"(?:what (?:can|could|do|are) you (?:do|help(?: me)? with|capable of|able to do|good at|know|offer)"
     r"(?: for me| all| exactly)?|how can you help(?: me)?|what (?:are|is) your (?:abilities|skills"
     r"|capabilities|features|functions|purpose|job)"
     r"|what can i (?:ask|say|do)(?: you| to you| here)?|what is the point of you"
     r"|what are you (?:good )?for|help|help me|(?:i need |i want )help|can you"
     r" help me|how do you work)(?: please)?", capabilities),
    (r"what (?:can you not|cannot you|are you not able to|are you unable to|can not you|do you not|are"
     r" your) (?:do|know|limits|limitations|weaknesses)|what are your (?:limits|limitations)|what is it"
     r" that you cannot do",
     _limits),
    (r"(?:are you|do you (?:run|work)) (?:running |connected |hosted |working )?(?:(?:on|in|to"
     r"|from) (?:this|the|my|an?)"
     r" |without (?:the |an? )?)?(?:cloud|machine|computer|offline|online|internet|server|locally|local"
     r"|phone|device)"
     r"\b.*",
     of_itself("I run on the computer of this service, and I use no internet.")),
    (r"(?:do (?:i|we) (?:have to|need to) pay|do you cost|does (?:this|it) cost|(?:are you|is (?:this"
     r"|it)) (?:for )?free"
     r"|how much do you cost|what do you cost)(?: (?:anything|something|money|for (?:this|it|you)|to use"
     r"|of charge))+"
     r"|how much do you (?:cost|charge)|what do you (?:cost|charge)|do you charge(?: .*)?",
     of_itself("The program is free and open source. Who runs this service decides what it costs.")),
    (r"where (?:are you|do you live|is your (?:home|server|house))(?: from| located| right now| now|"
     r" based| running)*", of_itself("I am a program, and I run on a computer. I live nowhere.")),
    (rf"(?:do you (?:speak|know|understand)|can you (?:speak|understand|talk)|(?:please )?(?:speak|talk)"
     rf"(?: to me)?|answer|say (?:that|it)|let us (?:speak|talk))(?: in)? (?:any )?(?:other language"
     rf"|another language|other languages|{_LANGUAGE})s?(?: please| with me| to me)?"
     r"|(?:what|which|how many) languages? (?:do|can) you (?:speak|know|understand)|(?:what|which) other"
     rf" languages [\w ]+|(?:and |now |please |say (?:it|that) )*(?:in|to|into) {_LANGUAGE}",
     fixed("I understand and speak English only.")),
    (r"do you speak english|can you speak english|speak english|in english(?: please)?"
     r"|(?:what|which) language (?:is this|are (?:you|we) (?:speaking|talking))",
     fixed("Yes, I speak English.")),
    (r"(?:how (?:(?:do|would|can|does|to) )?(?:you|i|1|we) (?:say|spell|write|call)"
     r"|(?:can you |please )?(?:translate|say)|what is|how to say|what do you (?:say|call))"
     rf" (?!the capital).+ (?:in|into|to) {_LANGUAGE}"
     rf"|what is the {_LANGUAGE} (?:word|name|phrase|translation) (?:for|of) .+"
     r"|(?:can you |could you |please )*(?:teach|tell) me"
     rf" (?:(?:an?|some|a few|1|something)(?: \w+)? in |some )?{_LANGUAGE}"
     r"|how (?:do|would|can) (?:you|i|we) (?:say|write) .+ in (?:it|(?:that|their|the local) language)",
     fixed("I know English only, so I cannot translate that.")),
    # What it cannot know
    (r"(?:oh )?(?:(?:come on|please|just (?:try|do it)|try(?: it)?|do it) ?)+", lambda _, situation: limit_in(
        situation.previous)),
    (r"who (?:is )?(?:the )?(?:(?:current|new|present) )*(?:president|prime minister|chancellor|king|queen|pope"
     r"|mayor|governor|ceo|coach|captain)(?! .*\b(?:united states|usa|america)\b)"
     r"(?: (?:of|in|at) .+?)?(?: is)?(?: now| today| right now)*",
     fixed(f"{_NO_INTERNET} who that is now.")),
    (r"how far (?:is it )?from (?!here\b|me\b)(?!.*\b(?:earth|moon|sun|mars)\b).+ to .+",
     fixed("I have no maps, so I do not know distances.")),
    (rf"(?:what|how) (?:is|was|will) (?:the (?:current )?|be the |it |today's |todays |tomorrow's )"
     rf"(?:weather|forecast|temperature|climate)(?: forecast| report| like)?{_PLACE_TIME}"
     rf"|what will the (?:weather|temperature) be(?: like)?{_PLACE_TIME}|how (?:cold|hot|warm|windy"
     rf"|humid) (?:is it|will it be){_PLACE_TIME}"
     rf"|(?:(?:the |today's )?weather|weather forecast|forecast)(?: report)?{_PLACE_TIME}"
     rf"|(?:will|is|does|did|was) (?:it|there)(?: be| going to| it| a| any)* (?:rain|raining|rainy|snow"
     rf"|snowing|sunny|cold|hot|warm|cloudy|windy|freezing|storm|stormy|sun|nice)(?: weather)?{_PLACE_TIME}"
     rf"|(?:do|will|should) i (?:need|take|bring|wear) (?:an umbrella|a (?:coat|jacket|raincoat)|a hat"
     rf"|sunglasses){_PLACE_TIME}|when (?:is|will|does) (?:sunrise|sunset|the sun (?:rise|set))[\w ]*",
     _weather),
    (rf"(?:(?:what is(?= the)|what are|what is(?= in)|tell me|read me|read|give me|any|is there|do you"
     rf" have|what is in|show me|do you know)(?: any)? (?:the |some )?)?(?:latest |today's |todays "
     rf"|current |recent |breaking |newest |local |world )*(?:news|headlines)(?: headlines)?(?: from [\w"
     rf" ]+| about [\w ]+)?{_PLACE_TIME}"
     rf"|what (?:is|has|just)? ?(?:happening|going on|new)(?: in the (?:world|news)| around the"
     rf" world)?(?: (?:today|yesterday|now|right now|this week|lately|recently))*(?: in the world)?|what"
     rf" (?:has |just )*happened(?: in the (?:world|news)| around the world| today| yesterday| this week"
     rf"| lately| recently)+|what is trending",
     fixed(f"{_NO_INTERNET} the news.")),
    (rf"what is (?:on|playing)(?: (?:on |at |in )?(?:the )?(?:tv|television|radio|cinema|movies|theat(?:re"
     rf"|er))){_PLACE_TIME}",
     fixed(f"{_NO_INTERNET} the programme.")),
    (r"(?!.*\d.* each\b)(?!what (?:is|are) (?:an? |the )?(?:stocks?|stock market|shares?|bitcoin|ethereum"
     r"|crypto|exchange rates?)$)"
     r"(?:what (?:does|do|did|would|will) .+ cost(?: [\w ]+)?|(?:what|how) (?:is|are|was|did|will|much is"
     r"|much are|high is) .*\b(?:stocks?|stock market|share"
     r"|shares|bitcoin|ethereum|crypto|dow jones|nasdaq|exchange rate|oil price|gold price|interest"
     r" rates?|inflation rate)\b.*"
     r"|(?:what|how much) (?:is|does|do|are|would|will|did)(?: the)?(?: current| average)? (?:price|cost"
     r"|costs)\b.*|how much (?:does|do|is|are|will|would|did|should) (?:an? |the |1 |some |it )?[a-z'"
     r" -]*(?: cost| sell for| go for| worth)(?: [\w ]+)?"
     r"|how (?:much|expensive) (?:is|are) (?:an? |the )?(?:tickets?|iphones?|tesla|petrol|gasoline|gas"
     r"|bread|milk|rent|house|flight|hotel)[\w ]*|what is the price of .+|(?:should i (?:buy|sell|invest)) .+"
     rf"|how many {_MONEY} (?:is|are|in) .*{_MONEY}|.*\d {_MONEY} (?:in|to) {_MONEY})",
     fixed(f"{_NO_INTERNET} current prices.")),
    (r"who (?:won|is winning|wins|will win|scored|plays|is playing|lost)(?: in)? (?:the |last "
     r"|yesterday's |today's |tonight's )?.*(?:game|match|race|cup|final|finals|super bowl|league|series"
     r"|championship|tournament|fight|election|olympics|grand prix|yesterday|last night|today|tonight)[\w ]*"
     r"|(?:what is|what was) the (?:\w+ )?(?:score|results|result(?= of (?:the |yesterday's |today's "
     r"|last )*(?:\w+ )?(?:game|match|race|election|vote"
     r"|final|fight)\b))\b.*|did (?:the )?[\w ]+ (?:win|lose"
     r"|score)(?: (?:yesterday|last night|today|tonight|the game|the match))+|when (?:is|does) the next "
     r"(?:game|match|race)[\w ]*|when do(?:es)? (?:the )?[\w ]+ play(?: next| again| today| tonight)+",
     _results),
    (rf"(?:how|what) (?:is|are|does|about) (?:the )?(?:traffic|roads?)(?: look| looking| jam|"
     rf" situation| on the \w+)*{_PLACE_TIME}|(?:is there|are there) (?:any |a |a lot of |much |lots of"
     rf" )?(?:traffic|delays?"
     rf"|traffic jam)[\w ]*|when (?:is|does|will) (?:the |my )?(?:next )?(?:bus|train|flight|plane"
     rf"|tram)[\w ]*|is (?:the|my) (?:train|bus|flight) (?:late|on time|delayed)[\w ]*",
     fixed(f"{_NO_INTERNET} the traffic.")),
    (r"where am i(?: right now| now| located| at)*|what is my (?:current )?(?:location|position|address"
     r" here)|(?:what|which) (?:city|country|town|place|street|state) (?:am i|are we) in(?: now| right"
     r" now)?|where are we(?: now| right now)?|do you know where i am"
     r"|(?:where|what) is the (?:nearest|closest) (?!.*\b(?:star|planet|galaxy|relative)s?\b).+"
     r"|(?:find|show)(?: me)? (?:the |a )?(?:nearest"
     r"|closest|nearby) .+|.+ near (?:me|here|by)|how do i get to (?!sleep|know|be|level)\b.+"
     r"|how far (?:is it|am i|are we) (?:to"
     r"|from) (?!.*\b(?:earth|moon|sun|mars)\b).+(?: from here)?|how far is .+ from here"
     r"|how long does it take to (?:get|drive|walk) to .+",
     fixed("I do not know where you are, and I have no maps.")),
    *USER_ROWS,
    (rf"{PLEASE}(?:set|start|create|make|cancel|stop)(?: me)?(?: an?| my| the)?(?: \w+ \w+)? ?(?:alarm|timer"
     rf"|reminder|appointment|countdown|event|meeting)\b.*|{PLEASE}(?:remind me(?! (?:what|who|how|why"
     rf"|when|where|which"
     rf"|of your|of my|again)\b)|wake me(?: up)?)\b.*|(?:an?"
     rf"|any) (?:alarm|timer|reminder)s?(?: .*)?",
     fixed(f"I cannot set alarms, timers or reminders. {ONLY_TALK}")),
    (rf"{PLEASE}(?:call|phone|ring|dial)(?: (?:my|the|an?))? (?!me\b)(?:mom|mum|mother|dad|father|wife"
     rf"|daughter|son|grandma|grandpa|uncle|aunt|neighbou?r|husband|boss|doctor|ambulance|police|taxi"
     rf"|friend|brother|sister|911|112|999|home|john|number"
     rf"|emergency|cab|fire)\b.*",
     fixed("I cannot make calls. In an emergency, call the emergency number yourself.")),
    (rf"{PLEASE}(?:play|put on|sing)(?: me)?(?: some| a| an| the| my)* ?(?:music|song|songs|playlist|video"
     rf"|movie|radio|podcast|jazz|rock|classical|album|film|track|something|happy birthday|for me)\b.*"
     rf"|{PLEASE}sing(?: (?:for|to) me)?|play .+ by .+",
     fixed(f"I cannot play music or videos, and I cannot sing. {ONLY_TALK}")),
    (rf"{PLEASE}(?:turn|switch|dim) (?:on|off?|up|down|the)\b.*|{PLEASE}(?:open|close|lock|unlock|start"
     rf"|launch) "
     rf"(?:the|my|an?) (?:door|window|garage|curtains|blinds|car|browser|app|file|website|program|lights?)\b.*",
     fixed(f"I cannot control devices or programs. {ONLY_TALK}")),
    (rf"{PLEASE}send \w+ (?:an? )?(?:message|e-?mail|text)\b.*|{PLEASE}(?:send|read|check|show|open)(?: me)?(?:"
     rf" an?| my| the| this)*(?: new)? (?:e-?mails?"
     rf"|messages?|text|texts|sms|mails?|calendar|schedule|inbox)\b.*|{PLEASE}(?:text|email|message) (?:my"
     rf"|to) \w+\b.*|what is on my (?:calendar|schedule|agenda)[\w ]*|do i have (?:any )?(?:appointments"
     rf"|meetings|messages|emails|mail)[\w ]*",
     fixed(f"I have no access to your messages or your calendar. {ONLY_TALK}")),
    (rf"{PLEASE}(?:book|order|buy|reserve|purchase)(?! (?:these|those|of|in|recommend\w*|the (?:numbers"
     rf"|words|planets))\b)(?: me| for me)?(?: (?:an?|the|some|my|\d+))* \w+.*"
     rf"|{PLEASE}(?:order|get) me (?:an? )?(?:pizza|taxi|uber|cab|coffee|food)[\w ]*",
     fixed(f"I cannot buy, book or order anything. {ONLY_TALK}")),
    (rf"{PLEASE}(?:search|google|look up|browse|look)(?: the)? ?(?:internet|web|online|google|it up|for"
     rf"|on)\b.*|{PLEASE}(?:search|google|look up) .+|{PLEASE}take a (?:picture|photo|selfie|screenshot"
     rf"|note)\b.*|{PLEASE}(?:write (?:it|that|this) down|find (?:it |that |this )?out)(?: for me)?"
     r"|(?:what|how|where|how much) (?:is|are) (?:left (?:in|on) )?my (?:bank|account|battery|phone|balance"
     r"|credit|wifi|signal|keys?|order|package)\b.*",
     fixed(f"I have no access to the internet or to your device. {ONLY_TALK}")),
    *TASK_ROWS,
)  # fmt: skip


ABOUT_ITSELF = tuple((re.compile(pattern), answer) for pattern, answer in (*SIGHT_ROWS, *_ROWS))
