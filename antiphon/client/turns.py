"""The turns of the model in a full-duplex conversation."""

from dataclasses import dataclass, field

import numpy as np

from antiphon.shared_schemas.audio import INPUT_RATE, SILENCE, Samples
from antiphon.shared_schemas.messages.duplex import Result

_AUDIBLE = 0.01
FOLLOWED_S = 3.0
"""After an answer that began during the question, another one may begin within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the model said without listening in between.

    `start_s` and `end_s` are positions in the audio of the user: what the model had received when the first
    and the last second of the turn arrived.
    """

    text: str
    audio: Samples = field(repr=False)
    """Float32 mono at 24 kHz."""
    start_s: float
    end_s: float
    interrupted: bool
    """The model listened, or the session ended, before the turn was complete."""


class TurnCounter:
    """Numbers the turns of the model. One ends with `end_of_turn`, or when the model listens."""

    def __init__(self) -> None:
        self._number = -1
        self.is_open = False

    def take(self, result: Result) -> int | None:
        """The number of the turn that a unit belongs to, from 0; None while the model listens."""
        if result.is_listen:
            self.is_open = False
            return None
        if not self.is_open:
            self._number += 1
        self.is_open = not result.end_of_turn
        return self._number


class TurnLog:
    """Collects the units of a conversation by turn."""

    def __init__(self) -> None:
        self._counter = TurnCounter()
        self._turns: list[list[tuple[Result, Samples]]] = []
        self._input_s = 0.0

    def add(self, result: Result, audio: Samples) -> None:
        """Add a unit with its audio as float32."""
        self._input_s = result.current_time / 1000
        number = self._counter.take(result)
        if number is None:
            return
        if number == len(self._turns):
            self._turns.append([])
        self._turns[number].append((result, audio))

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns so far."""
        return tuple(_turn(units) for units in self._turns)

    @property
    def text(self) -> str:
        """The texts of the turns as sentences in a row."""
        return joined_text(self.turns)

    @property
    def audio(self) -> Samples:
        """The speech of all turns, float32 mono at 24 kHz."""
        return joined_audio(self.turns)

    @property
    def is_complete(self) -> bool:
        """The model has spoken, and ended its last turn itself."""
        return bool(self._turns) and self._turns[-1][-1][0].end_of_turn

    def answers(self, asked_s: float, followed_s: float = FOLLOWED_S) -> bool:
        """The answer to a question that ended at this position is complete.

        A turn that ended before is no answer to the whole question. One that began before may be followed
        by the answer to the rest: it counts when the model has listened for `followed_s` after it.
        """
        if not self.is_complete:
            return False
        last = self.turns[-1]
        followed = last.start_s > asked_s or self._input_s >= last.end_s + followed_s
        return last.end_s > asked_s and followed


def joined_text(turns: tuple[Turn, ...]) -> str:
    return " ".join(turn.text for turn in turns if turn.text)


def joined_audio(turns: tuple[Turn, ...]) -> Samples:
    return np.concatenate([SILENCE, *(turn.audio for turn in turns)])


def _turn(units: list[tuple[Result, Samples]]) -> Turn:
    first, last = units[0][0], units[-1][0]
    return Turn(
        text="".join(result.text for result, _ in units).strip(),
        audio=np.concatenate([SILENCE, *(audio for _, audio in units)]),
        start_s=first.current_time / 1000,
        end_s=last.current_time / 1000,
        interrupted=not last.end_of_turn,
    )


def speech_end_s(samples: Samples) -> float:
    """Position of the last audible sample in 16 kHz speech, in seconds."""
    audible = np.flatnonzero(np.abs(samples) > _AUDIBLE)
    return float(audible[-1] + 1) / INPUT_RATE if len(audible) else 0.0
