"""Ideas for meals, books, gifts, names and the like: how they are asked for, and what is proposed."""

from __future__ import annotations

import re

from antiphon.inference_worker.engines.local.rules.text import PLEASE

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

IDEA_TEXTS = frozenset(text for _, texts in IDEAS for text in texts)
