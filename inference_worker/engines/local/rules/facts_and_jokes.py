"""What the assistant tells when asked for a fact, a joke or a story, and what follows one: "Another one"."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.rules.follow_up import STOPPED, is_passing
from antiphon.inference_worker.engines.local.rules.ideas import IDEA_TEXTS, IDEAS
from antiphon.inference_worker.engines.local.rules.situation import Answer, Situation, fixed
from antiphon.inference_worker.engines.local.rules.text import PLEASE, peeled, plain

ANOTHER_JOKE = "Shall I tell another one?"

_STILL_MEANT = 5
"""So many turns after a request, "another one" still means the same."""

FACTS = (
    "Honey never spoils. People have found honey that is thousands of years old and still good.",
    "An octopus has three hearts, and its blood is blue.",
    "A day on Venus is longer than a year on Venus.",
    "Bananas are berries, but strawberries are not.",
    "The Eiffel Tower is about 15 centimetres taller in summer, because iron grows with heat.",
    "Sea otters hold hands while they sleep, so that they do not drift apart.",
    "There are more trees on Earth than stars in our galaxy.",
    "A bolt of lightning is about five times hotter than the surface of the Sun.",
    "Wombats make droppings in the shape of cubes.",
    "The shortest war in history lasted less than an hour. It was in Zanzibar in 1896.",
)


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


_STORIES = (
    "Once there was a lighthouse keeper who was afraid of the dark. Every night he climbed the stairs and lit "
    "the lamp, and every night he kept his eyes closed until it burned. One evening the lamp broke. A small "
    "ship was coming, so he opened the window and began to sing, as loud as he could. The captain heard the "
    "song and turned away from the rocks. In the morning she knocked at his door. How did you find your way "
    "in the dark, he asked. I did not see anything, she said, but I heard somebody who was braver than he "
    "thought. Since then he sings every night, and he keeps his eyes open.",
    "A young fox wanted to catch the moon. It climbed the highest hill, and jumped, and fell into a pond. "
    "There was the moon, right beside it, on the water. The fox did not dare to move, because each step made "
    "the moon tremble. So it sat still all night, for the first time in its life. It heard the owls, and the "
    "wind, and a mouse that was telling its children a story. When the sun rose, the moon was gone. Did you "
    "catch it, asked the other foxes. No, said the fox, but it stayed with me until the morning.",
    "An old robot repaired clocks in a small town. It was slow, and people wanted to replace it. One winter "
    "all the clocks stopped, because of the cold, and no one knew when to open the school or when to bake the "
    "bread. Only the robot was never late. Every morning it went from door to door and knocked. It is seven, "
    "it said, good morning. When spring came, all the clocks ran again. But people asked the robot to keep "
    "knocking. A clock tells the time, said the baker, but it does not say good morning.",
)


_TWISTERS = (
    "She sells sea shells by the sea shore.",
    "Six slippery snails slid slowly seaward.",
    "A proper copper coffee pot.",
    "Red lorry, yellow lorry, red lorry, yellow lorry.",
    "How much wood would a woodchuck chuck if a woodchuck could chuck wood?",
)
_SAYINGS = (
    "A journey of a thousand miles begins with a single step. Lao Tzu said that.",
    "No act of kindness, no matter how small, is ever wasted. That is a moral of Aesop.",
    "He who has a why to live can bear almost any how. Nietzsche wrote that.",
    "Well begun is half done. That is a proverb.",
    "What is worth doing is worth doing well. That is a proverb, too.",
)

_COMPLIMENTS = (
    "You are curious, and that is how everything good begins.",
    "You ask nicely. Not everybody does.",
    "It is good to talk with somebody who listens to the end.",
)


def _another(found: re.Match[str], situation: Situation) -> str | None:
    """The user may have interrupted the last one, and said that it is enough."""
    for text in map(plain, situation.said[: -_STILL_MEANT - 1 : -1]):
        for asked, answer in _REQUESTS:
            if any(map(asked.fullmatch, peeled(text))):
                return answer(found, situation)
        if not (
            any(map(_ANOTHER.fullmatch, peeled(text)))
            or any(one.fullmatch(text) for one in (_KNOWN, _PRAISES, _BLAMES))
            or _STOPS.search(text)
            or is_passing(text)
        ):
            return None
    return None


def _end_of_joke(_: re.Match[str], situation: Situation) -> str | None:
    is_joke = situation.previous in _JOKES
    return f"A joke that has to be explained is not funny. {ANOTHER_JOKE}" if is_joke else None


def _not_again(found: re.Match[str], situation: Situation) -> str | None:
    """The user knows the joke, fact or story."""
    known = situation.previous in (*FACTS, *_JOKES, *_STORIES, *_TWISTERS, *_SAYINGS)
    return _another(found, situation) if known else None


def _verdict(begin: str) -> Answer:
    """To praise or blame of what was told, as in "I am glad."."""

    def answer(found: re.Match[str], situation: Situation) -> str | None:
        if situation.previous in _JOKES or "joke" in found[0]:
            return f"{begin} {ANOTHER_JOKE}"
        told = situation.previous in (*FACTS, *_STORIES, *_TWISTERS, *_SAYINGS, *IDEA_TEXTS)
        return f"{begin} What else would you like to know?" if told else None

    return answer


def _next_of(texts: tuple[str, ...], asked: re.Pattern[str], situation: Situation) -> str:
    """Each day begins with another one, and continues with each request."""
    more = (asked, _ANOTHER, _KNOWN, _PRAISES, _BLAMES)
    count = sum(
        any(one.fullmatch(form) for form in peeled(plain(text)) for one in more)
        for text in situation.said
    )
    return texts[(situation.now.toordinal() + count) % len(texts)]


_ASK = (
    rf"(?:{PLEASE}(?:tell|give|say|know|make|share|read)(?: (?:me|us))?|do you (?:know|have|tell)"
    rf"|have you got|got"
    r"|(?:(?:let (?:us|me)|(?:can|could|may) (?:i|we)|(?:i|we) (?:want|would like) to) (?:hear|have|get))"
    r"|(?:i|we) (?:want|would like|need)|are there)"
)
_ONE_OR_SOME = r"(?:an?|any|another|1 more|some|more)"
_ANOTHER = re.compile(
    rf"(?:{_ASK} )?(?:another|1 more|(?:any )?more)(?: 1)?|next(?: 1)?"
    r"|(?:do you have|have you got|got|are there) (?:any|some) (?:others?|more)|any (?:others?|more)"
    rf"|{_ASK} 1 (?:for|that|with|about|my|i)\b.*|{_ASK} a (?:better|different|new|cleaner|funnier|good"
    rf"|shorter) 1"
    r"|(?:(?:do you have|give me|tell me) )?(?:another|other|(?:any|some|1) (?:other|more)|more) (?:ideas?"
    r"|suggestions?|recommendations?|names|questions?)|(?:something|what) else"
    r"|something (?:funnier|better|different|new|shorter|simpler)"
)
_KNOWN = re.compile(
    r"(?:you (?:have )?(?:already |just )*(?:told|said)(?: me)?|i (?:already )?(?:know|have heard|heard))"
    r" (?:that|this|it|the same)(?: 1| joke| fact| story)?(?: before)?"
)
_FACT = re.compile(
    r"(?:(?:can you |could you )?(?:tell|give) me |do you know |say |i want to hear )"
    r"(?:something (?:interesting|fun|cool|new|amazing|surprising)(?: i do not know)?"
    r"|an? (?:(?:random|interesting|fun|cool|surprising|amazing|weird) )+(?:fact|thing))"
    r"|i am (?:so |very )*bored(?: .*)?|(?:that is |this is )?boring|fun facts?"
    rf"|{PLEASE}(?:teach|tell) me something(?: (?:new|useful))?"
    rf"|(?:{_ASK} )?{_ONE_OR_SOME}(?: (?:random|interesting|fun|cool|surprising|amazing|weird))* facts?"
)
_STORY = re.compile(
    rf"(?:{_ASK} )?{_ONE_OR_SOME}(?: (?:short|little|nice|good|new|bedtime|fairy|funny|long|scary))*"
    r" (?:story|stories|tales?)(?: for (?:me|us|my .*|the .*))?"
    rf"|{_ASK} (?:stories|tales)"
)
_JOKE = re.compile(
    rf"(?:{_ASK}(?: {_ONE_OR_SOME}| the| your best)?|{_ONE_OR_SOME})?"
    r"(?:(?<=[a-z]) (?:(?:funny|good|short|clean|dad|silly|new|nice) )*)?(?<![a-z])jokes?"
    r"(?: please| about .*| for (?:me|us|my .*|the .*))?"
    rf"|make me laugh|cheer me up|{PLEASE}(?:tell (?:me|us)|say) something funny"
)

_TWISTER = re.compile(
    rf"{PLEASE}(?:(?:tell|say|give|teach|do you know)(?: me)? )?(?:a|any|some|another)"
    r"(?: (?:good|nice|funny|hard|difficult|short))* ?(?:tongue ?)?twisters?"
)
_SAYING = re.compile(
    rf"{PLEASE}(?:(?:tell|say|give|read|do you know|share)(?: me)? )?(?:a|any|some|another|the)"
    r"(?: (?:good|nice|wise|famous|inspiring|inspirational|motivational|positive|short))* ?"
    r"(?:quotes?|quotation|saying|proverb|words? of wisdom|inspiration|motivation)(?: of the day| for today)?"
    r"|(?:please )?(?:inspire|motivate) me"
    rf"|(?:{PLEASE}(?:give|tell|have)(?: me)? |do you have )?(?:some|any|1 piece of|a piece of) "
    r"(?:good |wise )?advice(?: for me)?"
)
_COMPLIMENT = re.compile(
    rf"{PLEASE}(?:(?:give|pay) me an? (?:\w+ )?compliment|compliment me"
    r"|(?:say|tell me) something (?:nice|kind|sweet|positive)(?: (?:to|about) me)?)"
)

_THAT_WAS = (
    r"(?:(?:that|this|it)(?: 1| joke)? (?:is|was) )?(?:such )?(?:an? )?"
    r"(?:(?:very|really|so|quite|pretty|too) )*"
)
_PRAISES = re.compile(
    rf"(?:(?:ha ?)+ )?{_THAT_WAS}(?:good|great|nice|lovely|funny|hilarious|brilliant|clever|sweet|wonderful"
    rf"|amazing"
    r"|cute|awesome|cool|excellent|fun|the best)(?: 1| joke)?"
    r"|i (?:really )?(?:like|liked|love|loved|enjoyed) (?:that|it|this)(?: 1| joke)?|that made me (?:laugh"
    r"|smile)"
)
_BLAMES = re.compile(
    rf"{_THAT_WAS}(?:bad|awful|terrible|lame|boring|dumb|stupid|old|rubbish|horrible|corny|dreadful|the worst"
    r"|not (?:(?:very|that|so|really|too) )*(?:funny|good))(?: 1| joke)?"
    r"|i (?:did not|do not) (?:(?:really|even) )?(?:like|find) (?:it|that|this)(?: 1| joke)?(?: funny)?"
    r"|(?:that|it) did not make me laugh"
)
_STOPS = re.compile(
    r"\b(?:stop|enough|wait|funny|ha|nice|great|good|bad|cool|thanks|thank you|get it|understand|go on"
    r"|continue|and then)\b"
)
"""What users say of one before they want the next."""


def _next(texts: tuple[str, ...], asked: re.Pattern[str]) -> Answer:
    return lambda _, situation: _next_of(texts, asked, situation)


another_joke = _next(_JOKES, _JOKE)
_REQUESTS = (
    (_FACT, _next(FACTS, _FACT)),
    (_STORY, _next(_STORIES, _STORY)),
    (_JOKE, another_joke),
    (_TWISTER, _next(_TWISTERS, _TWISTER)),
    (_SAYING, _next(_SAYINGS, _SAYING)),
    (_COMPLIMENT, _next(_COMPLIMENTS, _COMPLIMENT)),
    *((asked, _next(texts, asked)) for asked, texts in IDEAS),
)

FACT_AND_JOKE_ROWS: tuple[tuple[str, Answer], ...] = (
    (r"i (?:do not|did not) (?:get|understand)(?: it| that| the joke)?|(?:can you )?explain (?:it|the joke)"
     r"|why is that funny|that is not funny", _end_of_joke),
    (r"(?:no(?: more)?|enough|stop (?:the|telling)) (?:jokes?|stories|facts?)", fixed(STOPPED)),
    (_PRAISES.pattern, _verdict("I am glad.")),
    (_BLAMES.pattern, _verdict("I am sorry.")),
    (_ANOTHER.pattern, _another),
    *((asked.pattern, answer) for asked, answer in _REQUESTS),
    (_KNOWN.pattern, _not_again),
)  # fmt: skip
