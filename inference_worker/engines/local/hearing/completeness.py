"""How long the engine waits in silence, by how complete the user's words are.

The bundled language model says how probable it is that the user's turn ends with these words. Of 60 beginnings
of sentences, recognised in ten voices (`bench/end_of_turn.py`), 44 have less than OPEN. Of
68 whole turns none has less, and 56 have at least COMPLETE.
"""

import re
from collections.abc import Callable

OPEN = 0.01
COMPLETE = 0.1

SOON = 0.4
NORMAL = 1.0
LATER = 2.25
LATEST = 3.0
"""Multiples of the silence that ends an utterance: after whole sentences, when nothing is known, when the
model is not sure, and in the middle of a sentence."""

_OPEN_WORDS = frozenset((
    "ah", "er", "erm", "hm", "hmm", "mm", "uh", "um",
    "a", "an", "the", "my", "your", "our", "their", "its", "every",
    "and", "or", "but", "because", "if", "than", "whether", "while", "although", "unless",
    "of", "between", "among", "during", "into", "onto", "without",
    "plus", "minus", "times",
))  # fmt: skip
"""With one of these last, a sentence continues: fillers, articles, conjunctions, and prepositions that seldom
end a question. "From" is not among them: "Where are you from?"."""

_OPEN_TEXT = re.compile(
    r"(?:(?:hello|hi|well|so|and|yes),? )*"
    r"(?:(?:my|his|her|the) \w+(?: \w+)? is|(?:it|this|that|there|what|who|where|how|which \w+) is|i am|i'm)"
    r"|(?:.+ )?(?:(?:can|could|would) you|i (?:want|need|have|would like) to|how do i|is it true that"
    r"|i was wondering|i wanted to (?:ask|know|say|tell)(?: you)?)"
    r"|(?:because|if|when|while|although|unless) (?:i|you|we|they|he|she|it|there|the|my)\b[^,]*"
)
"""A subject with its verb, a request without its object, a subordinate clause without a main one."""

_OPEN_CHINESE = re.compile(
    r"(?:[嗯呃]|那个|这个|因为|所以|但是|可是|不过|如果|要是|虽然|而且|或者|还有|以及|然后|比如|例如|就是|我想|我想要|我要|我觉得|请问"
    r"|能不能|可不可以|怎么样才能|我的|你的|和|跟|把|被|在|从|对于|关于|是不是)$"
)
"""The same for Chinese: fillers, conjunctions, and verbs that need more."""


def is_open(text: str) -> bool:
    """Whether `text` cannot be a whole turn by its last words alone."""
    plain = re.sub(r"[^\w' ,-]", "", text.lower()).strip(" ,")
    words = re.findall(r"[\w']+", plain)
    if _OPEN_CHINESE.search(plain):
        return True
    return bool(words) and (words[-1] in _OPEN_WORDS or bool(_OPEN_TEXT.fullmatch(plain)))


def patience(
    text: str,
    probability: Callable[[str], float | None],
    *,
    answered: bool,
    later: float = LATER,
) -> float:
    """How long to wait after `text`, between SOON and LATEST.

    `probability` is the language model's, None if it cannot tell. It gets `text` without the full stop
    that the recogniser writes after everything. `answered`: a rule has the answer to `text`.
    """
    if is_open(text):
        return LATEST
    ending = probability(text.rstrip(" .,;:!?。，；：！？、"))
    if ending is None:
        return SOON if answered else NORMAL
    if ending < OPEN:
        return (
            LATEST if " " in text else later
        )  # a single word, such as "Why?", surprises the model
    return SOON if answered or ending >= COMPLETE else later
