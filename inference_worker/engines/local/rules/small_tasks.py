"""Small tasks with words and numbers: spell, inflect, count, repeat, and what chance decides."""

import re

from antiphon.inference_worker.engines.local.reference.verbs import past_forms
from antiphon.inference_worker.engines.local.reference.words import plural
from antiphon.inference_worker.engines.local.rules.follow_up import is_passing
from antiphon.inference_worker.engines.local.rules.situation import Answer, Situation, fixed
from antiphon.inference_worker.engines.local.rules.text import COMMON_WORDS, PLEASE, peeled, plain


def _spell(found: re.Match[str], _: Situation) -> str:
    word = found["word"]
    if word in ("it", "that", "this", "them", "those"):
        return "Which word shall I spell?"
    return f"{word.capitalize()} is spelled {', '.join(word.upper())}."


_SPELLED = re.compile(r"(?:The word )?(\w+) (?:is spelled|has \d).*|.* [A-Z] .* in (\w+)\.")
_HOW_OFTEN = ("does not appear", "appears once", "appears twice")


_NAMES_WORD = re.compile(r"\bin\b|\b(?:have|has)$")


def _letters(found: re.Match[str], situation: Situation) -> str | None:
    """How many letters a word has, or how many of one letter."""
    word = found["word"]
    if found["letter"] and not _NAMES_WORD.search(found[0]):
        return None  # "How many a day?"
    if word in ("it", "that", "this"):
        before = _SPELLED.fullmatch(situation.previous)
        if before is None:
            return "Which word do you mean?"
        word = (before[1] or before[2]).lower()
    if not (letter := found["letter"]):
        return f"The word {word} has {len(word)} letter{'' if len(word) == 1 else 's'}."
    count = word.count(letter)
    appears = _HOW_OFTEN[count] if count < len(_HOW_OFTEN) else f"appears {count} times"
    return f"The letter {letter.upper()} {appears} in {word}."


def _past(found: re.Match[str], _: Situation) -> str:
    verb = found["word"]
    past, participle = past_forms(verb)
    if past == participle:
        return f"The past tense of {verb} is {past}."
    return f"The past tense of {verb} is {past}, and the participle is {participle}."


def _plural(found: re.Match[str], _: Situation) -> str:
    return f"The plural of {found['word']} is {plural(found['word'])}."


_MOST_COUNTED = 30
_MOST_STEP = 1000
_GROUPS = {"twos": "2", "threes": "3", "fours": "4", "fives": "5", "tens": "10", "hundreds": "100"}


def _count(found: re.Match[str], _: Situation) -> str | None:
    down = "back" in found[0] or "down" in found[0]
    by = found["step"] or found["step_after"] or "1"
    step = int(_GROUPS.get(by, by))
    if not 0 < step <= _MOST_STEP:
        return None
    first = int(found["first"] or (10 if down and int(found["last"] or 1) < 2 else step))
    last = int(found["last"] or (1 if down else first + 9 * step))
    if down:
        first, last = max(first, last), min(first, last)
    if abs(first - last) // step >= _MOST_COUNTED:
        return f"I count up to {_MOST_COUNTED} numbers at once. Please ask for fewer."
    towards = 1 if last >= first else -1
    numbers = range(first, last + towards, step * towards)
    return ", ".join(map(str, numbers)) + "."


def _neighbour(found: re.Match[str], _: Situation) -> str:
    """Of a letter or a number."""
    this, step = found["this"].upper(), 1 if found["side"] == "after" else -1
    other = str(int(this) + step) if this.isdigit() else chr(ord(this) + step)
    if not other.lstrip("-").isalnum():
        return f"{this} is the {'last' if this == 'Z' else 'first'} letter of the alphabet."
    return f"{other} comes {found['side']} {this}."


def _backwards(_: re.Match[str], situation: Situation) -> str | None:
    """What was counted, the other way round."""
    if not re.fullmatch(r"-?\d+(?:, -?\d+)+\.", situation.previous):
        return None
    return ", ".join(reversed(situation.previous.rstrip(".").split(", "))) + "."


