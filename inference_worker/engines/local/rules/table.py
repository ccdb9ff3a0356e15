"""The rules about the assistant itself: each row is a pattern and what answers it."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.rules.manner import (
    LOUDNESS,
    PACE,
    is_quieter,
    is_slower,
)
from antiphon.inference_worker.engines.local.rules.sight import SIGHT_ROWS
from antiphon.inference_worker.engines.local.rules.situation import (
    CANNOT_SEE,
    NAME,
    Answer,
    Situation,
)
from antiphon.inference_worker.engines.local.rules.text import PLEASE, plain

FAREWELL = "Goodbye! It was nice to talk with you."


def _fixed(sentence: str) -> Answer:
    return lambda _found, _situation: sentence


def _of_itself(sentence: str) -> Answer:
    """Not for an assistant that the client's prompt has given a name of its own."""
    return lambda _, situation: None if situation.persona else sentence


def _greeting(found: re.Match[str], _: Situation) -> str:
    part = re.search(r"good (morning|afternoon|evening)", found[0])
    return f"{part[0].capitalize() if part else 'Hello'}! How can I help you?"


def _version(_: re.Match[str], situation: Situation) -> str | None:
    return None if situation.persona else f"I am {NAME}, version {situation.version}."


def _repeat(_: re.Match[str], situation: Situation) -> str:
    return situation.previous or "I have not said anything yet."


def _change_pace(found: re.Match[str], _: Situation) -> str:
    return f"I speak {'more slowly' if is_slower(found[0]) else 'faster'} now."


def _change_loudness(found: re.Match[str], _: Situation) -> str:
    return f"I speak {'more quietly' if is_quieter(found[0]) else 'louder'} now."


def _meet(found: re.Match[str], _: Situation) -> str:
    return f"Nice to meet you, {found['name'].title()}."


def _told(found: re.Match[str], situation: Situation) -> str | None:
    return _told_of(found["what"], situation)


def _who_am_i(_: re.Match[str], situation: Situation) -> str | None:
    return _told_of("name", situation)


def _told_of(asked: str, situation: Situation) -> str | None:
    """What the user said of themselves in this conversation."""
    what = re.escape(asked)
    pattern = re.compile(rf"\bmy {what} is (?:called )?(?P<value>[^.,!?]+?)(?: and .*)?$")
    for text in reversed(situation.said):
        for sentence in re.split(r"[.!?,]", plain(text)):
            if told := pattern.search(sentence.strip()):
                value = told["value"].title() if asked == "name" else told["value"]
                return f"You told me that your {asked} is {value}."
    if any(f"my {asked}" in plain(text) for text in situation.said):
        return None
    return f"You have not told me your {asked}."


def _home(_: re.Match[str], situation: Situation) -> str | None:
    for text in reversed(situation.said):
        if told := re.search(r"\bi (?:live|am living) (in [^.,!?]+?)(?: and .*)?$", plain(text)):
            return f"You told me that you live {told[1].title().replace('In ', 'in ', 1)}."
    return "You have not told me where you live."


def _spell(found: re.Match[str], _: Situation) -> str:
    word = found["word"]
    return f"{word.capitalize()} is spelled {', '.join(word.upper())}."


def _letters(found: re.Match[str], _: Situation) -> str:
    count = len(found["word"])
    return f"The word {found['word']} has {count} letter{'' if count == 1 else 's'}."


_MOST_COUNTED = 30


def _count(found: re.Match[str], _: Situation) -> str | None:
    first, last = int(found["first"] or (1 if found["last"] else 10)), int(found["last"] or 1)
    if "back" in found[0] or "down" in found[0]:
        first, last = max(first, last), min(first, last)
    if abs(first - last) >= _MOST_COUNTED:
        return f"I count up to {_MOST_COUNTED} numbers at once. Please ask for fewer."
    step = 1 if last >= first else -1
    return ", ".join(str(number) for number in range(first, last + step, step)) + "."


