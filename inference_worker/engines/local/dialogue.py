"""The dialogue of a session as the language model sees it.

A very small model reads only the exchanges that the question refers to.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from antiphon.inference_worker.engines.local.chinese.script import continuation, said_in
from antiphon.inference_worker.engines.local.doubt import UNSURE
from antiphon.inference_worker.engines.local.guard import NO_CONTENT
from antiphon.inference_worker.engines.local.rules.follow_up import STOPPED, whole_question
from antiphon.inference_worker.engines.local.rules.table import LIMITS
from antiphon.inference_worker.engines.local.rules.text import ASKS, peeled, plain
from antiphon.inference_worker.engines.local.speech import TimedWord

STYLE_HINT = "Give short, correct answers in plain words."
"""Added to the client's system prompt: a spoken answer must be short and without markup."""

CUT = " —"
"""The end of an answer that the user interrupted."""

GREETED = ' You greeted the user: "'

_TOKENS_PER_TURN = 6
_CHARACTERS_PER_TOKEN = 3.0
"""A low estimate: English text has more than four characters per token."""
_WIDE = re.compile("[\u2e80-\uffff\U00020000-\U0003ffff]")
"""Chinese and similar characters: each is about a token."""

LlmMessage = dict[str, Any]
"""A message in the form of OpenAI's API."""


@dataclass(slots=True)
class _Turn:
    """`played_ms`: the part of `sound_ms` that the client has played, None if it never reported.

    `unsaid`: the rest of an answer that was interrupted before it was spoken.
    """

    role: Literal["user", "assistant"]
    pieces: list[TimedWord] = field(default_factory=list)
    sound_ms: float = 0.0
    played_ms: float | None = None
    interrupted: bool = False
    unsaid: str = ""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def played_text(self) -> str:
        """The words that began in the played part; all words for a client without playback reports."""
        played_ms = self.played_ms
        if played_ms is None or not self.sound_ms:
            return self.text
        return "".join(piece.text for piece in self.pieces if piece.at_ms < played_ms)

    @property
    def rest(self) -> str:
        """The part of an interrupted answer that was not played."""
        return f"{self.text[len(self.played_text) :]} {self.unsaid}".strip()

    @property
    def tokens(self) -> float:
        return turn_tokens(self.text)


