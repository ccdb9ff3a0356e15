"""What a session knows apart from its model: the assistant's name, the clock and its limits."""

import re
import zoneinfo
from collections import deque
from collections.abc import Sequence
from datetime import datetime

from antiphon import __version__
from antiphon.inference_worker.engines.local.chinese.script import said_in
from antiphon.inference_worker.engines.local.dialogue import (
    CUT,
    GREETED,
    LlmMessage,
)
from antiphon.inference_worker.engines.local.guard.answer_guard import cleaned
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.recall import LONGEST_TURN, MOST_TURNS
from antiphon.inference_worker.engines.local.rules import chinese
from antiphon.inference_worker.engines.local.rules.about_itself import PASSING
from antiphon.inference_worker.engines.local.rules.answer import ENGLISH_ONLY, answer
from antiphon.inference_worker.engines.local.rules.courtesy import FAREWELL
from antiphon.inference_worker.engines.local.rules.knowledge import is_unknown
from antiphon.inference_worker.engines.local.rules.listening import REACTIONS
from antiphon.inference_worker.engines.local.rules.manner import USUAL, Manner, manner_of
from antiphon.inference_worker.engines.local.rules.quantities.dates import spoken_date
from antiphon.inference_worker.engines.local.rules.situation import (
    CANNOT_SEE,
    NAME,
    Situation,
)
from antiphon.inference_worker.engines.local.sight.scene import Scene

_OTHER_NAME = re.compile(
    rf"\b(?i:your name is|you are called|you are named|call yourself|you play|act as)\s+(?!{NAME})\S"
    rf"|(?:你叫|你的名字(?:是|叫)|你扮演|扮演|你是(?=[A-Z]))(?!{NAME})\S"
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
        self._chinese = options.language == "zh"

    def now(self) -> datetime:
        """The client's time, or the server's if the client did not say its time zone."""
        return datetime.now(self._zone).astimezone(self._zone)

    def prompt(self, system_prompt: str) -> str:
        """`system_prompt` after one sentence each of name, date and limits.

        It has no time of day: the model would read the whole prompt again after each minute.
        """
        if not self._options.rules_apply:
            return system_prompt
        if self._chinese:
            return chinese.prompt(system_prompt, self.now(), persona=self._persona)
        name = "" if self._persona else f"You are {NAME}, a small voice assistant. "
        limits = "You do not know the weather, the news or prices."
        return f"{name}Today is {spoken_date(self.now())}. {limits} {system_prompt}".rstrip()

    def is_farewell(self, answer: str) -> bool:
        """Whether an answer by rule says goodbye."""
        farewell = chinese.FAREWELL if self._chinese else FAREWELL
        return self._options.rules_apply and answer.endswith(farewell)

    def manner(self, messages: Sequence[LlmMessage]) -> Manner:
        """How to speak the answer to the last of `messages`."""
        if not self._options.rules_apply:
            return USUAL
        said = [str(message["content"]) for message in messages if message["role"] == "user"]
        return chinese.manner_of(said) if self._chinese else manner_of(said)

    def answer(
        self,
        messages: Sequence[LlmMessage],
        scene: Scene | None = None,
        news: str = "",
        blind: str | None = None,
        *,
        doubtful: bool = False,
    ) -> str | None:
        """The answer by rule to the last of `messages`, None if the model answers.

        A message with a picture is one for a model that sees; otherwise the user shows `scene`, in which
        `news` has changed. `blind` replaces what the session says without a scene. `doubtful`: the
        recogniser does not believe the words of the last message.
        """
        last, by_rule = messages[-1], None
        asks = last["role"] == "user" and isinstance(last["content"], str)
        if asks and self._options.rules_apply:
            situation = self._situation(messages, scene, news, blind)
            by_rule = self._by_rule(last["content"][:LONGEST_TURN], situation, doubtful=doubtful)
        if by_rule is None and doubtful and self._options.rules is not False:
            return said_in(self._options.language, ENGLISH_ONLY)
        return by_rule

    def _by_rule(self, asked: str, situation: Situation, *, doubtful: bool) -> str | None:
        if self._chinese:
            return chinese.answer(asked, situation)
        text = answer(asked, situation)
        if text is None:
            return None
        if doubtful and (text in REACTIONS or is_unknown(text)):
            return None  # these take any words
        if text == ENGLISH_ONLY and not self._options.bundled_model:
            return None  # a larger model may know the language
        return cleaned(text) if self._options.filter_obscene else text

    def _situation(
        self, messages: Sequence[LlmMessage], scene: Scene | None, news: str, blind: str | None
    ) -> Situation:
        """What a rule takes into account, apart from the last of `messages`."""
        before = messages[:-1]
        said = (str(message["content"]) for message in before if message["role"] == "user")
        spoken = (
            str(message["content"])[:LONGEST_TURN]
            for message in reversed(before)
            if message["role"] == "assistant"
        )
        greeting = str(messages[0]["content"]).partition(GREETED)[2].removesuffix('"')
        return Situation(
            self.now(),
            __version__,
            tuple(deque((text[:LONGEST_TURN] for text in said), MOST_TURNS)),
            next(
                (text.removesuffix(CUT) for text in spoken if not PASSING.fullmatch(text)), greeting
            ),
            persona=self._persona,
            scene=scene,
            blind=self._blind if blind is None else blind,
            news=news,
            small_talk=self._options.bundled_model,
        )
