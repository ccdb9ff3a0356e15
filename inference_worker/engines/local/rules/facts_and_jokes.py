"""What the assistant tells when asked for a fact, a joke, a story or an idea."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.rules.follow_up import STOPPED, is_passing
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


_ONE = r"(?:an?|any|some|another|something)"
_GOOD = r"(?: (?:good|nice|great|new|old|classic|fun|easy|quick|simple|healthy|interesting))*"
_WHEN = r"(?: (?:today|tonight|now|tomorrow|this evening|this afternoon|this morning|later))?"
_SHOULD = r"(?:should|shall|can|could|do|would) (?:i|we)"


def _meal(name: str) -> str:
    """The user asks for an idea for this meal."""
    return (
        rf"what {_SHOULD} (?:have|eat|cook|make|prepare) for {name}{_WHEN}"
        rf"|what (?:is|would be) {_ONE}{_GOOD} {name}(?: idea| recipe)?"
        rf"|(?:(?:do you have|have you got|give me|i need) )?(?:any|an|some) (?:ideas?|suggestions?) for {name}"
        rf"|{PLEASE}(?:suggest|recommend|give me|tell me) {_ONE}{_GOOD} (?:(?:recipe|meal|dish|idea|thing) )?"
        rf"(?:for )?{name}(?: idea| recipe)?"
        rf"|i do not know what to (?:have|eat|cook|make) for {name}{_WHEN}"
    )


def _work(name: str, verb: str) -> str:
    """The user asks for something to read, watch or hear."""
    return (
        rf"{PLEASE}(?:recommend|suggest|tell|give)(?: me)? {_ONE}{_GOOD} {name}(?: to {verb})?{_WHEN}"
        rf"|(?:what|which) {name} {_SHOULD} {verb}{_WHEN}|what {_SHOULD} {verb}{_WHEN}"
        rf"|(?:do you (?:know|have)|what is|are there) {_ONE} (?:good|nice|great|new|interesting) {name}"
        rf"(?: to {verb})?{_WHEN}|i do not know what to {verb}{_WHEN}"
        rf"|(?:i need|i want|i am looking for) {_ONE}{_GOOD} {name}(?: to {verb})?{_WHEN}"
    )


_DINNER = (
    "You could make pasta with tomatoes, garlic and basil. It takes twenty minutes.",
    "You could fry cooked rice with an egg, peas and some soy sauce.",
    "You could bake potatoes, and eat them with butter, cheese and a salad.",
    "You could make a soup of lentils, carrots and onions.",
    "You could make an omelette with mushrooms and cheese.",
    "You could roast chicken and vegetables together on one tray.",
)
_LUNCH = (
    "A sandwich with cheese, tomato and salad is quick.",
    "A salad with beans, tuna, tomatoes and an egg keeps you full.",
    "A wrap with chicken, peppers and yoghurt is easy to take along.",
    "Soup from yesterday, with fresh bread, is hard to beat.",
)
_BREAKFAST = (
    "Porridge with a banana and some nuts keeps you full for long.",
    "Yoghurt with berries and muesli takes two minutes.",
    "Scrambled eggs on toast are quick and warm.",
    "Bread with cheese or jam, and an orange, is simple and good.",
)
_DESSERT = (
    "Baked apples with cinnamon and a few nuts are easy.",
    "Yoghurt with honey and berries is quick.",
    "Pancakes with sugar and lemon please nearly everybody.",
    "Fruit salad needs no oven, and no recipe.",
)
_BOOKS = (
    "Try The Hobbit, by Tolkien. A quiet hobbit and thirteen dwarves set out to win back a dragon's treasure.",
    "Try Pride and Prejudice, by Jane Austen. Two proud people misjudge each other, and it is still funny.",
    "Try The Adventures of Sherlock Holmes. Each of the twelve cases takes half an hour.",
    "Try Animal Farm, by George Orwell. The animals drive the farmer away, and then the pigs take over.",
    "Try Around the World in Eighty Days, by Jules Verne. A man bets his fortune that he can do it.",
)
_FILMS = (
    "Try Back to the Future. A boy travels to the year 1955, and meets his own parents.",
    "Try Spirited Away. A girl works in a bath house for spirits, to save her parents.",
    "Try Some Like It Hot. Two musicians hide from gangsters in a band of women.",
    "Try Finding Nemo. A small fish crosses the ocean to find his son.",
    "Try The Princess Bride. It has fencing, a giant and true love, and does not take them too seriously.",
)
_MUSIC = (
    "Try The Four Seasons, by Vivaldi. You can hear the birds, and the storm.",
    "Try Here Comes the Sun, by the Beatles.",
    "Try What a Wonderful World, by Louis Armstrong.",
    "Try Take Five, by the Dave Brubeck Quartet. It is jazz in five beats instead of four.",
)
_DOINGS = (
    "You could take a walk somewhere you have never been.",
    "You could call a friend whom you have not heard for long.",
    "You could cook something new, and invite somebody.",
    "You could visit a museum, or a library.",
    "You could tidy one drawer. It takes ten minutes, and feels good for days.",
    "You could draw something that you see from your window.",
)
_GIFTS = (
    "Time together is a good gift: a dinner, a trip, or tickets for a concert.",
    "A book that you liked yourself, with a few words from you in it, is personal.",
    "Something homemade, such as biscuits or jam, nearly always pleases.",
    "A framed photo of the two of you lasts longer than flowers.",
    "A plant for the window is simple, and stays.",
)
_HOBBIES = (
    "Try drawing. You need only a pencil and some paper.",
    "Try running or long walks. They cost nothing, and clear the head.",
    "Try an instrument. The ukulele is small, cheap and kind to beginners.",
    "Try gardening. Herbs in a pot are a good beginning.",
    "Try baking bread. It needs flour, water, salt and patience.",
)
_PLACES = (
    "Lisbon is sunny, hilly and full of music.",
    "Norway has fjords, and in summer nights that do not get dark.",
    "Japan has busy cities, quiet temples, and trains that are on time.",
    "The Alps are good for walking in summer, and for skiing in winter.",
    "A town nearby that you never visited costs little, and may surprise you.",
)
_WITH_WHAT_IS_THERE = (
    "You could fry it all with onions and garlic, and stir in an egg at the end.",
    "You could bake it in the oven with cheese on top, for half an hour.",
    "You could cook it in stock, with herbs, and have a soup.",
)
_PET_NAMES = (
    "How about Luna, Milo, Bella or Charlie?",
    "How about Biscuit, Pickles, Noodle or Waffles?",
    "How about Sunny, Pepper, Coco or Max?",
    "How about Professor, Captain, Duchess or Sir Barks?",
)
_INTERVIEW_QUESTIONS = (
    "Why do you want to work for us?",
    "What is your greatest strength, and what is your greatest weakness?",
    "Tell me about a problem at work that you have solved.",
    "Where do you want to be in five years?",
    "Why should we choose you?",
)
_DOING = (
    rf"what {_SHOULD} do (?:today|tonight|tomorrow|this (?:evening|weekend|afternoon)"
    r"|(?:at|on|over) the weekend|for fun|in my (?:free|spare) time|on a rainy day)(?: for fun)?"
    r"|(?:give me|do you have|any|i need)(?: an?| any| some)? ?(?:ideas?|suggestions?) (?:for|what to do)"
    r"(?: on| at| this| the)* (?:weekend|today|tonight|this evening|free time|rainy day)"
)
_PERSON = (
    r"(?:friend|teacher|wife|husband|mother|mom|mum|father|dad|parent|brother|sister|son|daughter|uncle"
    r"|aunt|cousin"
    r"|niece|nephew|grand[a-z]+|girlfriend|boyfriend|partner|boss|colleague|neighbou?r|child|kid|man|woman"
    r"|boy|girl"
    r"|teenager|couple|family|children)"
)
_GIFT = (
    rf"what {_SHOULD} (?:give|get|buy) (?:for )?(?:him|her|them|(?:my|an?|the) (?:\w+ )?{_PERSON}s?)\b.*"
    rf"|what (?:is|would be) {_ONE}{_GOOD} (?:gift|present)\b.*"
    rf"|(?:{PLEASE}(?:suggest|recommend|give me) |i need |any )?{_ONE}{_GOOD} "
    r"(?:gift|present|(?:gift|present) ideas?|ideas? for an? (?:gift|present))(?: for .*)?"
)
_HOBBY = (
    rf"{PLEASE}(?:suggest|recommend|give)(?: me)? {_ONE}{_GOOD} hobby"
    rf"|(?:what|which) hobby {_SHOULD} (?:start|try|take up|have|pick up)"
    rf"|(?:i need|i want|i am looking for) {_ONE}{_GOOD} hobby"
)
_PLACE = (
    rf"where {_SHOULD} (?:go|travel|fly)(?: to)?(?: (?:on|for)(?: my| a| the| our)? (?:next )?(?:holidays?"
    r"|vacation|trip)| this summer| this winter| this year| next year)"
    rf"|{PLEASE}(?:suggest|recommend)(?: me)? {_ONE}{_GOOD} (?:place to (?:go|visit|travel)"
    r"(?: to)?|(?:holiday|travel) destination|destination)"
)
_PET = (
    r"(?:an?|my|the|our) (?:new |little |baby )*"
    r"(?:dog|cat|puppy|kitten|pet|rabbit|hamster|bird|parrot|horse|fish)s?"
)
_PET_NAME = (
    r"(?:(?:can|could|will) you |please )*(?:(?:give|suggest|tell|find)(?: me)?|what (?:is|are|would be)"
    r"|do you (?:know|have)|i need|help me (?:to )?(?:find|choose|pick)) (?:an?|some|any)?"
    rf"(?: good| nice| cute| funny)* ?name(?: is|s)? for {_PET}"
    rf"|(?:(?:can|could|will) you |please )*help me (?:to )?name {_PET}(?: (?:he|she|it|they)\b.*)?"
    rf"|what {_SHOULD} (?:call|name) {_PET}"
)
_INTERVIEW = (
    rf"{PLEASE}(?:ask|give|tell)(?: me)? {_ONE}(?: (?:typical|common|good|hard|job))* interview questions?"
    rf"|(?:{PLEASE}|(?:i (?:want|would like)|let us|(?:can|could|shall) (?:we|i)|help me)(?: to)? )"
    r"(?:practi[sc]e|do|rehearse)(?: for)?(?: an?| my| the)?(?: job)? interview(?: with (?:me|you))?"
    r"|what (?:do they|will they|would they) ask (?:me )?in an? (?:job )?interview"
)
_WITH = (
    rf"what {_SHOULD} (?:make|cook|eat|prepare) with (?:my |the |some )?(?:leftover )?"
    r"[a-z]+(?: [a-z]+){0,6}"
)
_COOK = rf"what {_SHOULD} (?:eat|cook)(?: today| tonight| this evening| now)?|what is for dinner"

IDEAS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), texts)
    for pattern, texts in (
        (f"{_meal('(?:dinner|supper)')}|{_COOK}", _DINNER),
        (_WITH, _WITH_WHAT_IS_THERE),
        (_meal("lunch"), _LUNCH),
        (_meal("breakfast"), _BREAKFAST),
        (_meal("dessert"), _DESSERT),
        (_work("(?:books?|novels?)", "read"), _BOOKS),
        (_work("(?:movies?|films?)", "(?:watch|see)"), _FILMS),
        (_work("(?:songs?|music|tunes?)", "(?:listen to|hear)"), _MUSIC),
        (_DOING, _DOINGS),
        (_GIFT, _GIFTS),
        (_HOBBY, _HOBBIES),
        (_PLACE, _PLACES),
        (_PET_NAME, _PET_NAMES),
        (_INTERVIEW, _INTERVIEW_QUESTIONS),
    )
)
"""What is asked, in plain form, and the ideas."""

TOLD = frozenset(text for _, texts in IDEAS for text in texts)


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
        told = situation.previous in (*FACTS, *_STORIES, *_TWISTERS, *_SAYINGS, *TOLD)
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
