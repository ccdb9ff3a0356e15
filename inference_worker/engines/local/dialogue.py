"""The dialogue of a session as the language model sees it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from antiphon.inference_worker.engines.local.chinese.script import continuation, said_in
from antiphon.inference_worker.engines.local.rules.follow_up import STOPPED
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

LlmContent = str | list[dict[str, Any]]
"""The content of a message: a text, or parts."""


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
        return self._last_answer.text if self._last_answer else ""

    @property
    def rest_of_cut_answer(self) -> str:
        """The part of the last answer that was not played, if the user interrupted it."""
        last = next((turn for turn in self._answers() if turn.text.strip() != STOPPED), None)
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
        if self._last_answer:
            self._last_answer.played_ms = played_ms

    def interrupt_answer(self, played_ms: float) -> None:
        """The user interrupted the last answer when so much of it had been played."""
        if last := self._last_answer:
            last.played_ms, last.interrupted = played_ms, True

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

    @property
    def _last_answer(self) -> _Turn | None:
        return next(self._answers(), None)

    def _answers(self) -> Iterator[_Turn]:
        """The assistant's turns, newest first."""
        return (turn for turn in reversed(self._turns) if turn.role == "assistant")

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
            both = joined_contents(kept[-1]["content"], shown["content"], continuation)
            kept[-1] = {**shown, "content": both}
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


def parts_of(content: LlmContent) -> list[dict[str, Any]]:
    """A text is one part."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def joined_contents(
    first: LlmContent, second: LlmContent, following: Callable[[str, str], str]
) -> LlmContent:
    """The contents of two messages as one. `following` is how a second text follows a first one."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{following(first, second)}"
    return [*parts_of(first), *parts_of(second)]
