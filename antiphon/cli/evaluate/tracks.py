"""What a call consists of: the user's track, the model's track as it is played, and what was meant by both.

Times are seconds. Those of a `Case` count from its begin.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples

PAUSE_S = 0.5
"""Shorter silence is part of speech."""

_AUDIBLE = 0.01
_BLOCK_S = 0.01
_SHORTEST_S = 0.03


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time."""

    begin: float
    end: float

    def shifted(self, seconds: float) -> "Span":
        return Span(self.begin + seconds, self.end + seconds)

    def overlap(self, begin: float, end: float) -> float:
        """How much of it is between these times."""
        return max(0.0, min(self.end, end) - max(self.begin, begin))


def sounds_in(track: Samples, pause_s: float = PAUSE_S) -> list[Span]:
    """The stretches of sound of a track at OUTPUT_RATE; silence shorter than `pause_s` does not divide them."""
    block = round(OUTPUT_RATE * _BLOCK_S)
    count = len(track) // block
    loud = np.abs(track[: count * block]).reshape(count, block).max(axis=1) > _AUDIBLE
    edges = np.flatnonzero(np.diff(np.concatenate([[False], loud, [False]])))
    found: list[Span] = []
    for begin, end in zip(edges[::2] * _BLOCK_S, edges[1::2] * _BLOCK_S, strict=True):
        if found and begin - found[-1].end < pause_s:
            found[-1] = Span(found[-1].begin, float(end))
        else:
            found.append(Span(float(begin), float(end)))
    return [span for span in found if span.end - span.begin >= _SHORTEST_S]


def first_sound(samples: Samples, rate: int) -> float | None:
    """Position of the first audible sample; None for silence."""
    audible = np.flatnonzero(np.abs(samples) > _AUDIBLE)
    return float(audible[0]) / rate if len(audible) else None


