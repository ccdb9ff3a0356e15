"""Rules for small talk: what people say of themselves, and questions of taste."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.reference.dictionary import EntryKind, dictionary
from antiphon.inference_worker.engines.local.rules.facts_and_jokes import (
    ANOTHER_JOKE,
    FACT_AND_JOKE_ROWS,
    another_joke,
)
from antiphon.inference_worker.engines.local.rules.follow_up import GO_ON
from antiphon.inference_worker.engines.local.rules.situation import Answer, Situation
from antiphon.inference_worker.engines.local.rules.text import PLEASE
from antiphon.inference_worker.engines.local.rules.verdicts import VERDICT_ROWS

_VERY = r"(?:(?:so|very|really|quite|pretty|a bit|a little|kind of|just|too|all|still|always|also|feeling) )*"
_WHEN = (
    r"(?: (?:today|tonight|tomorrow|now|right now|at the moment|this (?:morning|afternoon|evening|week"
    r"|year|time)|these days|lately|yesterday"
    r"|last (?:night|week|month|year|spring|summer|autumn|fall|winter|[a-z]+day)"
    r"|(?:an?|\d+) (?:days?|weeks?|months?|years?) ago|again|too|as well|a lot|so much"
    r"|on (?:the )?\d{1,2}(?:st|nd|rd|th)?(?: of)? [a-z]+|on [a-z]+ (?:the )?\d{1,2}(?:st|nd|rd|th)?"
    r"|very much|of all|actually|really|soon|next (?:week|month|year)|on [a-z]+day|at all))*"
)
_I_AM = rf"(?:well |oh |honestly |you know |today )?i (?:am|feel|have been|was) {_VERY}"
_KIN = (
    r"(?:dog|cat|pet|bird|fish|hamster|rabbit|horse|mother|mom|mum|father|dad|grandmother|grandma"
    r"|grandfather|grandpa|brother|sister|son|daughter|wife|husband|friend|best friend|uncle|aunt|cousin"
    r"|neighbou?r|girlfriend|boyfriend|partner|child|baby|boss|teacher|colleague)"
)
_SOMETHING = r"(?!(?:it|that|this|you|your|to)\b)[a-z'-]+(?: [a-z'-]+){0,4}?"
_THING = rf"(?P<thing>{_SOMETHING})"
_NO_PERSON = (
    r"(?!(?:him|her|them|me|my|myself|every\w+|some\w+|nobody|people|not|when|what|how|where|being|up"
    r"|the pain)\b)(?!.*\byou\b)"
)
"""Before what the user likes or hates: other words than those for a thing need another answer."""
_TEST = (
    r"(?:a|an|my|the) (?:talk|speech|presentation|test|exam|interview|job interview|paper|essay|lecture"
    r"|driving test|report)(?: about [a-z' ]+?)?"
)
_OF_LATE = r"(?:just |have |finally |recently )*"


def _of(sentence: str) -> Answer:
    """`sentence` with what the user said in place of {thing}, as the user would hear it."""

    def answer(found: re.Match[str], _: Situation) -> str:
        return sentence.format(
            **{name: _turned(said) for name, said in found.groupdict("").items()}
        )

    return answer


def _of_program(sentence: str) -> Answer:
    """Not for an assistant that the client's prompt has given another name."""
    said = _of(sentence)
    return lambda found, situation: None if situation.persona else said(found, situation)


_SWAPPED = {
    "my": "your",
    "i": "you",
    "me": "you",
    "am": "are",
    "mine": "yours",
    "myself": "yourself",
}


def _turned(said: str) -> str:
    return " ".join(_SWAPPED.get(word, word) for word in said.split())


_NICE_NAME = "is a nice name."


def _nice_name(found: re.Match[str], _: Situation) -> str:
    thing = found.groupdict().get("thing")
    more = f" Tell me more about your {thing}." if thing else ""
    return f"{found['name'].title()} {_NICE_NAME}{more}"


def _other_name(found: re.Match[str], situation: Situation) -> str | None:
    """The name that the user gave was misheard."""
    return _nice_name(found, situation) if _NICE_NAME in situation.previous else None


_YES = r"(?:yes|yeah|yep|sure|of course|why not|gladly|ok|i do|i would|please)(?: please| i do| sure| tell me)*"
_TELL_ME = ("Do you want to tell me what happened?", "Do you want to tell me about")