class Dialogue:
    """The system prompt and the turns. The assistant's turns contain only words that were spoken.

    If the client reports its playback, an answer that was interrupted, or that the user spoke after,
    contains only the played words.
    """

    def __init__(self, system_prompt: str, language: str = "en") -> None:
        self._system = f"{system_prompt.strip()} {said_in(language, STYLE_HINT)}".strip()
        self._turns: list[_Turn] = []
        self._left_unanswered = False
        self._turn_open = False

    @property
    def unanswered(self) -> bool:
        """True if the user's last words need a reply."""
        last_is_user = bool(self._turns) and self._turns[-1].role == "user"
        return last_is_user and not self._left_unanswered

    @property
    def last_answer(self) -> str:
        """The assistant's last turn, complete or not."""
        return next((turn.text for turn in reversed(self._turns) if turn.role == "assistant"), "")

    @property
    def rest_of_cut_answer(self) -> str:
        """The part of the last answer that was not played, if the user interrupted it."""
        answers = (turn for turn in reversed(self._turns) if turn.role == "assistant")
        last = next((turn for turn in answers if turn.text.strip() != STOPPED), None)
        return last.rest if last is not None and last.interrupted else ""

    @property
    def system_tokens(self) -> float:
        """Estimated tokens of the system prompt."""
        return turn_tokens(self._system)

    def add_instruction(self, text: str) -> None:
        """Add to the system prompt."""
        self._system = f"{self._system} {text.strip()}"

    def add_user_text(self, text: str) -> None:
        """Add to the user's turn; it continues the last one if that has no answer yet."""
        self._left_unanswered = self._turn_open = False
        if self._turns and self._turns[-1].role == "user":
            self._turns[-1].pieces.append(TimedWord(0.0, continuation(self._turns[-1].text, text)))
        else:
            self._turns.append(_Turn("user", [TimedWord(0.0, text)]))

    def add_assistant_text(self, text: str) -> None:
        """Add to the assistant's turn. A text that continues a turn has a leading space."""
        self.add_spoken([TimedWord(0.0, text)] if text else [], 0.0)

    def add_spoken(self, pieces: Iterable[TimedWord], sound_ms: float) -> None:
        """Add words with `sound_ms` of audio; the words' times are relative to that audio."""
        pieces = list(pieces)
        if not self._turn_open:
            if not pieces:
                return
            self._turns.append(_Turn("assistant"))
            self._turn_open = True
        turn = self._turns[-1]
        turn.pieces += [TimedWord(turn.sound_ms + piece.at_ms, piece.text) for piece in pieces]
        turn.sound_ms += sound_ms

    def set_played(self, played_ms: float) -> None:
        """Set how much of the current or last answer the client has played."""
        answers = [turn for turn in self._turns if turn.role == "assistant"]
        if answers:
            answers[-1].played_ms = played_ms

    def interrupt_answer(self, played_ms: float) -> None:
        """The user interrupted the last answer when so much of it had been played."""
        answers = [turn for turn in self._turns if turn.role == "assistant"]
        if answers:
            answers[-1].played_ms, answers[-1].interrupted = played_ms, True

    def end_turn(self) -> None:
        self._turn_open = False

    def interrupt_turn(self, unsaid: str = "") -> None:
        """Close the assistant's turn, if one is open, as interrupted before the words `unsaid`."""
        if self._turn_open:
            self._turns[-1].interrupted = True
            self._turns[-1].unsaid = unsaid
            self._turn_open = False

    def leave_unanswered(self) -> None:
        self._left_unanswered = True

    def messages(self, reply_so_far: str = "", expected: str = "") -> list[LlmMessage]:
        """Chat messages, oldest first. A greeting is a part of the system message.

        Some templates refuse an answer without a question, and the bundled model then answers worse.
        `reply_so_far` is appended to an open turn. `expected` is what the user probably says next.
        """
        messages = [{"role": "system", "content": self._system}]
        for place, turn in enumerate(self._turns, start=1):
            followed = turn.interrupted or place < len(self._turns) or bool(expected)
            text = turn.played_text if followed else turn.text
            if text and turn.interrupted and turn.rest:
                text = f"{text.rstrip()}{CUT}"
            if text and place == 1 and turn.role == "assistant":
                messages[0]["content"] += f'{GREETED}{text}"'
            elif text:
                _append(messages, turn.role, text)
        if self._turn_open and reply_so_far:
            messages[-1]["content"] += reply_so_far
        if expected:
            _append(messages, "user", expected)
        return messages

    def trim(self, budget_tokens: float) -> bool:
        """Drop the oldest turns if the dialogue may exceed `budget_tokens`; True if any was dropped.

        Half of the budget is freed at once, because the model reads the rest again after each cut.
        """
        if self._tokens() <= budget_tokens:
            return False
        while len(self._turns) > 1 and self._tokens() > budget_tokens / 2:
            self._turns.pop(0)
            while len(self._turns) > 1 and self._turns[0].role == "assistant":
                self._turns.pop(0)
        return True

    def shorten(self) -> bool:
        """Drop the older half of the turns; False if there is only one."""
        before = len(self._turns)
        self.trim(self._tokens() - 1.0)
        return len(self._turns) < before

    def _tokens(self) -> float:
        return turn_tokens(self._system) + sum(turn.tokens for turn in self._turns)


def turn_tokens(text: str) -> float:
    """Estimated tokens of a turn with `text`."""
    wide = len(_WIDE.findall(text))
    return _TOKENS_PER_TURN + wide + (len(text) - wide) / _CHARACTERS_PER_TOKEN