def _only(found: re.Match[str], situation: Situation) -> str | None:
    """The even or the odd ones of the numbers that were counted."""
    if not re.fullmatch(r"-?\d+(?:, -?\d+)+\.", situation.previous):
        return None
    numbers = situation.previous.rstrip(".").split(", ")
    odd = found["which"] == "odd"
    return ", ".join(number for number in numbers if (number[-1] in "13579") == odd) + "."


def _echo(found: re.Match[str], _: Situation) -> str | None:
    words = found["words"]
    if words in COMMON_WORDS and "after me" not in found[0]:
        return None
    return f"{words[0].upper()}{words[1:]}."


_MOST_REPEATED = 10


def _say_often(found: re.Match[str], _: Situation) -> str:
    count = 2 if found["count"] == "twice" else int(found["count"])
    if not 0 < count <= _MOST_REPEATED:
        return f"I say a word up to {_MOST_REPEATED} times. Please ask for fewer."
    first, *others = [found["word"]] * count
    return ", ".join([first.capitalize(), *others]) + "."


_WHO_IS_THERE = "Who is there?"


def _joke_at_the_door(found: re.Match[str], situation: Situation) -> str | None:
    """The lines of a "knock, knock" joke that the user tells."""
    if situation.previous == _WHO_IS_THERE:
        return f"{found[0][0].upper()}{found[0][1:]} who?"
    before = plain(situation.said[-2]) if len(situation.said) > 1 else ""
    is_end = situation.previous.endswith(" who?") and before.startswith("knock")
    return "Ha ha, that is a good one! Do you know another?" if is_end else None


def _number(found: re.Match[str], situation: Situation) -> str:
    low, high = sorted((int(found["low"] or 1), int(found["high"] or 10)))
    return f"I pick {low + situation.now.microsecond % (high - low + 1)}."


def _coin(_: re.Match[str], situation: Situation) -> str:
    return f"It is {'heads' if situation.now.microsecond % 2 else 'tails'}."


_MOST_DICE = 6


def _dice(found: re.Match[str], situation: Situation) -> str:
    count = int(found["count"] or 1)
    if not 0 < count <= _MOST_DICE:
        return f"I roll up to {_MOST_DICE} dice at once. Please ask for fewer."
    *first, last = (f"a {situation.now.microsecond // 6**die % 6 + 1}" for die in range(count))
    return f"I rolled {', '.join(first)} and {last}." if first else f"I rolled {last}."


_HANDS = ("rock", "scissors", "paper")
"""Each wins against the next."""

_ASKS_HAND = "Rock, paper or scissors?"


def _hand(found: re.Match[str], situation: Situation) -> str | None:
    """The answer to the user's hand in the game."""
    if not situation.previous.endswith(_ASKS_HAND):
        return None
    mine = situation.now.microsecond % len(_HANDS)
    ahead = (mine - _HANDS.index(found["hand"])) % len(_HANDS)
    result = ("that is a draw", "you win", "I win")[ahead]
    return f"I have {_HANDS[mine]}, so {result}. Again? {_ASKS_HAND}"


_CHANCE: tuple[tuple[str, Answer], ...] = (
    (rf"{PLEASE}(?:flip|toss|throw) a coin|heads or tails", _coin),
    (rf"{PLEASE}(?:roll|throw) (?:an?|the|some|(?P<count>\d{{1,3}})) (?:dice|die)", _dice),
    (rf"{PLEASE}(?:(?:pick|choose|think of|give|tell|say|guess)(?: me)? )?(?:a|any)(?: random)? number"
     r"(?: (?:between|from) (?P<low>\d{1,9}) (?:and |to )?(?P<high>\d{1,9}))?", _number),
)  # fmt: skip


def _by_chance_again(_: re.Match[str], situation: Situation) -> str | None:
    """ "Again", after a coin, a die or a number."""
    for text in map(plain, reversed(situation.said)):
        for form in peeled(text):
            for pattern, function in _CHANCE:
                if found := re.fullmatch(pattern, form):
                    return function(found, situation)
        if not is_passing(text):
            return None
    return None