def _yes(found: re.Match[str], situation: Situation) -> str | None:
    previous = situation.previous
    if previous.endswith(ANOTHER_JOKE):
        return another_joke(found, situation)
    if any(text in previous for text in _TELL_ME):
        return "I am listening."
    if GO_ON.fullmatch(found[0]) and previous and not previous.endswith("?"):
        return "That was all. What else would you like to know?"
    return None


def _no(_: re.Match[str], situation: Situation) -> str | None:
    asked = situation.previous.endswith("?")
    return "All right. What else can I do for you?" if asked else None


_SORRY = "I am sorry to hear that."
CONDOLENCE = "I am very sorry about your"


def _rows(answer: Answer | str, *patterns: str) -> list[tuple[str, Answer]]:
    function = _of(answer) if isinstance(answer, str) else answer
    return [(pattern, function) for pattern in patterns]


_WORKS = re.compile(
    r"\b(?:specialist|professional|craftsman|tradesman|artisan|practitioner|expert|scientist|engineer|educator|athlete"
    r"|performer|artist|musician|officer|official|employed|licensed|trained|skilled|(?:who|that|whose) "
    r"(?:job|work|occupation|repairs|installs|designs|sells|builds|writes|teaches|practices|works|drives|cooks|cares"
    r"|operates|manages|makes (?!trouble)))\b"
)
"""In the definition of a job."""


def _on_a_job(found: re.Match[str], _: Situation) -> str | None:
    entry = dictionary().find(found["job"].split()[-1]).get(EntryKind.THING)
    is_job = entry is not None and entry.form.islower() and _WORKS.search(entry.text)
    return "That sounds interesting. What do you like about it?" if is_job else None


def _on_an_age(_: re.Match[str], situation: Situation) -> str:
    goes_on = "Please go on." if situation.said else "What shall we talk about?"
    return f"Thank you for telling me. {goes_on}"


def _on_a_journey(found: re.Match[str], _: Situation) -> str | None:
    if EntryKind.PLACE not in dictionary().find(found["place"]):
        return None
    return "That sounds good. What are you going to do there?"


