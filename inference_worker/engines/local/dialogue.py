"""What was said in a session, as the language model is to see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

STYLE_HINT = "Give short, correct answers in plain words."
"""Added to the user's system prompt: a spoken answer must be brief and free of markup."""

_TOKENS_PER_TURN = 6
_CHARACTERS_PER_TOKEN = 3.0
"""Careful: English takes more than four characters for a token."""

Message = dict[str, str]


@dataclass(slots=True)
class _Turn:
    role: Literal["user", "assistant"]
    text: str

    @property
    def tokens(self) -> float:
        return _TOKENS_PER_TURN + len(self.text) / _CHARACTERS_PER_TOKEN


class Dialogue:
    """The system prompt and the turns; only words that were really spoken are the assistant's."""

    def __init__(self, system_prompt: str) -> None:
        self._system = f"{system_prompt.strip()} {STYLE_HINT}".strip()
        self._turns: list[_Turn] = []
        self._excused = False
        self._turn_open = False

    @property
    def unanswered(self) -> bool:
        """True while the user's last words still wait for a reply."""
        return bool(self._turns) and self._turns[-1].role == "user" and not self._excused

    def hear(self, text: str) -> None:
        """The user said `text`; it continues their turn if that is still unanswered."""
        self._excused = self._turn_open = False
        if self._turns and self._turns[-1].role == "user":
            self._turns[-1].text += f" {text}"
        else:
            self._turns.append(_Turn("user", text))

    def say(self, text: str) -> None:
        """The assistant spoke `text`, which has a leading space where it goes on with a turn."""
        if self._turn_open:
            self._turns[-1].text += text
        elif text:
            self._turns.append(_Turn("assistant", text))
            self._turn_open = True

    def end_turn(self) -> None:
        """The assistant's turn is over, said to its end or interrupted."""
        self._turn_open = False

    def excuse(self) -> None:
        """Leave the user's last words without an answer."""
        self._excused = True

    def messages(self, reply_so_far: str = "") -> list[Message]:
        """Chat messages, oldest first; `reply_so_far` follows what was spoken of an open turn."""
        messages = [{"role": "system", "content": self._system}]
        messages += [{"role": turn.role, "content": turn.text} for turn in self._turns]
        if self._turn_open and reply_so_far:
            messages[-1]["content"] += reply_so_far
        return messages

    def trim(self, budget_tokens: int) -> bool:
        """Forget the oldest turns if the rest may exceed `budget_tokens`; True if any went.

        Half of the budget is freed at once, because every cut makes the model read the rest again.
        """
        if self._tokens() <= budget_tokens:
            return False
        while len(self._turns) > 1 and self._tokens() > budget_tokens / 2:
            self._turns.pop(0)
            while len(self._turns) > 1 and self._turns[0].role == "assistant":
                self._turns.pop(0)
        return True

    def _tokens(self) -> float:
        system = _TOKENS_PER_TURN + len(self._system) / _CHARACTERS_PER_TOKEN
        return system + sum(turn.tokens for turn in self._turns)
