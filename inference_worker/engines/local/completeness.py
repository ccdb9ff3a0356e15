"""How long the engine waits in silence, by how complete the user's words are.

The bundled language model says how probable it is that the user's turn ends with these words. Of 60 beginnings
of sentences, heard by the recogniser in ten voices (`bench/end_of_turn.py`), 44 have less than OPEN. Of
68 whole turns none has less, and 56 have at least COMPLETE.
"""

from __future__ import annotations

import re
from collections.abc import Callable

OPEN = 0.01
COMPLETE = 0.1

SOON = 0.5
NORMAL = 1.0
LATER = 1.5
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
"""With one of these last, a sentence goes on: fillers, articles, conjunctions, and prepositions that seldom
end a question. "From" is not among them: "Where are you from?"."""

_OPEN_TEXT = re.compile(
    r"(?:(?:hello|hi|well|so|and|yes),? )*"
    r"(?:(?:my|his|her|the) \w+(?: \w+)? is|(?:it|this|that|there|what|who|where|how|which \w+) is|i am|i'm)"
    r"|(?:.+ )?(?:(?:can|could|would) you|i (?:want|need|have|would like) to|how do i|is it true that)"
    r"|(?:because|if|when|while|although|unless) (?:i|you|we|they|he|she|it|there|the|my)\b[^,]*"
)
"""A subject with its verb, a request without its object, a subordinate clause without a main one."""


def is_open(text: str) -> bool:
    """Whether `text` cannot be a whole turn by its last words alone."""
    plain = re.sub(r"[^\w' ,-]", "", text.lower()).strip(" ,")
    words = re.findall(r"[\w'-]+", plain)
    return bool(words) and (words[-1] in _OPEN_WORDS or bool(_OPEN_TEXT.fullmatch(plain)))


def patience(text: str, probability: Callable[[str], float | None], *, answered: bool) -> float:
    """How long to wait after `text`, between SOON and LATEST.

    `probability` is the language model's, None if it cannot tell. It gets `text` without the full stop
    that the recogniser writes after everything. `answered`: a rule has the answer to `text`.
    """
    if is_open(text):
        return LATEST
    ending = probability(text.rstrip(" .,;:!?"))
    if ending is None:
        return SOON if answered else NORMAL
    if ending < OPEN:
        return (
            LATEST if " " in text else LATER
        )  # a single word, such as "Why?", surprises the model
    return SOON if answered or ending >= COMPLETE else LATER