def _append(messages: list[LlmMessage], role: str, text: str) -> None:
    """Two consecutive messages of one role, after an answer that was not played, are joined."""
    if messages[-1]["role"] == role:
        messages[-1]["content"] += continuation(messages[-1]["content"], text)
    else:
        messages.append({"role": role, "content": text})


_FIRST_PART = re.compile(r"[^.。，]+")

_SURELY_FAULT = 8
"""Characters of a fault that was cut off: fewer may be an answer."""


def without_faults(
    messages: Sequence[LlmMessage], faults: Iterable[str], language: str
) -> list[LlmMessage]:
    """`messages` without `faults`, the English sentences that were said in place of an answer or its end.

    A model that reads them says them again. A question that got no answer is joined to the next one. A last
    message of the assistant stays as it is: the model continues it.
    """
    sentences = [said_in(language, fault) for fault in faults]
    kept: list[LlmMessage] = []
    joins = False
    for place, message in enumerate(messages, start=1):
        shown = _before_fault(message, sentences) if place < len(messages) else message
        if shown is None:
            joins = True
        elif joins and kept and kept[-1]["role"] == shown["role"] == "user":
            kept[-1] = {**shown, "content": _joined(kept[-1]["content"], shown["content"])}
            joins = False
        else:
            kept.append(shown)
            joins = False
    return kept


def _before_fault(message: LlmMessage, sentences: Iterable[str]) -> LlmMessage | None:
    """The part of `message` that the model wrote; None if there is none."""
    said = message["content"]
    if message["role"] != "assistant" or not isinstance(said, str) or "tool_calls" in message:
        return message
    begin = said.removesuffix(CUT).strip()
    for sentence in sentences:
        if len(begin) >= _SURELY_FAULT and sentence.startswith(begin):
            return None
        first = _FIRST_PART.match(sentence)
        if first is not None and (place := said.find(first[0])) >= 0:
            written = said[:place].rstrip()
            return {**message, "content": written} if written else None
    return message


