"""What was said in a session, as the language model is to see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from antiphon.inference_worker.engines.local.speech import Piece

STYLE_HINT = "Give short, correct answers in plain words."
"""Added to the user's system prompt: a spoken answer must be brief and free of markup."""

_TOKENS_PER_TURN = 6
_CHARACTERS_PER_TOKEN = 3.0
"""Careful: English takes more than four characters for a token."""

Message = dict[str, str]


@dataclass(slots=True)
class _Turn:
    """`played_ms`: how much of its `sound_ms` the client says it has played, None if it never said."""

    role: Literal["user", "assistant"]
    pieces: list[Piece] = field(default_factory=list)
    sound_ms: float = 0.0
    played_ms: float | None = None
    broken_off: bool = False

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def heard(self) -> str:
        """The words that had begun in what was played; all of them where nobody listens to sound."""
        played_ms = self.played_ms
        if played_ms is None or not self.sound_ms:
            return self.text
        return "".join(piece.text for piece in self.pieces if piece.at_ms < played_ms)

    @property
    def tokens(self) -> float:
        return turn_tokens(self.text)


class Dialogue:
    """The system prompt and the turns; only words that were really spoken are the assistant's.

    Where the client tells what it has played, an answer that was broken off, or that the user spoke
    after, holds only what was heard of it.
    """

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
            self._turns[-1].pieces.append(Piece(0.0, f" {text}"))
        else:
            self._turns.append(_Turn("user", [Piece(0.0, text)]))

    def say(self, text: str) -> None:
        """The assistant said `text`, which has a leading space where it goes on with a turn."""
        self.speak([Piece(0.0, text)] if text else [], 0.0)

    def speak(self, pieces: Iterable[Piece], sound_ms: float) -> None:
        """The same with its sound, `sound_ms` long, in which the pieces begin where they say."""
        pieces = list(pieces)
        if not self._turn_open:
            if not pieces:
                return
            self._turns.append(_Turn("assistant"))
            self._turn_open = True
        turn = self._turns[-1]
        turn.pieces += [Piece(turn.sound_ms + piece.at_ms, piece.text) for piece in pieces]
        turn.sound_ms += sound_ms

    def played(self, played_ms: float) -> None:
        """So much of the last answer, which may still be going on, has been played."""
        answers = [turn for turn in self._turns if turn.role == "assistant"]
        if answers:
            answers[-1].played_ms = played_ms

    def end_turn(self) -> None:
        """The assistant's turn has been said to its end."""
        self._turn_open = False

    def break_off(self) -> None:
        """The assistant's turn, if one is going on, ends before its end."""
        if self._turn_open:
            self._turns[-1].broken_off = True
            self._turn_open = False

    def excuse(self) -> None:
        """Leave the user's last words without an answer."""
        self._excused = True

    def messages(self, reply_so_far: str = "", expected: str = "") -> list[Message]:
        """Chat messages, oldest first; `reply_so_far` follows what was spoken of an open turn.

        Or as they will be once the user has said `expected`.
        """
        messages = [{"role": "system", "content": self._system}]
        for place, turn in enumerate(self._turns, start=1):
            followed = turn.broken_off or place < len(self._turns) or bool(expected)
            if text := turn.heard if followed else turn.text:
                _append(messages, turn.role, text)
        if self._turn_open and reply_so_far:
            messages[-1]["content"] += reply_so_far
        if expected:
            _append(messages, "user", expected)
        return messages

    def trim(self, budget_tokens: float) -> bool:
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
        return turn_tokens(self._system) + sum(turn.tokens for turn in self._turns)


def turn_tokens(text: str) -> float:
    """The tokens that a turn of `text` may take."""
    return _TOKENS_PER_TURN + len(text) / _CHARACTERS_PER_TOKEN


def _append(messages: list[Message], role: str, text: str) -> None:
    """Between the user's words, an answer that nobody heard leaves no gap."""
    if messages[-1]["role"] == role:
        messages[-1]["content"] += f" {text}"
    else:
        messages.append({"role": role, "content": text})
