"""What a rule knows apart from the question."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from antiphon.inference_worker.engines.local.sight.scene import Scene

NAME = "Antiphon"

CANNOT_SEE = "I cannot see. I can only hear you."
CAMERA_OFF = "I do not see anything, the camera is off."
STILL_LOOKING = "I am still looking at the picture. Please ask me again."
NO_PICTURE = "I do not see anything, because you sent no picture."


@dataclass(frozen=True, slots=True)
class Situation:
    """What an answer may depend on, apart from the question.

    `now` is in the user's time zone. `said` has the user's earlier turns, oldest first; `previous` is
    the assistant's last answer. `persona` is True if the client's prompt gives the assistant another
    name. `scene` is what the user shows; without one, `blind` says why there is none. `news` is what has
    changed in it. Without `small_talk` the model makes conversation itself.
    """

    now: datetime
    version: str
    said: tuple[str, ...] = ()
    previous: str = ""
    persona: bool = False
    scene: Scene | None = None
    blind: str = CANNOT_SEE
    news: str = ""
    small_talk: bool = True


Answer = Callable[[re.Match[str], Situation], str | None]
"""None: the pattern fits, but another rule or the language model has to answer."""


def fixed(sentence: str) -> Answer:
    return lambda _found, _situation: sentence