def _joined(first: str | list[dict[str, Any]], second: str | list[dict[str, Any]]) -> Any:
    """The contents of two messages as one."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{continuation(first, second)}"
    parts = (
        [{"type": "text", "text": one}] if isinstance(one, str) else one for one in (first, second)
    )
    return [part for content in parts for part in content]


_MOST_EXCHANGES = 2
"""Of 24 easy questions the bundled model answers 22 alone, and 15 to 19 after three other exchanges."""

_EXAMPLES: tuple[LlmMessage, ...] = (
    {"role": "user", "content": "I had a long day at work."},
    {
        "role": "assistant",
        "content": "That sounds tiring. I hope you can rest now. What made it so long?",
    },
    {"role": "user", "content": "I like to go running."},
    {"role": "assistant", "content": "That is good for you! How often do you run?"},
)
"""Before what is no question: without them the model repeats the words, or its own description."""

_FOLLOWS_UP = re.compile(
    r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|that|this|those|these|there|then|one"
    r"|ones|same|else|another|other|others|more|again|so|instead|both|either|neither|former|latter"
    r"|said|say|told|tell|mean|meant|continue|why|really|explain|shorter|longer|sure|next|happens|happened)\b"
    r"|^(?:and|but|or|yes|no|ok|what about|how about|go on|which|what|how|who|when|where)$"
    r"|^(?:and|but|or|yes|yeah|no|what about|how about|go on)\b"
)
"""Words that need what was said before, in plain form."""

_OPENING = re.compile(
    r"(?:(?:ok|fine|great|thanks|thank you|alright|well|so|now|then|by the way|anyway|wait|oh) )+"
)
"""Before a question that needs no other: "OK, then what is gravity?"."""

LONGEST_TURN, MOST_TURNS = 4000, 200
"""Characters and turns that are searched for what a question refers to: a client may send 64 MiB."""

_FEW_WORDS = 2

_WORD = re.compile(
    r"\b(?!(?:about|after|all|also|and|any|are|because|been|before|being|but|can|could|did|does|doing|down|each"
    r"|even|ever|for|from|get|give|good|got|had|has|have|having|her|here|him|his|how|into|its|just|know|let"
    r"|like|long|made|make|many|much|must|need|not|one|only|our|out|over|please|same|she|should|some|such"
    r"|than|thank|thanks|that|the|their|them|then|there|these|they|thing|think|this|those|two|very|want|was"
    r"|well|were|what|when|where|which|while|who|why|will|with|word|would|you|your|yours)\b)"
    r"[a-z0-9]{3,}"
)
"""Words of three letters or more, but not those that any two texts share."""


def recalled(messages: Sequence[LlmMessage], *, examples: bool = True) -> list[LlmMessage]:
    """`messages` without the exchanges that the last question does not refer to.

    It refers to those that share a word with it, and to the last one if it cannot stand alone, together with
    the one that this continues. What is no question belongs to the last one, after `examples` of small talk.
    An apology is read only with a question that follows it: the model would apologise again.
    """
    asked = _last_user(messages)
    if asked is None or not all(isinstance(message["content"], str) for message in messages):
        return list(messages)
    first = next(place for place, said in enumerate(messages) if said["role"] != "system")
    exchanges = _exchanges(messages[first:asked])[-MOST_TURNS:]
    earlier = [_beginning(said) for said in messages[:asked] if said["role"] == "user"]
    text, begin = messages[asked]["content"], _beginning(messages[asked])
    if text == begin:
        text = begin = whole_question(text, earlier)
    question = plain(begin)
    asks = "?" in begin or any(map(ASKS.match, peeled(question)))
    words = _content_words(question)
    kept = [
        exchange
        for exchange in exchanges
        if words & _content_words(*(plain(_beginning(said)) for said in exchange))
        and not _apologises(exchange)
    ][-_MOST_EXCHANGES:]
    if exchanges and exchanges[-1] not in kept and (not asks or _follows_up(question)):
        *before, last = exchanges
        continues = bool(before) and _follows_up(plain(_beginning(last[0])))
        continued = before[-1:] if continues and not _apologises(before[-1]) else []
        kept = [*(continued or kept)[1 - _MOST_EXCHANGES :], last]
    shown = _EXAMPLES if examples and not asks else ()
    chosen = (said for exchange in kept for said in exchange)
    whole = {**messages[asked], "content": text}
    return [*messages[:first], *shown, *chosen, whole, *messages[asked + 1 :]]


def _beginning(message: LlmMessage) -> str:
    """As much as shows what the text is about."""
    return str(message["content"])[:LONGEST_TURN]


def _last_user(messages: Sequence[LlmMessage]) -> int | None:
    if any(message["role"] == "tool" for message in messages):
        return None
    places = (place for place, said in enumerate(messages) if said["role"] == "user")
    return max(places, default=None)


def _exchanges(messages: Iterable[LlmMessage]) -> list[list[LlmMessage]]:
    """Each begins with a message of the user."""
    exchanges: list[list[LlmMessage]] = []
    for message in messages:
        if message["role"] == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(message)
    return exchanges


def _apologises(exchange: list[LlmMessage]) -> bool:
    return str(exchange[-1]["content"]).startswith((UNSURE, NO_CONTENT, *LIMITS))


def _follows_up(question: str) -> bool:
    if len(question.split()) <= _FEW_WORDS:
        return True
    begin = _OPENING.match(question)
    return bool(_FOLLOWS_UP.search(question[begin.end() if begin else 0 :]))


def _content_words(*texts: str) -> set[str]:
    return {word.rstrip("s") for text in texts for word in _WORD.findall(text)}
