"""What the assistant tells when asked for a fact, a joke, a story or an idea."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.rules.follow_up import is_passing
from antiphon.inference_worker.engines.local.rules.ideas import IDEAS
from antiphon.inference_worker.engines.local.rules.situation import Answer, Situation
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


def _another(found: re.Match[str], situation: Situation) -> str | None:
    """The user may have interrupted the last one, and said that it is enough."""
    for text in map(plain, situation.said[: -_STILL_MEANT - 1 : -1]):
        for asked, answer in _STOCK:
            if any(map(asked.fullmatch, peeled(text))):
                return answer(found, situation)
        if not (
            any(map(_ANOTHER.fullmatch, peeled(text)))
            or _KNOWN.fullmatch(text)
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


def _next_of(texts: tuple[str, ...], asked: re.Pattern[str], situation: Situation) -> str:
    """Each day begins with another one, and continues with each request."""
    said = map(plain, situation.said)
    more = (asked, _ANOTHER, _KNOWN)
    count = sum(any(one.fullmatch(text) for one in more) for text in said)
    return texts[(situation.now.toordinal() + count) % len(texts)]


_ANOTHER = re.compile(
    r"(?:(?:tell|give) me )?(?:another|1 more|more)(?: 1)?|next(?: 1)?"
    r"|(?:do you have|have you got|got|are there) (?:any|some) (?:others?|more)|any (?:others?|more)"
    r"|do you have another 1"
    r"|(?:(?:do you have|give me|tell me) )?(?:another|other|(?:any|some|1) (?:other|more)|more) (?:ideas?"
    r"|suggestions?|recommendations?)|something else|what else"
)
_KNOWN = re.compile(
    r"(?:you (?:have )?(?:already |just )*(?:told|said)(?: me)?|i (?:already )?(?:know|have heard|heard))"
    r" (?:that|this|it|the same)(?: 1| joke| fact| story)?(?: before)?"
)
_FACT = re.compile(
    r"(?:(?:can you |could you )?(?:tell|give) me |do you know |say |i want to hear )"
    r"(?:something (?:interesting|fun|cool|new|amazing|surprising)(?: i do not know)?"
    r"|an? (?:(?:random|interesting|fun|cool|surprising|amazing|weird) )+(?:fact|thing)"
    r"|an? fact|some(?: fun| interesting)? facts?)|i am (?:so |very )*bored(?: .*)?|(?:that is "
    r"|this is )?boring|fun fact"
    r"|(?:tell me |give me )?another(?: fun| interesting)? fact"
)
_STORY = re.compile(
    rf"{PLEASE}(?:(?:tell|read) (?:me |us )?|i want to hear |do you know )(?:a|another|1 more)"
    r"(?: (?:short|little|nice|good|new|bedtime|fairy|funny))* (?:story|tale)"
)
_JOKE = re.compile(
    rf"{PLEASE}(?:tell|say|give|know|do you know|make)?(?: me| us)?(?: a| an| any| another| 1 more| some|"
    rf" your best| the)*(?: funny| good| short| clean| dad| silly| new)* ?jokes?(?: please| about .*)?|"
    r"make me laugh|cheer me up|(?:tell me|say) something funny"
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
)

_STOPS = re.compile(
    r"\b(?:stop|enough|wait|funny|ha|nice|great|good|bad|cool|thanks|thank you|get it|understand|go on"
    r"|continue|and then)\b"
)
"""What users say of one before they want the next."""


def _next(texts: tuple[str, ...], asked: re.Pattern[str]) -> Answer:
    return lambda _, situation: _next_of(texts, asked, situation)


another_joke = _next(_JOKES, _JOKE)
_STOCK = (
    (_FACT, _next(FACTS, _FACT)),
    (_STORY, _next(_STORIES, _STORY)),
    (_JOKE, another_joke),
    (_TWISTER, _next(_TWISTERS, _TWISTER)),
    (_SAYING, _next(_SAYINGS, _SAYING)),
    *((asked, _next(texts, asked)) for asked, texts in IDEAS),
)

STOCK_ROWS: tuple[tuple[str, Answer], ...] = (
    (_ANOTHER.pattern, _another),
    *((asked.pattern, answer) for asked, answer in _STOCK),
    (_KNOWN.pattern, _not_again),
    (r"i (?:do not|did not) (?:get|understand)(?: it| that| the joke)?|(?:can you )?explain (?:it|the joke)"
     r"|why is that funny|that is not funny", _end_of_joke),
)  # fmt: skip
