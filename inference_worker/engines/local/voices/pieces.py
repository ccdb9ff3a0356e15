"""A clause in pieces, for a listener who waits: each is ready before the one before it has been played."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.local.voices.cancellation import (
    Cancellation,
    SynthesisCancelled,
)
from antiphon.inference_worker.engines.local.voices.kokoro import (
    CONTEXT_STEPS,
    STEP_SAMPLES,
    Kokoro,
    Statistics,
    Style,
)
from antiphon.shared_schemas.audio import OUTPUT_RATE, Samples

STEP_S = STEP_SAMPLES / OUTPUT_RATE

MELODY_SHARE = 1 / 8
"""What the melody of a text takes, of the time of its sound."""

_SHORTEST_STEPS = 16
_GROWTH_STEPS = 4

_RESERVE = 2.0
"""A piece may take so much longer than expected before there is a gap: other programs use the cores too."""


@dataclass(frozen=True, slots=True)
class SpeechPiece:
    """`audio` follows the piece before. `steps`: duration of each symbol of the whole text."""

    audio: Samples
    steps: NDArray[np.int64]
    last: bool


def first_steps(length: int, seconds_per_step: float, made: int = _SHORTEST_STEPS) -> int:
    """The shortest begin of `length` steps, from `made` on, after which all pieces are ready in time."""
    for first in range(made, length, _GROWTH_STEPS):
        end, spent_s = first, 0.0
        while end < length:
            count = _next_steps(end * STEP_S - spent_s, seconds_per_step, length - end)
            if not count:
                break
            end += count
            spent_s += _RESERVE * seconds_per_step * (count + 2 * CONTEXT_STEPS)
        else:
            return first
    return length


def _next_steps(left_s: float, seconds_per_step: float, rest: int) -> int:
    """The longest piece of the `rest` that is ready in time. 0: none is."""
    count = int(left_s / (_RESERVE * seconds_per_step)) - 2 * CONTEXT_STEPS
    if count >= rest:
        return rest
    count = min(count, rest - _SHORTEST_STEPS)
    return count if count >= _SHORTEST_STEPS else 0


@dataclass(frozen=True, slots=True)
class PieceMaker:
    """Makes the pieces of one text, which is needed at a value of time.perf_counter().

    `whole_s`: how long it may take at once.
    """

    network: Kokoro
    ids: Sequence[int]
    style: Style
    statistics: Statistics
    speed: float
    whole_s: float
    needed_at: float
    cancellation: Cancellation

    def make(self, give: Callable[[SpeechPiece], None]) -> None:
        """Raises SynthesisCancelled if it is cancelled."""
        melody = self.network.melody(self.ids, self.style, self.speed, self.cancellation)
        length = melody.length
        seconds_per_step = self.whole_s / (1 + MELODY_SHARE) / length
        begin, end, plays_from = 0, first_steps(length, seconds_per_step), 0.0
        held: list[SpeechPiece] = []
        while True:
            begun = time.perf_counter()
            audio = self.network.piece(melody, begin, end, self.statistics, self.cancellation)
            now = time.perf_counter()
            held.append(SpeechPiece(audio, melody.steps, end == length))
            measured = (now - begun) / (end - begin + CONTEXT_STEPS)
            seconds_per_step = max(seconds_per_step, measured)
            # Until the listener hears something, it is not too late to wait for more.
            ready = end if plays_from else first_steps(length, seconds_per_step, end)
            if ready == end:
                for piece in held:
                    give(piece)
                held.clear()
                if end == length:
                    return
                plays_from = plays_from or max(now, self.needed_at)
                left_s = plays_from + end * STEP_S - now
                # After 0 there will be a gap, and with a long piece no second one.
                count = _next_steps(left_s, seconds_per_step, length - end) or end
            else:
                count = ready - end
            begin, end = end, min(length, end + count)


def in_background(
    work: Callable[[Callable[[SpeechPiece], None]], None],
) -> Generator[SpeechPiece, None, None]:
    """What `work` gives, in a thread of its own: it does not wait until a piece has been taken.

    Raises what `work` raises. If the caller takes no more, `work` ends with its next piece.
    """
    made: SimpleQueue[SpeechPiece | BaseException | None] = SimpleQueue()
    left = threading.Event()

    def give(piece: SpeechPiece) -> None:
        if left.is_set():
            raise SynthesisCancelled
        made.put(piece)

    def run() -> None:
        try:
            work(give)
        except BaseException as error:  # noqa: BLE001 - raised again where the pieces are taken
            made.put(error)
        else:
            made.put(None)

    threading.Thread(target=run, name="voice-pieces", daemon=True).start()
    try:
        while (piece := made.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        left.set()
