"""Where every sound lies on its channel: what a client captured, and what it played. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import merge

JITTER_S = 0.2
"""A chunk that comes this much later than it should still follows the one before without a gap."""


@dataclass(frozen=True, slots=True)
class Sound:
    """`samples` of sound in a file, which came `at_ms` after the session's start."""

    at_ms: float
    file: str
    samples: int


@dataclass(frozen=True, slots=True)
class Clip:
    """The first `samples` of a file, to be heard from sample `start` of its channel on."""

    start: int
    file: str
    samples: int

    @property
    def stop(self) -> int:
        """The sample after its last."""
        return self.start + self.samples


def captured(sounds: Sequence[Sound], rate: int, not_before: int | None = 0) -> list[Clip]:
    """Where a microphone's chunks lie: each one ended when it came, or earlier.

    A network may delay a chunk but cannot hurry it, so a late one is moved ahead until those after
    it fit; what came faster than it can have been spoken lies end to end. Nothing lies before
    `not_before`.
    """
    clips: list[Clip] = []
    for sound, end in zip(sounds, _latest_ends(sounds, rate), strict=True):
        start = end - sound.samples
        if clips and start - clips[-1].stop <= JITTER_S * rate:
            start = clips[-1].stop
        if not_before is not None:
            start = max(start, not_before)
        clips.append(Clip(start, sound.file, sound.samples))
    return clips


def _latest_ends(sounds: Sequence[Sound], rate: int) -> list[int]:
    """The latest sample at which each can have ended, seen from those that came after it."""
    ends: list[int] = []
    limit: int | None = None
    for sound in reversed(sounds):
        came = round(sound.at_ms * rate / 1000)
        end = came if limit is None else min(came, limit)
        ends.append(end)
        limit = end - sound.samples
    return ends[::-1]


def played(sounds: Iterable[Sound], hushes: Iterable[float], rate: int) -> list[Clip]:
    """What a client plays: each sound when it comes, or after what still plays.

    `hushes`: the times (ms) at which it drops whatever has not been heard yet. Both in order.
    """
    clips: list[Clip] = []
    pen = 0
    for at_ms, sound in merge(
        ((hush, None) for hush in hushes),
        ((sound.at_ms, sound) for sound in sounds),
        key=lambda event: event[0],
    ):
        now = max(0, round(at_ms * rate / 1000))
        if sound is None:
            clips = _cut(clips, now)
            pen = min(pen, now)
            continue
        start = max(pen, now)
        clips.append(Clip(start, sound.file, sound.samples))
        pen = start + sound.samples
    return clips


def _cut(clips: list[Clip], now: int) -> list[Clip]:
    """Without what would be heard from `now` on."""
    while clips and clips[-1].start >= now:
        clips.pop()
    if clips and clips[-1].stop > now:
        clips[-1] = replace(clips[-1], samples=now - clips[-1].start)
    return clips