_ROWS: tuple[tuple[str, Answer], ...] = (
    # How the user is
    *_rows(
        f"{_SORRY} Do you want to tell me what happened?",
        rf"{_I_AM}(?:sad|unhappy|depressed|lonely|heartbroken|miserable|down|upset|hurt|homesick){_WHEN}",
        rf"i (?:do not feel|am not feeling) (?:so |very )?(?:good|well|great|happy){_WHEN}",
        rf"i (?:feel|am feeling) (?:so |very )?(?:bad|terrible|awful|horrible){_WHEN}",
        rf"i am not (?:ok|well|good|fine|happy){_WHEN}",
        rf"(?:it was|i had|i am having) a (?:bad|hard|terrible|awful|rough|horrible) (?:day|week)"
        rf"(?: at (?:work|school|home))?{_WHEN}",
        rf"my {_KIN} (?:yelled|shouted|screamed|laughed|swore) at me{_WHEN}",
        rf"my {_KIN} (?:was|is) (?:so |very |really )*(?:mean|rude|angry|nasty|unfair)(?: (?:to|with"
        rf"|at) me)?{_WHEN}",
    ),
    *_rows(
        "Good luck!",
        r"(?:please )?(?:wish me (?:good )?luck|(?:cross|keep) your fingers(?: crossed)?(?: for me)?)",
    ),
    *_rows(
        "Sleep well!",
        r"i (?:am (?:going|off) to|will go to|have to go to) (?:bed|sleep)(?: now| soon)*",
    ),
    *_rows(
        "That sounds tiring. I hope you can rest soon.",
        rf"{_I_AM}(?:tired|exhausted|sleepy|worn out){_WHEN}",
        rf"i (?:did not|cannot) (?:fall a)?sleep(?: well| much| at night)?{_WHEN}",
        rf"i (?:slept badly|need (?:some )?sleep|had a long day){_WHEN}",
    ),
    *_rows(
        "I hope you feel better soon. If it gets worse, ask a doctor.",
        rf"{_I_AM}(?:sick|ill|unwell|in pain){_WHEN}",
        rf"my (?!chest|heart)[a-z]+ (?:hurts?|aches?|is (?:hurting|sore|killing me))(?: badly)?{_WHEN}",
        rf"i have (?:a|the) (?:cold|flu|headache|fever|stomach ?ache|toothache|cough|sore throat){_WHEN}",
    ),
    *_rows(
        "That is not easy. What worries you most?",
        rf"{_I_AM}(?:stressed(?: out)?|nervous|worried|anxious|afraid|scared|frightened|overwhelmed)"
        rf"(?: (?:about|of) [a-z' ]+?)?{_WHEN}",
    ),
    *_rows(
        "I understand. What happened?",
        rf"{_I_AM}(?:angry|mad|annoyed|frustrated|furious|disappointed)"
        rf"(?: (?:about|at|with|by) [a-z' ]+?)?{_WHEN}",
    ),
    *_rows(
        "That is good to hear! What made it so good?",
        rf"{_I_AM}(?:happy|excited|glad|great|wonderful|fantastic|amazing|in a good mood|proud|delighted)"
        rf"(?: (?:about|for|of|with) [a-z' ]+?)?{_WHEN}",
        rf"i (?:had|am having) a (?:good|great|nice|wonderful) (?:day|time|week){_WHEN}",
    ),
    *_rows(
        "Good. What shall we talk about?",
        rf"{_I_AM}(?:fine|ok|good|well|alright|all right)(?: thanks| thank you)*{_WHEN}",
    ),
    *_rows(
        "I am a program, so I am always fine. What would you like to know?",
        r"(?:and |what about |how about )+(?:you|yourself)",
    ),
    *_rows("Then it is time to eat. What do you feel like?", rf"{_I_AM}hungry{_WHEN}"),
    *_rows("Then have a glass of water. I can wait.", rf"{_I_AM}thirsty{_WHEN}"),
    # What happened to the user
    *_rows(
        f"{CONDOLENCE} {{who}}. Do you want to tell me about your {{who}}?",
        rf"(?:(?:my|our) )?(?P<who>{_KIN}) (?:has |just |recently )*(?:died|passed away|is dead){_WHEN}",
    ),
    *_rows(
        "I am sorry about your {who}. I hope it gets better soon.",
        rf"(?:my|our) (?P<who>{_KIN}) (?:is|has been|got|feels) {_VERY}"
        rf"(?:sick|ill|in (?:the )?hospital|hurt|injured|sad|lonely){_WHEN}",
    ),
    *_rows(
        f"{_SORRY} How are you now?",
        rf"(?:my|our) {_KIN} (?:is|are) (?:leaving|moving away|moving|going away)"
        rf"(?: (?:to|from|for) [a-z' ]+?)?{_WHEN}",
        rf"(?:my|our) {_KIN} (?:has |just )*(?:left me|broke up with me|ran away|is gone){_WHEN}",
        rf"i {_OF_LATE}(?:lost|broke|missed) my {_SOMETHING}{_WHEN}",
        rf"i {_OF_LATE}(?:failed|was fired|got fired|got divorced)(?: [a-z' ]+?)?{_WHEN}",
    ),
    *_rows(
        "Congratulations! Tell me more about it.",
        rf"i {_OF_LATE}(?:won|passed|finished|graduated)(?: (?:my|the|a|an|from) {_SOMETHING})?{_WHEN}",
        rf"(?:i|we) {_OF_LATE}got (?:promoted|engaged|married){_WHEN}",
        r"(?:(?:i am|we are|my \w+ is) )(?:going to have|having|expecting) a baby|i am pregnant",
        r"(?!.*\b(?:disease|illness|infection|virus|injury|allergy|pain|cough|cold|fever|bills?|problems?|debts?)\b)"
        rf"i {_OF_LATE}(?:got|found|bought) (?:a|my) (?:new |first |own )+{_SOMETHING}{_WHEN}",
        rf"(?:it|today) is my birthday{_WHEN}|i am (?:getting married|engaged){_WHEN}",
    ),
    *_rows(
        _on_an_age,
        r"i am \d{1,3}(?: years old)?",
    ),
    # What the user does
    *_rows(
        "That is a good thing to learn. How is it going?",
        r"i (?:am learning|am studying|study|learn|started learning|want to learn)(?: how)?(?: to)? "
        rf"{_SOMETHING}{_WHEN}",
    ),
    *_rows(
        "Good luck with that! How can I help you to prepare?",
        r"i (?:have to|must|need to|am going to|will) (?:give|hold|take|write|do|have|make|prepare|go to"
        rf"|pass) {_TEST}{_WHEN}",
        rf"i have (?:got )?{_TEST}{_WHEN}(?: and i am {_VERY}(?:nervous|excited|scared|worried))?",
    ),
    *_rows(
        "All right. I cannot remind you, but I hope that your {thing} goes well.",
        r"(?:i (?:have|have got|am having)|there is) (?:an?|my|the) (?:[\w']+ )?"
        r"(?P<thing>meeting|appointment|call|date|class"
        r"|lesson|flight|party|concert|game|match|audition)(?: (?:with|about|for) [a-z' ]+?)?"
        rf"(?: (?:at|in|on) [a-z0-9:' ]+?)?{_WHEN}",
    ),
    *_rows(
        "I keep that in mind, but I cannot remind you.",
        r"(?:my|our) (?:[\w']+ )?(?:birthday|anniversary|wedding|exam|test|interview|flight|trip|holiday"
        r"|vacation"
        r"|train|appointment) (?:is|leaves|starts|begins) (?:on |in |at )?(?:the )?(?:\d|tomorrow|tonight"
        r"|next|noon"
        r"|[a-z]+day|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* )\S*(?: \S+){0,3}",
    ),
    *_rows(
        "That sounds interesting. What do you like about it?",
        rf"i (?:work|am working) (?:as|at|in|for) {_SOMETHING}{_WHEN}",
        r"i am an? (?:\w+ )?(?:teacher|nurse|doctor|student|engineer|programmer|developer|cook|driver|artist"
        r"|writer|lawyer|scientist|musician|pilot|farmer|police ?(?:man|woman)|baker|pensioner)",
    ),
    *_rows(
        _on_a_job,
        rf"i (?:am|was|used to be|have been|worked as) an? (?P<job>[a-z' -]+?)(?: for [a-z0-9 ]+)?{_WHEN}"
        r"(?: you know)?",
    ),
    *_rows(
        _on_a_journey,
        rf"i (?:am|will be) (?:going|moving|flying|travell?ing|driving) to (?P<place>[a-z' -]+?){_WHEN}",
    ),
    *_rows(
        "What do you like most about it there?",
        rf"i (?:am|come|am come|came|am coming|am calling) (?:originally )?from {_SOMETHING}|i (?:live"
        rf"|am living) in {_SOMETHING}{_WHEN}",
    ),
    *_rows(
        "That sounds good. What are you going to do there?",
        rf"i (?:will go|am flying|am travell?ing) (?:on (?:vacation|holiday)|to [a-z' ]+?){_WHEN}",
        r"i am going (?:on (?:vacation|holiday)|to (?:the|an?) (?:beach|cinema|movies|mountains|sea|lake"
        r"|park|zoo"
        rf"|theat(?:re|er)|pool|museum|concert|party|restaurant|wedding|festival)){_WHEN}",
    ),
    *_rows(
        "All right. I am listening if you want to talk about something.",
        r"(?:maybe|perhaps|possibly|whatever|nothing|nah|meh|i guess)(?: (?:so|not|much|really|special|else))*",
    ),
    *_rows(
        "I liked talking with you, too.",
        r"(?:it (?:was|is)|that was) (?:so |very |really )?(?:nice|good|great|lovely|fun) (?:talking|chatting"
        r"|speaking|to talk|to chat|to speak) (?:to|with) you",
    ),
    *_rows("All right.", r"(?:please )?say nothing|(?:be|keep) (?:quiet|silent)"),
    # What the user likes and has
    *_rows(
        "Good choice. What do you like most about {thing}?",
        rf"i (?:(?:really|also|do|just) )*(?:like|love|enjoy|adore|prefer) {_NO_PERSON}{_THING}{_WHEN}",
    ),
    *_rows(
        "That sounds like fun. How often do you do it?",
        rf"i (?:(?:really|also|do|just) )*(?:like|love) to (?!be\b|kill|hurt|die){_SOMETHING}{_WHEN}",
    ),
    *_rows(
        "All right, no {thing}. What do you like instead?",
        r"i (?:(?:really|also|just) )*(?:do not like|do not enjoy|dislike|hate|cannot stand|do not eat) "
        rf"{_NO_PERSON}{_THING}(?: any ?more)?{_WHEN}",
    ),
    *_rows(
        "I will keep in mind that your favorite {thing} is {what}. Why do you like it?",
        r"my favou?rite (?P<thing>[a-z]+(?: [a-z]+)?) (?:is|are) (?P<what>[a-z' ]+)",
    ),
    *_rows(
        _nice_name,
        r"(?:his|her|its) name (?:is|was) (?P<name>[a-z'-]+)",
        r"(?:he|she) (?:is|was) (?:called|named) (?P<name>[a-z'-]+)",
        rf"i (?:have|got|have got) (?:an?|1)(?: [a-z]+)? (?P<thing>{_KIN}) (?:called|named)"
        r" (?P<name>[a-z'-]+)",
        rf"my (?P<thing>{_KIN}) is (?:called|named) (?P<name>[a-z'-]+)",
        rf"my (?P<thing>{_KIN})'s name is (?P<name>[a-z'-]+)(?: and .*)?",
    ),
    (
        r"(?:(?:(?:no|sorry|wait|actually) )+it is|(?:(?:no|sorry|wait|actually) )*(?:i meant|i said))"
        r" (?P<name>[a-z'-]+)",
        _other_name,
    ),
    # The assistant
    *VERDICT_ROWS,
    *_rows(
        _of_program("A program speaks here, and I sound like one."),
        rf"(?:you|your voice) (?:sounds?|speaks?|talks?|is) {_VERY}(?:like )?(?:an? )?(?:robot|machine"
        r"|computer|strange|weird|odd|unnatural|artificial|mechanical|metallic)(?:ic|ly)?",
        r"why do(?:es)? (?:you|your voice) (?:sound|speak|talk) (?:like|so) .+",
    ),
    *_rows(
        "I can only play a quiz, riddles, and rock, paper, scissors. Say: quiz me, or: tell me a riddle.",
        r"(?:let us|(?:can|could|shall) (?:we|you)|(?:do|would) you (?:want|like) to|i want to)"
        r" play(?! (?:the|football|tennis|basketball|soccer|golf)\b)(?! (?:me )?some\b(?! game))"
        r"(?!.*\b(?:quiz|trivia|music|songs?|riddles?|role|part|scissors)\b) [a-z0-9' -]+",
        r"(?:do you know |tell me )?(?:an?|any|some|another) (?:good |nice |fun )?games?",
        r"what games (?:do|can) (?:you|we) (?:know|play)",
        r"(?:tic[ -]tac[ -]toe|truth or dare|simon says|hangman"
        r"|20 questions)(?: .*)?|marco",
    ),
    *_rows(
        _of_program("I cannot whisper, but I can speak more quietly. Say: quieter, please."),
        r"(?:can you |could you |please )*whisper(?: (?:to me|something|it|that))?",
    ),
    *_rows(
        "It is hard to miss somebody. I am listening.",
        rf"i (?:really |still )?miss (?:him|her|them|my {_KIN}|my {_KIN}s|home){_WHEN}",
    ),
    *_rows("I am not good at rhymes. Ask me for a joke or a story.", r".+ rhymes? with .+"),
    *_rows(
        "Thank you, and the same to you!",
        r"(?:i wish you (?:a )?)?(?:merry|happy) (?:birthday|christmas|new year|easter|holidays|thanksgiving"
        r"|halloween|hanukkah"
        r"|diwali|weekend)(?: to you| everyone| too)*",
    ),
    *_rows(
        "Are you all right?", r"(?:ouch|ow|oops|whoops|uh-?oh|oh no|oh dear|argh?)(?: that hurts?)?"
    ),
    *_rows(
        "You said it well. I understand you.",
        r"(?:i am )?sorry (?:for|about) my (?:bad |poor |terrible )?english|my english is (?:not|bad|poor"
        r"|terrible)\b.*",
    ),
    *_rows(
        "Thank you.",
        r"(?:that is an? |what an? |i like your )(?:very )?(?:nice |good |pretty |beautiful )?name"
        r"|(?:very )?(?:nice|good|pretty|beautiful) name",
    ),
    *_rows(
        _of_program("I am a program, so I have no favorite {thing}. What is yours?"),
        r"(?:what (?:is|are) your|do you have (?:an?|any)) (?:own )?favou?rite (?P<thing>[a-z]+(?: [a-z]+)?)"
        r"(?: and why)?",
        r"(?:what|which) (?P<thing>[a-z]+) do you (?:like|prefer)(?: best| most)?",
        rf"{PLEASE}(?:recommend|suggest)(?: me)? (?:an?|some|any)(?: (?:good|nice|great|new))* "
        r"(?P<thing>band|album|podcast|restaurant)s?(?: (?:for|to|about|near|with|that) .*)?",
        r"(?:what|which) (?P<thing>album|podcast)s? (?:should|can|do you think) i .+",
    ),
    *_rows(
        _of_program(
            "I am a program and have no taste, but I can talk about {thing}. Do you like it?"
        ),
        r"do you (?:like|love|enjoy|prefer|listen to|watch|play|eat|drink|read) "
        r"(?P<thing>(?!(?:me|it|that|this|to|us|him|her|them|my|our|your|any|anyone|what|how"
        r"|being)\b)[a-z]+(?: [a-z]+){0,2})",
    ),
    *_rows(
        _of_program("I am a program, so I have no opinion about {thing}. What do you think?"),
        rf"(?:what (?:do you think|is your opinion|are your thoughts)|do you have an opinion|how do you feel)"
        rf" (?:about|of|on) {_THING}",
    ),
    *_rows(
        "I am a program, so I have no opinion. What do you think?",
        r"(?:who|which party|what) (?:should|would|do|will|shall) (?:i|you|we) vote for(?: in .*)?"
        r"|what do you think|do you agree|what is your opinion",
        r"(?:is there|does) (?:a )?god(?: exist)?|do you believe in [a-z ]+|is there (?:a )?life after death",
        r"(?:what|which|who) is the (?:best|greatest|worst|nicest|most beautiful)"
        r" (?:movie|film|song|book|band|game|food|colou?r|animal|car|sport|team|country|city|singer|actor"
        r"|series|show|religion|party|player|president)(?: ever| of all time| in the world)*",
    ),
    # Answers to what the assistant has asked
    *_rows(_yes, _YES, GO_ON.pattern),
    *_rows("What else can I do for you?", r"(?:(?:ok|alright|all right|fine)(?: |$))+"),
    *_rows(
        _no,
        r"(?:no|nope|nah|not really|no thanks|no thank you|rather not|not now|maybe later| "
        r"|i do not (?:feel like it"
        r"|want to))+",
    ),
    *_rows(
        "Take your time.",
        r"(?:h+m+|u+h+|u+m+|er+m*|mm+|a+h+|mm+-?h+m+|uh-?huh)(?: (?:h+m+|u+h+|u+m+|well))*",
    ),
    # What to talk about
    *_rows(
        "Tell me about your day, ask me for a fact or a joke, or say: quiz me.",
        r"(?:so )?what (?:can|should|shall|could|do you want to|would you like to|do you) (?:we |i )?"
        r"(?:like to )?(?:talk|chat|speak)(?: (?:to|with) you)?(?: about)?(?: with you)?",
        r"let us (?:talk|chat)(?: a (?:bit|little))?|(?:can|could|shall) we (?:talk|chat)|talk to me",
        r"(?:i want|i would like) to (?:talk|chat)(?: to you| with you)?|entertain me",
        r"i do not know what to (?:say|ask|do)|ask me (?:something|a question)",
    ),
    *_rows(
        "Gladly. What is the question?",
        rf"(?:can you |could you |please |i need )*help(?: me)?(?: with)? (?:my|some|the|a) (?:homework"
        rf"|exercise|task|problem|question|exam|test|maths?)(?: {_SOMETHING})?",
    ),
    *_rows(
        "Gladly. What would you like to talk about?",
        r"(?:let us|can we|i want to|i would like to) (?:talk|chat|speak) about (?:something|anything)"
        r"(?: else)?(?: now)?",
        r"(?:let us|can we|please|i want to) change (?:the )?(?:topic|subject)|(?:new|another) (?:topic"
        r"|subject)",
    ),
    *_rows(
        "Gladly. What would you like to know about {thing}?",
        rf"(?:let us|can we|i want to|i would like to) (?:talk|chat|speak) about (?!(?:me|my"
        rf"|suicide)\b){_THING}",
    ),
    *_rows(
        "I am here, and I listen. How was your day?",
        r"(?:i am |i feel )?(?:so |very )?lonely|keep me company|i need (?:someone|somebody) to talk to"
        r"|i have (?:no friends|nobody to talk to)",
    ),
    *FACT_AND_JOKE_ROWS,
)


SMALL_TALK = tuple((re.compile(pattern), answer) for pattern, answer in _ROWS)
