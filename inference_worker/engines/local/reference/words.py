"""The forms of English words that looking up needs: singulars and articles."""

import re

_IRREGULAR = {
    "children": "child", "people": "person", "men": "man", "women": "woman", "feet": "foot", "teeth": "tooth",
    "geese": "goose", "mice": "mouse", "lice": "louse", "oxen": "ox", "leaves": "leaf", "wolves": "wolf",
    "knives": "knife", "lives": "life", "wives": "wife", "halves": "half", "shelves": "shelf",
    "thieves": "thief", "elves": "elf", "calves": "calf", "bacteria": "bacterium", "phenomena": "phenomenon",
    "criteria": "criterion", "fungi": "fungus", "cacti": "cactus", "nuclei": "nucleus", "nebulae": "nebula",
    "supernovae": "supernova", "galaxies": "galaxy", "species": "species", "series": "series",
    "dice": "die", "crises": "crisis", "analyses": "analysis", "quizzes": "quiz", "lenses": "lens",
    "gases": "gas", "atlases": "atlas", "irises": "iris", "canvases": "canvas", "shoes": "shoe", "toes": "toe",
    "canoes": "canoe", "calories": "calorie", "oboes": "oboe", "fuses": "fuse", "excuses": "excuse",
}  # fmt: skip
_PLURALS = {one: many for many, one in _IRREGULAR.items()}
_SAME_IN_PLURAL = (
    "fish", "sheep", "deer", "moose", "aircraft", "salmon", "sunglasses", "jeans", "binoculars",
)  # fmt: skip
_WITH_ES = re.compile(r"(?:s|x|z|ch|sh|\b(?:potato|tomato|hero|echo|torpedo|veto))$")

_ENDINGS = (
    (re.compile(r"(?<=[^aeiou])ies$"), "y"),
    (re.compile(r"(?<![eo])aches$"), "ache"),
    (re.compile(r"(?<=[^ao]us)es$"), ""),  # viruses, and not houses
    (re.compile(r"(?<=ss|ch|sh|zz)es$|(?<=x)es$"), ""),
    (re.compile(r"(?<=o)es$"), ""),
    (re.compile(r"(?<=[^siu])s$"), ""),
)
_BEGINS_ITSELF = re.compile(
    r"(?:an?|the|any|one|some|someone|something|somebody|anything|everything|everybody|everyone"
    r"|nothing|most|all|two|three|several|either|each|both|that|those|such|whatever|his|her|its|their|what)\b"
)
_ONLY_ONE = re.compile(
    r"(?:\d+(?:st|nd|rd|th)|first|second|third|last|only|(?:most|capital|largest) (?=\w+)(?!letter)"
    r"|(?!modest|honest|earnest|forest|dishonest)[a-z]{2,}est)\b"
)
_LIKE_YOU = re.compile(r"(?:uni(?!n|m)|use|usu|euro|ubiq|one\b|once\b|uk\b)", re.IGNORECASE)
_LIKE_HOUR = re.compile(r"(?:hour|honest|honou?r|heir|[FHLMNRSX][A-Z]{1,4}\b)")
_AFTER_HEAD = re.compile(
    r"[;,]| (?:of|that|which|who|whose|having|lacking|with|in|on|at|for|from|by|to|used|made|born|[a-z]+ing)\b"
)
"""What follows the noun that a definition is about."""


def singular(word: str) -> str:
    """Of a regular or a common irregular plural; `word` itself if it is none."""
    *before, last = word.split(" ")
    if last in _IRREGULAR:
        return " ".join([*before, _IRREGULAR[last]])
    for ending, instead in _ENDINGS:
        if len(last) > 3 and (shorter := ending.sub(instead, last)) != last:
            return " ".join([*before, shorter])
    return word


def plural(name: str) -> str:
    """Of a noun, or of the last of several words."""
    if name.startswith("pair of "):
        return f"pairs of {name.removeprefix('pair of ')}"
    *before, last = name.split(" ")
    if name.endswith(_SAME_IN_PLURAL):
        return name
    regular = f"{last}es" if _WITH_ES.search(last) else re.sub(r"(?<![aeiou])y$", "ie", last) + "s"
    return " ".join([*before, _PLURALS.get(last, regular)])


def article(word: str) -> str:
    """ "a" or "an", as `word` sounds."""
    vowel = word[:1].lower() in "aeiou" and not _LIKE_YOU.match(word)
    return "an" if vowel or _LIKE_HOUR.match(word) else "a"


def with_article(phrase: str) -> str:
    """With what a definition may lack: "a large bird", "the first man", "one of the large snakes"."""
    if _BEGINS_ITSELF.match(phrase):
        return phrase
    if _ONLY_ONE.match(phrase):
        return f"the {phrase}"
    head = _AFTER_HEAD.split(phrase)[0]
    if singular(head) != head:
        return f"one of the {phrase}"
    needs_none = head.rpartition(" ")[2] in _MASS_NOUNS or head[:1].isdigit()
    return phrase if needs_none else f"{article(phrase)} {phrase}"


_UNCOUNTED = """
air behavior behaviour business clothing cooking dirt dust energy equipment fabric flesh food furniture fur
glass gold hair hardware heat ice information jewelry knowledge land light luggage lumber machinery matter meat
metal milk money music oil paper poetry pollution precipitation rain rock sand skin snow software soil steel
stone time traffic violence water weather wine wood wool work writing
"""
_MASS_NOUNS = frozenset(_UNCOUNTED.split())
"""Nouns without an article: "water that falls in drops"."""
