"""Whether the bundled model knows the number that it writes, by the probability of its digits.

Of 35 answers to questions for a number, 14 have no digit below LEAST: 10 of these are right. Of the other 21,
5 are right. Of 15 decimal numbers whose whole part is sure, 4 have an unsure first decimal: all are wrong. Of
the other 11, 7 are right, one of them with later decimals that are unsure. Names are not as clear: the model is
sure of many wrong ones.
"""

import math
import re
from typing import Any

LEAST = 0.5
UNSURE = "Sorry, I do not know that for certain."

_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|far|tall|old|long|high|big|fast|deep|heavy|large|wide|hot|cold)\b"
    r"|\bwhen (?:was|were|did)\b|\b(?:what|which) (?:year|century)\b|\b(?:population|distance|temperature"
    r"|boiling point)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[.!?]\s")


def asks_number(message: dict[str, Any]) -> bool:
    asks = message["role"] == "user" and isinstance(message["content"], str)
    return asks and bool(_ASKS_NUMBER.search(message["content"]))


class NumberDoubt:
    """Holds the first sentence of an answer until it is complete, or says UNSURE.

    Of the decimals, only the first counts.
    """

    def __init__(self) -> None:
        self.unsure = False
        self._held: str | None = ""
        self._before = ""

    def feed(self, text: str, choice: dict[str, Any]) -> str:
        """What may be said after the next piece. `choice`: of OpenAI's API, with `logprobs`."""
        if self._held is None:
            return "" if self.unsure else text
        for token in (choice.get("logprobs") or {}).get("content") or ():
            self._weigh(token["token"], math.exp(token["logprob"]))
        self._held += text
        if not (self.unsure or choice.get("finish_reason") or _SENTENCE.search(self._held)):
            return ""
        held, self._held = self._held, None
        return UNSURE if self.unsure else held

    def _weigh(self, token: str, probability: float) -> None:
        counts = re.search(r"\d", token) and not re.search(r"\d\.\d+$", self._before)
        self._before += token
        self.unsure = self.unsure or (bool(counts) and probability < LEAST)
