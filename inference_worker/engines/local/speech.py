"""What passes from text to sound: words, clauses with their audio, and one unit's share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from antiphon.shared_schemas.audio import OUTPUT_RATE, Samples


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it is shown and spoken (punctuation included), and the model tokens it took."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Clause:
    """Words that are spoken in one breath."""

    words: tuple[Word, ...]
    ends_sentence: bool

    @property
    def text(self) -> str:
        """The words with single spaces between them."""
        return " ".join(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class SpokenClause:
    """A clause and its sound.

    `audio` is float32 mono at 24 kHz. `starts` has the sample at which each word begins,
    `phonemes` the sample at which each phoneme begins; both ascend.
    """

    words: tuple[Word, ...]
    audio: Samples
    starts: tuple[int, ...]
    phonemes: tuple[int, ...]


class Piece(NamedTuple):
    """A word with the space before it, and the millisecond of sound at which it begins."""

    at_ms: float
    text: str


@dataclass(frozen=True, slots=True)
class UnitSpeech:
    """One unit's share of a reply: at most its duration of audio, and the words that begin in it.

    A first piece that continues the turn begins with a space too. `last` says the reply is over.
    """

    pieces: tuple[Piece, ...]
    audio: Samples
    tokens: int
    phonemes: int
    last: bool

    @property
    def text(self) -> str:
        """The words."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def sound_ms(self) -> float:
        """Length of the audio."""
        return milliseconds(len(self.audio))


def milliseconds(samples: int) -> float:
    """Length of so much speech."""
    return round(samples * 1000 / OUTPUT_RATE, 1)
