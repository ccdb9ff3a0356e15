"""An assistant's words as subtitles, at the times at which they are heard. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

_LINE_CHARS = 84
"""About two lines of a subtitle; a turn that says more begins anew."""

_STAYS_MS = 1500.0


@dataclass(frozen=True, slots=True)
class Words:
    """What a unit says, from `at_ms` until `until_ms`; `ends_turn`: nothing follows it."""

    at_ms: float
    until_ms: float
    text: str
    ends_turn: bool


@dataclass(frozen=True, slots=True)
class Caption:
    """Shown from `start_ms` until `end_ms`."""

    start_ms: int
    end_ms: int
    text: str


def captions(said: Sequence[Words], end_ms: float) -> list[Caption]:
    """A turn's words grow until they fill the line; the last of them stay for a while.

    Nothing is shown after `end_ms`.
    """
    shown: list[Caption] = []
    text, turn_over = "", True
    for words in said:
        if turn_over or len(text) + len(words.text) > _LINE_CHARS:
            text = ""
        text, turn_over = text + words.text, words.ends_turn
        start = round(words.at_ms)
        if shown:
            shown[-1] = replace(shown[-1], end_ms=min(shown[-1].end_ms, start))
        end = round(min(words.until_ms + _STAYS_MS, end_ms))
        shown.append(Caption(start, end, text.strip()))
    return [caption for caption in shown if caption.text and caption.end_ms > caption.start_ms]
