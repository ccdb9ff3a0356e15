"""What a session knows besides its model: the assistant's name, the clock and its limits."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Sequence
from datetime import datetime

from antiphon import __version__
from antiphon.inference_worker.engines.local.dialogue import GREETED, LlmMessage
from antiphon.inference_worker.engines.local.guard import cleaned
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.rules.answer import ENGLISH_ONLY, answer
from antiphon.inference_worker.engines.local.rules.dates import spoken_date
from antiphon.inference_worker.engines.local.rules.manner import USUAL, Manner, manner_of
from antiphon.inference_worker.engines.local.rules.situation import (
    CANNOT_SEE,
    NAME,
    Situation,
)
from antiphon.inference_worker.engines.local.rules.table import FAREWELL
from antiphon.inference_worker.engines.local.sight.scene import Scene

_OTHER_NAME = re.compile(
    rf"\b(?i:your name is|you are called|you are named|call yourself|you play|act as)\s+(?!{NAME})\S"
    rf"|\b[Yy]ou(?: are|'re) (?!{NAME})(?:Dr\.? |Mr\.? |Ms\.? |Mrs\.? )?[A-Z]\w+"
)


class SelfKnowledge:
    """Extends the prompt of a session and answers by rule. Without `rules` it does neither."""

    def __init__(
        self,
        options: LocalOptions,
        system_prompt: str = "",
        time_zone: str = "",
        blind: str = CANNOT_SEE,
    ) -> None:
        """`blind`: what to say without a scene; empty if the model sees by itself."""
        self._options = options
        self._blind = blind
        self._zone = zoneinfo.ZoneInfo(time_zone) if time_zone else None
        self._persona = bool(_OTHER_NAME.search(system_prompt))

    def now(self) -> datetime:
        """The client's time, or the server's if the client did not say its time zone."""
        return datetime.now(self._zone).astimezone(self._zone)

    def prompt(self, system_prompt: str) -> str:
        """`system_prompt` after one sentence each of name, date and limits.

        It has no time of day: the model would read the whole prompt again after each minute.
        """
        if not self._options.rules_apply:
            return system_prompt
        name = "" if self._persona else f"You are {NAME}, a small voice assistant. "
        limits = "You do not know the weather, the news or prices."
        return f"{name}Today is {spoken_date(self.now())}. {limits} {system_prompt}".rstrip()

    def is_farewell(self, answer: str) -> bool:
        """Whether an answer by rule says goodbye."""
        return self._options.rules_apply and answer.endswith(FAREWELL)

    def manner(self, messages: Sequence[LlmMessage]) -> Manner:
        """How to speak the answer to the last of `messages`."""
        if not self._options.rules_apply:
            return USUAL
        return manner_of([str(said["content"]) for said in messages if said["role"] == "user"])

    def answer(
        self,
        messages: Sequence[LlmMessage],
        scene: Scene | None = None,
        news: str = "",
        blind: str | None = None,
    ) -> str | None:
        """The answer by rule to the last of `messages`, None if the model answers.

        A message with a picture is one for a model that sees; otherwise the user shows `scene`, in which
        `news` has changed. `blind` replaces what the session says without a scene.
        """
        last = messages[-1]
        asks = last["role"] == "user" and isinstance(last["content"], str)
        if not self._options.rules_apply or not asks:
            return None
        before = messages[:-1]
        spoken = [str(message["content"]) for message in before if message["role"] == "assistant"]
        greeting = str(messages[0]["content"]).partition(GREETED)[2].removesuffix('"')
        situation = Situation(
            self.now(),
            __version__,
            tuple(str(message["content"]) for message in before if message["role"] == "user"),
            spoken[-1] if spoken else greeting,
            persona=self._persona,
            scene=scene,
            blind=self._blind if blind is None else blind,
            news=news,
        )
        text = answer(last["content"], situation)
        if text == ENGLISH_ONLY and self._options.model_path is not None:
            return None  # a larger model may know the language
        return cleaned(text) if text and self._options.filter_obscene else text