class Kind(StrEnum):
    """What is tried in a case."""

    QUESTION = "question"
    PAUSE = "pause"
    INTERRUPTION = "interruption"
    BACKCHANNEL = "backchannel"
    SOUND = "sound"
    SOUND_IN_SILENCE = "sound-in-silence"
    ASIDE = "aside"
    ASIDE_IN_SILENCE = "aside-in-silence"
    WHITE_NOISE = "white-noise"
    PINK_NOISE = "pink-noise"
    BABBLE = "babble"
    SILENCE = "silence"
    HALF_DUPLEX = "half-duplex"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTurn:
    """What the user says to the model. `pause` is the silence inside."""

    kind: Kind
    span: Span
    pause: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A sound of the user's side that is no turn. Its kind says which."""

    kind: Kind
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """What the model says without listening in between, as far as it is played."""

    span: Span
    pieces: tuple[tuple[float, str], ...] = ()
    """The texts, and when each begins to play."""
    ended: bool = True
    """The model ended it."""
    cut: bool = False
    """The model did not end it, or some of its sound was dropped."""

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.pieces).strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing that was tried, with both tracks: `user` at 16 kHz, `model` at 24 kHz."""

    kind: Kind
    text: str
    voice: str
    user: Samples = field(repr=False)
    model: Samples = field(repr=False)
    turns: tuple[UserTurn, ...] = ()
    aside: Aside | None = None
    answers: tuple[ModelTurn, ...] = ()

    @property
    def seconds(self) -> float:
        return len(self.user) / INPUT_RATE


@dataclass(slots=True)
class _Block:
    """A result with sound, at the time at which it is played."""

    begin: float
    audio: Samples
    text: str
    turn: int
    first: float | None

    @property
    def end(self) -> float:
        return self.begin + len(self.audio) / OUTPUT_RATE


class Playback:
    """The loudspeaker of a client: plays results one after another, and may drop what is left."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._ended: set[int] = set()
        self._cut: set[int] = set()

    @property
    def ends_at(self) -> float:
        return self._blocks[-1].end if self._blocks else 0.0

    def add(self, audio: Samples, text: str, turn: int, now: float) -> None:
        """Play this after what is left, or now."""
        begin = max(now, self.ends_at)
        self._blocks.append(_Block(begin, audio, text, turn, first_sound(audio, OUTPUT_RATE)))

    def end_turn(self, turn: int) -> None:
        """The model has sent all of this turn."""
        self._ended.add(turn)

    def drop(self, now: float, *, open_turns_only: bool = False) -> float | None:
        """Drop what is left; returns how much of the turn was played, in seconds. None: nothing was left.

        `open_turns_only`: a turn that the model has ended plays to its end.
        """
        if self._blocks and self._blocks[-1].turn not in self._ended:
            self._cut.add(self._blocks[-1].turn)
        left = [one for one in self._blocks if one.end > now]
        if open_turns_only:
            left = [one for one in left if one.turn not in self._ended]
        if not left:
            return None
        turn = left[0].turn
        for block in left:
            self._cut.add(block.turn)
            block.audio = block.audio[: max(0, round((now - block.begin) * OUTPUT_RATE))]
        self._blocks = [one for one in self._blocks if len(one.audio)]
        return sum(len(one.audio) for one in self._blocks if one.turn == turn) / OUTPUT_RATE

    def sound_since(self, after: float, now: float) -> float | None:
        """When the first sound after this time was played; None if there is none yet."""
        for block in self._blocks:
            if block.end <= after or block.first is None:
                continue
            begin = block.begin + block.first
            if begin < after:
                rest = first_sound(
                    block.audio[round((after - block.begin) * OUTPUT_RATE) :], OUTPUT_RATE
                )
                if rest is None:
                    continue
                begin = after + rest
            return begin if begin <= now else None
        return None

    def track(self, begin: float, end: float) -> Samples:
        """What plays between these times, at 24 kHz."""
        sound = np.zeros(max(0, round((end - begin) * OUTPUT_RATE)), np.float32)
        for block in self._blocks:
            at = round((block.begin - begin) * OUTPUT_RATE)
            audio = block.audio[max(0, -at) :]
            at = max(0, at)
            audio = audio[: max(0, len(sound) - at)]
            sound[at : at + len(audio)] = audio
        return sound

    def turns(self, begin: float, end: float) -> tuple[ModelTurn, ...]:
        """The turns that play between these times; times count from `begin`."""
        by_turn: dict[int, list[_Block]] = {}
        for block in self._blocks:
            by_turn.setdefault(block.turn, []).append(block)
        return tuple(
            ModelTurn(
                span=Span(blocks[0].begin, blocks[-1].end).shifted(-begin),
                pieces=tuple((one.begin - begin, one.text) for one in blocks if one.text),
                ended=turn in self._ended,
                cut=turn in self._cut,
            )
            for turn, blocks in by_turn.items()
            if blocks[0].begin < end and blocks[-1].end > begin
        )


class Microphone:
    """The user's track. Sounds are added at any time that was not sent yet."""

    def __init__(self) -> None:
        self._sound = SILENCE

    def add(self, samples: Samples, at: float) -> Span:
        """Mix a sound into the track; returns when it plays."""
        begin = round(at * INPUT_RATE)
        end = begin + len(samples)
        if end > len(self._sound):
            self._sound = np.pad(self._sound, (0, end - len(self._sound)))
        self._sound[begin:end] += samples
        return Span(begin / INPUT_RATE, end / INPUT_RATE)

    def hush(self, at: float) -> None:
        """Silence from this time on."""
        self._sound = self._sound[: round(at * INPUT_RATE)]

    def track(self, begin: float, end: float) -> Samples:
        first, last = round(begin * INPUT_RATE), round(end * INPUT_RATE)
        sound = self._sound[first:last]
        return np.pad(sound, (0, last - first - len(sound)))


def mixed(tracks: Sequence[Samples]) -> Samples:
    """The sum of tracks of one length, within full scale."""
    sound: Samples = np.clip(np.sum(tracks, axis=0), -1.0, 1.0).astype(np.float32)
    return sound