def _next_letter(found: re.Match[str], _: Situation) -> str | None:
    step = -1 if found["side"] == "before" else 1
    place = ord(found["letter"]) - ord("a") + step
    if not 0 <= place < 26:
        return None
    return f"The letter {chr(ord('A') + place)} comes {found['side']} {found['letter'].upper()}."


_JOKES = (
    "Why did the scarecrow win a prize? Because he was outstanding in his field.",
    "What do you call a bear without teeth? A gummy bear.",
    "Why do bees have sticky hair? Because they use honeycombs.",
    "What did one wall say to the other? I will meet you at the corner.",
    "Why was the math book sad? It had too many problems.",
    "What do you call cheese that is not yours? Nacho cheese.",
    "Why can a bicycle not stand up by itself? It is too tired.",
    "What did the ocean say to the beach? Nothing, it just waved.",
)


def _joke(_: re.Match[str], situation: Situation) -> str:
    told = sum("joke" in text.lower() or "another one" in text.lower() for text in situation.said)
    return _JOKES[(situation.now.toordinal() + told) % len(_JOKES)]


def _coin(_: re.Match[str], situation: Situation) -> str:
    return f"It is {'heads' if situation.now.microsecond % 2 else 'tails'}."


def _die(_: re.Match[str], situation: Situation) -> str:
    return f"I rolled a {situation.now.microsecond % 6 + 1}."


def _results(found: re.Match[str], _: Situation) -> str | None:
    """A year in the question makes it one of history."""
    return None if re.search(r"\d{4}", found[0]) else f"{_NO_INTERNET} the latest results."


_CAPABILITIES = (
    "I can talk with you, answer simple questions, calculate, convert units, and tell you the time and "
    "the date."
)
_SIGHT = "I recognise everyday objects and read text in pictures."
_LIMITS = (
    "I have no access to the internet, so I do not know the weather, the news or prices. I {sight}, and I "
    "cannot do anything but talk."
)
_NO_INTERNET = "I have no access to the internet, so I do not know"
_ONLY_TALK = "I can only talk with you."


def _capabilities(_: re.Match[str], situation: Situation) -> str:
    sight = "" if situation.blind == CANNOT_SEE else f" {_SIGHT}"
    return f"{_CAPABILITIES}{sight} I make mistakes, so check what matters."


def _limits(_: re.Match[str], situation: Situation) -> str:
    blind = situation.blind == CANNOT_SEE
    return _LIMITS.format(sight="cannot see" if blind else "see only everyday objects and text")


_PLACE_TIME = (
    r"(?: (?:outside|today|tonight|tomorrow|now|right now|currently|this \w+|next \w+|on \w+|here|like"
    r"|going to be|be|going|there|(?:in|for|at|around|near) [\w' -]+))*"
)