_STEP = rf"(?:in steps of|in|by) (?:(?P<step>\d{{1,4}}|{'|'.join(_GROUPS)}))"
_STEP_AFTER = _STEP.replace("step>", "step_after>")


_NAMES_FORM = r"(?:(?:what is|tell me|give me|form|say) )?(?:the )?"
_ITS_WORD = r"(?:the (?:word|verb|noun) )?(?:to |an? )?(?P<word>[a-z]+)"

TASK_ROWS: tuple[tuple[str, Answer], ...] = (
    *_CHANCE,
    (rf"(?:how (?:do|did|would|can) (?:you|i|we) (?:spell|write(?= the word\b))|how is(?= .*\bspel(?:led"
     rf"|t)\b)|what is the spelling of|{PLEASE}spell)"
     rf"(?: the word| out| me)* (?P<word>[a-z']+)(?: spelled| spelt)?(?: for me)?", _spell),
    (rf"{_NAMES_FORM}(?:simple )?past(?: (?:tense|form|participle))? (?:of|for) {_ITS_WORD}", _past),
    (rf"how do (?:you|i) (?:say|write) {_ITS_WORD} in (?:the )?past(?: tense)?", _past),
    (rf"{_NAMES_FORM}plural(?: form)? (?:of|for) {_ITS_WORD}", _plural),
    (r"how (?:many|often)(?: times)?(?: (?:is|does))? (?:letters|(?:(?:the )?letters? )?(?P<letter>[a-z])"
     r"(?:'?s)?) (?:are |does |do |is |there |appear )*(?:in )?(?:the word )?(?P<word>[a-z]{2,})"
     r"(?: have| has)?", _letters),
    (rf"{PLEASE}count(?: backwards?| down)?(?: up)?(?: {_STEP})?(?: from (?P<first>\d+))?"
     rf"(?: (?:up |down )?to (?P<last>\d+))?(?: {_STEP_AFTER})?(?: for me)?(?: backwards?)?", _count),
    (rf"(?P<hand>{'|'.join(_HANDS)})", _hand),
    (r"(?:(?:let us|(?:can|could|shall) (?:we|you)|do you want to|i want to) play |play )?rock paper"
     r"(?: and| or)? scissors(?: .*)?", fixed(_ASKS_HAND)),
    (r"(?:what|which)(?: letter| number)? (?:comes|is) (?P<side>after|before) (?:the (?:letter|number) )?"
     r"(?P<this>[a-z]|\d{1,9})(?: in the alphabet)?", _neighbour),
    (rf"{PLEASE}(?:say|recite|tell me|sing|what is)? ?the (?:alphabet|abc)s?",
     fixed("A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z.")),
    (r"(?:now |and )*(?:count )?(?:it |that )?backwards?", _backwards),
    (r"(?:now |and )*(?:say |count )?only (?:the )?(?P<which>even|odd)(?: (?:numbers|ones))?", _only),
    (rf"{PLEASE}say(?: the word)? (?P<words>[a-z'-]+)", _echo),
    (rf"{PLEASE}(?:say|repeat)(?: the word)? (?P<word>[a-z'-]+) (?P<count>\d{{1,2}}|twice)(?: times?)?",
     _say_often),
    (r"knock (?:knock ?)+", fixed(_WHO_IS_THERE)),
    (r"(?!(?:stop|goodbye|bye|never mind|nobody)\b).+", _joke_at_the_door),
    (rf"{PLEASE}(?:repeat|say)(?: this)? after me (?P<words>.+)", _echo),
)  # fmt: skip
"""A row is a pattern and what answers it."""

AGAIN_ROWS: tuple[tuple[str, Answer], ...] = (
    (r"(?:(?:do|roll|flip|toss|try) (?:it )?)?(?:again|once more|1 more time|another 1)(?: please)?",
     _by_chance_again),
)  # fmt: skip