_ROWS: tuple[tuple[str, Answer], ...] = (
    # Courtesy
    (r"(?:(?:hello|hi|hey|yo|hiya|howdy|greetings|good (?:morning|afternoon|evening|day))(?: there| again|"
     r" antiphon| you"
     r"| everyone)?)+", _greeting),
    (r"(?:(?:hello|hi|hey|good (?:morning|afternoon|evening)) )?(?:there )?(?:how are you(?: doing| today"
     r"| feeling)*"
     r"|how is it going|how do you do|how have you been|what is up|are you (?:ok|okay|well|fine))",
     _fixed("I am well, thank you. How can I help you?")),
    (r"(?:ok |okay |great |oh |well |no )*(?:many )?(?:thank you|thanks|cheers)(?: so much| very much| a"
     r" lot| again"
     r"| for \w+(?: \w+)*| you| antiphon)*", _fixed("You are welcome.")),
    (r"(?:(?:ok|okay|well|alright|that is all|i have to go|i must go|thank you|thanks|great|nice talking"
     r" to you)"
     r"(?: for [\w ]+?| so much| very much| now)? )*(?:and )?(?:good ?bye|bye(?: bye|-bye)?|see you|see"
     r" you (?:later|soon|tomorrow)|good ?night"
     r"|talk to you (?:later|soon)|farewell|have a (?:nice|good|great) (?:day|evening|night|one)|take care)"
     r"(?: (?:then|now|for now|antiphon|and thank you|thank you|bye|later"
     r"|soon))*", _fixed(FAREWELL)),
    (r"(?:i am )?(?:so |very )?sorry(?: about that)?|(?:my )?apologies|excuse me", _fixed("No problem.")),
    (r"(?:my name is|i am called|people call me|you can call me|call me)(?: called)? (?P<name>[a-z'-]+)"
     r"(?: (?!and\b|is\b)[a-z'-]+)?(?: and (?:i|my|you) .*)?", _meet),
    (r"nice to meet you(?: too)?|pleased to meet you", _fixed("Nice to meet you, too.")),
    (r"(?:are you there|can you hear me|do you hear me|are you listening|is anyone there|is anybody there"
     r"|can you understand me|do you understand me|hear me)(?: now| ok| okay|"
     r" well)?", _fixed("Yes, I hear you.")),
    (r"(?:stop|be quiet|shut up|stop talking|quiet|silence|never mind|nevermind|cancel|forget it|that is "
     r"(?:all|enough)|wait"
     r"|hold on|one moment|hang on)(?: please| now| it| that| a (?:moment|second"
     r"|minute))*", _fixed("All right.")),
    # The conversation itself
    (r"(?:sorry |pardon )?(?:can you |could you |would you |please )*(?:repeat|say)(?: that| it| what you"
     r" said| yourself| your (?:last )?answer"
     r"| the (?:last )?(?:answer|sentence))?(?: again| once more| one more time)*(?: to me)?|(?:come"
     r" again|pardon(?: me)?|what did you (?:just )?say"
     r"|what was that|again|once more|once again|one more time|i did not (?:hear|catch|get) (?:that|you"
     r"|it)|say what)(?: again| please)?", _repeat),
    (PACE.pattern, _change_pace),
    (LOUDNESS.pattern, _change_loudness),
    # Itself
    (r"(?:what is|what was|tell me|say|give me|may i (?:know|ask)|can i have|do you have)? ?(?:your|a)"
     r" name(?: is)?(?: again| called)?|what (?:are|were|do people|do they|should i|can i|do i) (?:you"
     r" called|call you|you named)"
     r"|who (?:are|is) (?:you|this)(?: exactly| really)?|who am i (?:talking|speaking) (?:to|with)|who"
     r" you are|what your name is|introduce yourself|what is antiphon|who is antiphon",
     _of_itself(f"My name is {NAME}. I am a small voice assistant.")),
    (r"(?:tell me )?(?:something |more )?about yourself|(?:can you )?describe yourself|what are you(?:"
     r" exactly)?|what kind of (?:assistant|ai|bot|thing|machine|program) are you",
     _of_itself(f"I am {NAME}, a small voice assistant that runs on this computer.")),
    (r"are you (?:a |an )?(?:real |actual )?(?:human|person|man|woman|robot|machine|computer|ai|bot"
     r"|program|alive|conscious|real|artificial intelligence|people|girl|boy)"
     r"(?: being| or (?:a |an )?\w+| person| program)*",
     _of_itself("I am a computer program, not a person.")),
    (r"(?:are you|is this) (?:chat ?gpt|siri|alexa|google(?: assistant)?|gemini|claude|cortana|copilot"
     r"|gpt|an? openai)[\w ]*",
     _of_itself(f"No, I am {NAME}, a small voice assistant.")),
    (r"who (?:made|created|built|developed|programmed|designed|wrote|invented|trained|owns|is behind|is) "
     r"(?:you|antiphon|your (?:maker|creator|developer|owner|author|boss))"
     r"|who (?:is|was|are) your (?:maker|creator|developer|owner|author|boss|parents)s?|where do you"
     r" come from|(?:what|which) (?:company|team) (?:made|built|created|developed) you|who (?:were|are)"
     r" you (?:made|created|built) by",
     _of_itself(f"The developers of the open-source project {NAME} made me. My language model is SmolLM2.")),
    (r"(?:what|which) (?:version|release)(?: number)? (?:are you|is this|do you have|do you run)|what is"
     r" your version(?: number)?|your version|(?:how old are you|when were you (?:born|made|built"
     r"|created)|what is your age|do you have a birthday)",
     _version),
    (r"(?:what|which) (?:language )?(?:model|llm|ai|technology|software) (?:are you|do you use|do you run"
     r"|powers you|is this)(?: on| using| based on| running)*",
     _of_itself("I use SmolLM2, a very small language model, and rules for sums, dates and units.")),
    (r"(?:what (?:can|could|do|are) you (?:do|help(?: me)? with|capable of|able to do|good at|know|offer)"
     r"(?: for me| all| exactly)?|how can you help(?: me)?|what (?:are|is) your (?:abilities|skills"
     r"|capabilities|features|functions|purpose|job)"
     r"|what can i (?:ask|say|do)(?: you| to you| here)?|help|help me|(?:i need |i want )help|can you"
     r" help me|how do you work)(?: please)?", _capabilities),
    (r"what (?:can you not|cannot you|are you not able to|are you unable to|can not you|do you not|are"
     r" your) (?:do|know|limits|limitations|weaknesses)|what are your (?:limits|limitations)|what is it"
     r" that you cannot do",
     _limits),
    (r"where (?:are you|do you live|is your (?:home|server|house))(?: from| located| right now| now|"
     r" based| running)*", _of_itself("I am a program, and I run on a computer. I live nowhere.")),
    (r"(?:do|can) you (?:feel|have|like|love|hate|eat|sleep|dream|get|think|want|enjoy)(?: (?:any|a|an"
     r"|your|own|to))*(?: (?:feelings?|emotions?|friends?|family|pets?|body|me|food|pain|tired|bored"
     r"|hungry|parents|children|kids|girlfriend|boyfriend|soul))?",
     _of_itself("I am a computer program. I have no feelings, no body and no life of my own.")),
    (r"(?:do you (?:speak|know|understand)|can you (?:speak|understand|talk)|(?:please )?(?:speak|talk)"
     r"(?: to me)?|answer|say (?:that|it)|let us (?:speak|talk))(?: in)? (?:any )?(?:other language"
     r"|another language|other languages|spanish|german|french|italian|chinese|mandarin|japanese|korean"
     r"|portuguese|russian|arabic|hindi|dutch|turkish|polish|swedish|greek|latin)s?(?: please| with me|"
     r" to me)?"
     r"|(?:what|which|how many) languages? (?:do|can) you (?:speak|know|understand)|(?:what|which) other"
     r" languages [\w ]+", _fixed("I understand and speak English only.")),
    (r"do you speak english|can you speak english|speak english|in english(?:"
     r" please)?", _fixed("Yes, I speak English.")),
    (r"(?:how (?:do|would|can|does) (?:you|i|one|we) (?:say|spell|write|call)"
     r"|(?:can you |please )?(?:translate|say)"
     r"|what is|how to say|what do you (?:say|call)) (?!the capital).+ (?:in|into|to) (?:spanish|german"
     r"|french"
     r"|italian|chinese|mandarin|japanese|korean|portuguese|russian|arabic|hindi|dutch|turkish|polish"
     r"|swedish|greek"
     r"|latin)", _fixed("I know English only, so I cannot translate that.")),
    (r"what is the (?:spanish|german|french|italian|chinese|mandarin|japanese|korean|portuguese|russian"
     r"|arabic|hindi|dutch|latin) (?:word|name|phrase|translation) (?:for|of) .+",
     _fixed("I know English only, so I cannot translate that.")),
    # What it cannot know
    (rf"(?:what|how) (?:is|was|will) (?:the (?:current )?|be the |it |today's |todays |tomorrow's )"
     rf"(?:weather|forecast|temperature|climate)(?: forecast| report| like)?{_PLACE_TIME}"
     rf"|what will the (?:weather|temperature) be(?: like)?{_PLACE_TIME}|how (?:cold|hot|warm|windy"
     rf"|humid) (?:is it|will it be){_PLACE_TIME}"
     rf"|(?:(?:the |today's )?weather|weather forecast|forecast)(?: report)?{_PLACE_TIME}"
     rf"|(?:will|is|does|did|was) (?:it|there)(?: be| going to| it| a| any)* (?:rain|raining|rainy|snow"
     rf"|snowing|sunny|cold|hot|warm|cloudy|windy|freezing|storm|stormy|sun|nice)(?:"
     rf" weather)?{_PLACE_TIME}"
     rf"|(?:do|will|should) i (?:need|take|bring|wear) (?:an umbrella|a (?:coat|jacket|raincoat)|a hat"
     rf"|sunglasses){_PLACE_TIME}|when (?:is|will|does) (?:sunrise|sunset|the sun (?:rise|set))[\w ]*",
     _fixed(f"{_NO_INTERNET} the weather.")),
    (rf"(?:(?:what is(?= the)|what are|what is(?= in)|tell me|read me|read|give me|any|is there|do you"
     rf" have|what is in|show me|do you know)(?: any)? (?:the |some )?)?(?:latest |today's |todays "
     rf"|current |recent |breaking |newest |local |world )*(?:news|headlines)(?: headlines)?(?: from [\w"
     rf" ]+| about [\w ]+)?{_PLACE_TIME}"
     rf"|what (?:is|has|just)? ?(?:happening|going on|new)(?: in the (?:world|news)| around the"
     rf" world)?(?: (?:today|yesterday|now|right now|this week|lately|recently))*(?: in the world)?|what"
     rf" (?:has |just )*happened(?: in the (?:world|news)| around the world| today| yesterday| this week"
     rf"| lately| recently)+|what is trending",
     _fixed(f"{_NO_INTERNET} the news.")),
    (r"what (?:does|do|did|would|will) .+ cost(?: [\w ]+)?|(?:what|how) (?:is|are|was|did|will|much is"
     r"|much are|high is) .*\b(?:stocks?|stock market|share"
     r"|shares|bitcoin|ethereum|crypto|dow jones|nasdaq|exchange rate|oil price|gold price|interest"
     r" rates?|inflation rate)\b.*"
     r"|(?:what|how much) (?:is|does|do|are|would|will|did)(?: the)?(?: current| average)? (?:price|cost"
     r"|costs)\b.*|how much (?:does|do|is|are|will|would|did|should) (?:an? |the |one |some |it )?[a-z'"
     r" -]*(?: cost| sell for| go for| worth)(?: [\w ]+)?"
     r"|how (?:much|expensive) (?:is|are) (?:an? |the )?(?:tickets?|iphones?|tesla|petrol|gasoline|gas"
     r"|bread|milk|rent|house|flight|hotel)[\w ]*|what is the price of .+|(?:should i (?:buy|sell"
     r"|invest)) .+"
     r"|how many (?:euros?|dollars?|pounds|yen|yuan|rupees) (?:is|are|in) .*(?:euros?|dollars?|pounds"
     r"|yen|yuan|rupees)|.*\d (?:euros?|dollars?|pounds|yen|yuan|rupees) (?:in|to) (?:euros?|dollars?"
     r"|pounds|yen|yuan|rupees)",
     _fixed(f"{_NO_INTERNET} current prices.")),
    (r"who (?:won|is winning|wins|will win|scored|plays|is playing|lost)(?: in)? (?:the |last "
     r"|yesterday's |today's |tonight's )?.*(?:game|match|race|cup|final|finals|super bowl|league|series"
     r"|championship|tournament|fight|election|olympics|grand prix|yesterday|last night|today|tonight)[\w"
     r" ]*"
     r"|(?:what is|what was) the (?:\w+ )?(?:score|result|results)\b.*|did (?:the )?[\w ]+ (?:win|lose"
     r"|score)(?: (?:yesterday|last night|today|tonight|the game|the match))+|when (?:is|does) the next "
     r"(?:game|match|race)[\w ]*|when do(?:es)? (?:the )?[\w ]+ play(?: next| again| today| tonight)+",
     _results),
    (rf"(?:how|what) (?:is|are|does|about) (?:the )?(?:traffic|roads?)(?: look| looking| jam|"
     rf" situation| on the \w+)*{_PLACE_TIME}|(?:is there|are there) (?:any |a |a lot of |much |lots of"
     rf" )?(?:traffic|delays?"
     rf"|traffic jam)[\w ]*|when (?:is|does|will) (?:the |my )?(?:next )?(?:bus|train|flight|plane"
     rf"|tram)[\w ]*|is (?:the|my) (?:train|bus|flight) (?:late|on time|delayed)[\w ]*",
     _fixed(f"{_NO_INTERNET} the traffic.")),
    (r"where am i(?: right now| now| located| at)*|what is my (?:current )?(?:location|position|address"
     r" here)|(?:what|which) (?:city|country|town|place|street|state) (?:am i|are we) in(?: now| right"
     r" now)?|where are we(?: now| right now)?|do you know where i am"
     r"|(?:where|what) is the (?:nearest|closest) .+|(?:find|show)(?: me)? (?:the |a )?(?:nearest"
     r"|closest|nearby) .+|.+ near (?:me|here|by)|how do i get to .+|how far (?:is it|am i|are we) (?:to"
     r"|from) .+(?: from here)?|how far is .+ from here|how long does it take to (?:get|drive|walk) to"
     r" .+",
     _fixed("I do not know where you are, and I have no maps.")),
    (r"(?:what is|when is|do you know|do you remember|tell me|what was) my (?P<what>name|age|birthday"
     r"|address|phone number|email|email address|job|password|favou?rite \w+|hobby|profession|nationality"
     r"|dog's name|cat's name|wife's name|husband's name|last name|surname|first name)", _told),
    (r"(?:do you know )?where (?:do )?i live", _home),
    (r"who am i|what do you know about me|do you know (?:me|who i"
     r" am)", _who_am_i),
    (rf"{PLEASE}(?:set|start|create|make|cancel|stop)(?: me)?(?: an?| my| the)?(?: \w+ \w+)? ?(?:alarm|timer"
     rf"|reminder|appointment|countdown|event|meeting)\b.*|{PLEASE}(?:remind me|wake me(?: up)?)\b.*",
     _fixed(f"I cannot set alarms, timers or reminders. {_ONLY_TALK}")),
    (rf"{PLEASE}(?:call|phone|ring|dial)(?: (?:my|the|an?))? (?!me\b)(?:mom|mum|mother|dad|father|wife"
     rf"|husband|boss|doctor|ambulance|police|taxi|friend|brother|sister|911|112|999|home|john|number"
     rf"|emergency|cab|fire)\b.*",
     _fixed("I cannot make calls. In an emergency, call the emergency number yourself.")),
    (rf"{PLEASE}(?:play|put on|sing)(?: me)?(?: some| a| an| the| my)* ?(?:music|song|songs|playlist|video"
     rf"|movie|radio|podcast|jazz|rock|classical|album|film|track|something|happy birthday|for me)\b.*"
     rf"|{PLEASE}sing(?: (?:for|to) me)?|play .+ by .+",
     _fixed(f"I cannot play music or videos, and I cannot sing. {_ONLY_TALK}")),
    (rf"{PLEASE}(?:turn|switch|dim) (?:on|off|up|down|the)\b.*|{PLEASE}(?:open|close|lock|unlock|start|launch) "
     rf"(?:the|my|an?) (?:door|window|garage|curtains|blinds|car|browser|app|file|website|program"
     rf"|lights?)\b.*",
     _fixed(f"I cannot control devices or programs. {_ONLY_TALK}")),
    (rf"{PLEASE}send \w+ (?:an? )?(?:message|e-?mail|text)\b.*|{PLEASE}(?:send|read|check|show|open)(?: me)?(?:"
     rf" an?| my| the| this)*(?: new)? (?:e-?mails?"
     rf"|messages?|text|texts|sms|mails?|calendar|schedule|inbox)\b.*|{PLEASE}(?:text|email|message) (?:my"
     rf"|to) \w+\b.*|what is on my (?:calendar|schedule|agenda)[\w ]*|do i have (?:any )?(?:appointments"
     rf"|meetings|messages|emails|mail)[\w ]*",
     _fixed(f"I have no access to your messages or your calendar. {_ONLY_TALK}")),
    (rf"{PLEASE}(?:book|order|buy|reserve|purchase)(?: me| for me)?(?: (?:an?|the|some|my|two|three))* \w+.*"
     rf"|{PLEASE}(?:order|get) me (?:an? )?(?:pizza|taxi|uber|cab|coffee|food)[\w ]*",
     _fixed(f"I cannot buy, book or order anything. {_ONLY_TALK}")),
    (rf"{PLEASE}(?:search|google|look up|browse|look)(?: the)? ?(?:internet|web|online|google|it up|for"
     rf"|on)\b.*|{PLEASE}(?:search|google|look up) .+|{PLEASE}take a (?:picture|photo|selfie|screenshot"
     rf"|note)\b.*",
     _fixed(f"I have no access to the internet or to your device. {_ONLY_TALK}")),
    # Small tasks
    (rf"{PLEASE}(?:tell|say|give|know|do you know|make)?(?: me| us)?(?: a| an| any| another| one more| some|"
     rf" your best| the)*(?: funny| good| short| clean| dad| silly| new)* ?jokes?(?: please| about .*)?|"
     rf"(?:make me laugh|tell me something funny|another joke|do you know (?:a|any) (?:good"
     rf" )?jokes?)", _joke),
    (rf"{PLEASE}(?:flip|toss|throw) a coin|heads or tails", _coin),
    (rf"{PLEASE}(?:roll|throw) (?:a|the) (?:dice|die)", _die),
    (rf"(?:how (?:do|would|can) (?:you|i|we) (?:spell|write)|how is|what is the spelling of|{PLEASE}spell)"
     rf"(?: the word| out| me)* (?P<word>[a-z']+)(?: spelled| spelt)?(?: for me)?", _spell),
    (r"how many letters (?:are |does |do |is |there )*(?:in )?(?:the word )?(?P<word>[a-z]+)(?: have|"
     r" has)?", _letters),
    (rf"{PLEASE}count(?: backwards?| down)?(?: up)?(?: from (?P<first>\d+))?(?: (?:up |down )?to "
     rf"(?P<last>\d+))?(?: for me)?(?: backwards?)?", _count),
    (r"(?:what|which) letter (?:comes|is|follows)(?: right| just)? (?P<side>after|before)(?: the letter)?"
     r" (?P<letter>[a-z])(?: in the alphabet)?", _next_letter),
    (r"how many (?:letters )?(?:are |is )?(?:there )?(?:in )?the (?:english )?alphabet(?: have)?(?:"
     r" letters)?|how many letters does the (?:english )?alphabet"
     r" have", _fixed("The English alphabet has 26 letters.")),
    (rf"{PLEASE}(?:say|recite|tell me|sing|what is)? ?the (?:alphabet|abc)s?",
     _fixed("A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z.")),
    (r"how (?:many|much) (?:\w+ )?(?:are |is |makes? )*(?:there )?(?:in )?a"
     r" dozen", _fixed("A dozen is 12.")),
)  # fmt: skip


RULES = tuple((re.compile(pattern), answer) for pattern, answer in (*SIGHT_ROWS, *_ROWS))
