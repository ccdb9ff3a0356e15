"""A GPU in virtual time: its streams, what a batch costs on it, and the vocoder beside it.

Nothing is computed. A batch takes the time that a table of costs gives. The default costs are ASSUMED for
an H200; no GPU measured them.
"""

import heapq
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch

from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import bucket, ragged_bucket
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import SampledToken
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    DecodeCodes,
    DecodeSpeech,
    EncodeAudio,
    EncodeImages,
    EngineStep,
    Feed,
    FeedResult,
    SampleToken,
    SpeechCondition,
    TokenStep,
)
from random_model import TINY, WORD

SPOKEN_CODES = 70
"""Codes of ten tokens of a written answer: 2.8 s."""

END_CODE = 1
"""Ends the speech of a written answer. A unit has no end code."""

CONTEXT_TOKENS = 2048
"""Context of each session, for which costs are assumed."""

SOON = 1e-9


@dataclass(frozen=True)
class Cost:
    """Milliseconds of a batch: `base` and its sessions and tokens, but at least `floor`."""

    floor: float = 0.0
    base: float = 0.0
    per_session: float = 0.0
    per_token: float = 0.0

    def of(self, sessions: int, tokens: int) -> float:
        return max(self.floor, self.base + self.per_session * sessions + self.per_token * tokens)


ASSUMED = {
    # Bytes: 15 GB of weights at 64 % of 4.8 TB/s. Products: 7.6e9 weights at 60 % of 989 TFLOP/s.
    "Feed": Cost(floor=4.9, per_token=0.0256),
    # Part of a feed: the keys and values of a session, 0.3 GB for 2048 tokens.
    "ReadCache": Cost(per_session=0.1),
    # In a graph: 70 launches at 2 µs, a few passes over the scores, and the tables of the host.
    "SampleToken": Cost(base=0.5, per_session=0.02),
    # 478 launches in a graph at 2 µs. A row is 30 GFLOP, and 0.15 GB that are read, copied and read.
    "EncodeAudio": Cost(base=1.0, per_token=0.2),
    # 490 launches in a graph at 2 µs, and 0.85 TFLOP and attention for each slice.
    "EncodeImages": Cost(base=1.0, per_token=1.6),
    "SpeechCondition": Cost(base=0.2),
    "DecodeSpeech": Cost(base=1.2),
    # Each code. No draw on the host; 285 launches with the draw in a graph take 0.57 ms at 2 µs.
    "DecodeCodes": Cost(base=0.86),
    "Token2wav": Cost(floor=30.0, base=4.0, per_session=5.4),
    # The engine thread before and after a batch, while the stream of the language model is idle.
    "Host": Cost(base=0.5, per_session=0.05),
}
"""Estimates for an H200, by type of step. Types that are not listed take the time of the host only."""


def read_costs(path: Path) -> dict[str, Cost]:
    """The assumed costs, with those of a JSON file in their place: {"Feed": {"floor": 4.9}}."""
    return ASSUMED | {kind: Cost(**cost) for kind, cost in json.loads(path.read_text()).items()}


def with_context(costs: dict[str, Cost], tokens: int) -> dict[str, Cost]:
    """The costs for sessions of this many tokens, if those of reading their cache are assumed."""
    read = costs["ReadCache"].per_session * tokens / CONTEXT_TOKENS
    return costs | {"ReadCache": Cost(per_session=read)}


@dataclass
class _Stream:
    """Work of a stream beside the language model, and what follows it."""

    left: float
    then: Callable[[], None]


class Gpu:
    """Virtual milliseconds on one GPU. Streams that compute at the same time share it equally: all together
    do `1 + overlap` times the work of one.
    """

    def __init__(self, overlap: float) -> None:
        self.now = 0.0
        self._overlap = overlap
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._streams: dict[str, _Stream] = {}

    def at(self, moment: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(moment, self.now), next(self._order), event))

    def start(self, stream: str, work: float, then: Callable[[], None] = lambda: None) -> None:
        """Begin work on a stream that is not busy; the caller goes on."""
        assert stream not in self._streams
        self._streams[stream] = _Stream(work, then)

    def is_busy(self, stream: str) -> bool:
        return stream in self._streams

    def finish(self, stream: str) -> None:
        """Wait until the stream has done its work."""
        while stream in self._streams:
            self._tick()

    def compute(self, work: float) -> None:
        """Do work of the language model, and wait for it."""
        while work > SOON:
            work = self._tick(work)

    def wait(self, duration: float) -> None:
        """Let time pass, in which the language model computes nothing."""
        end = self.now + duration
        while self.now < end - SOON:
            self._tick(limit=end)

    def skip(self, limit: float = math.inf) -> bool:
        """Go to the next event, at most to `limit`; False if nothing is to come."""
        if not (self._events or self._streams or limit < math.inf):
            return False
        self._tick(limit=limit)
        return True

    def _tick(self, work: float = 0.0, limit: float = math.inf) -> float:
        """Go to the next moment at which something ends or happens; returns the work that is left."""
        active = len(self._streams) + (work > 0)
        rate = min(1.0, (1 + self._overlap) / active) if active else 1.0
        lasting = [stream.left for stream in self._streams.values()] + [work] * (work > 0)
        ends = [limit, *(self.now + left / rate for left in lasting)]
        if self._events:
            ends.append(self._events[0][0])
        span = max(0.0, min(ends) - self.now)
        self.now += span
        for stream in self._streams.values():
            stream.left -= span * rate
        for name in [name for name, stream in self._streams.items() if stream.left <= SOON]:
            self._streams.pop(name).then()
        while self._events and self._events[0][0] <= self.now + SOON:
            heapq.heappop(self._events)[2]()
        return max(0.0, work - span * rate)


@dataclass(frozen=True, slots=True, eq=False)
class WaitForEvent(EngineStep):
    """Let time pass until something happens, if no session has work."""

    batchable: ClassVar[bool] = False

    def patience(self, now: float) -> int:  # noqa: ARG002
        return 2


class SimulatedDevice:
    """Takes the place of the runner. A session speaks what `words` allows it. `ends_turn` makes the last word
    the end of its turn; otherwise it cannot listen in the next unit.
    """

    def __init__(
        self, slots: int, costs: dict[str, Cost], gpu: Gpu, *, ragged: bool, speech_stream: bool
    ) -> None:
        self.slots = slots
        self.ragged = ragged
        self.starts_codes = speech_stream
        self.words = [0] * slots
        self.ends_turn = [False] * slots
        self.batches: dict[str, list[int]] = defaultdict(list)
        self._codes = [0] * slots
        self._costs, self._gpu = costs, gpu
        self._logits = torch.zeros(1)
        self._ids = Tokenizer(TINY).ids

    def enter_thread(self) -> None: ...

    def is_device_lost(self) -> bool:
        return False

    def run(self, steps: Sequence[EngineStep]) -> list[Any]:
        if isinstance(steps[0], WaitForEvent):
            if self._gpu.is_busy("codes"):
                self._gpu.finish("codes")
                return [True]
            return [self._gpu.skip()]
        host, device = self._cost(steps)
        self._gpu.wait(host)
        self._gpu.compute(device)
        return [self._answer(step) for step in steps]

    def start(self, steps: Sequence[EngineStep]) -> "SimulatedCodes":
        """The work of the device runs beside other steps; that of the host does not."""
        host, device = self._cost(steps)
        self._gpu.wait(host)
        self._gpu.start("codes", device)
        return SimulatedCodes([self._answer(step) for step in steps], self._gpu)

    def _cost(self, steps: Sequence[EngineStep]) -> tuple[float, float]:
        """Milliseconds of the host and of the device."""
        first, kind = steps[0], type(steps[0]).__name__
        host, device = self._costs["Host"].of(len(steps), 0), 0.0
        if kind in self._costs:
            depth = first.size if isinstance(first, DecodeCodes) else 1
            device = depth * self._costs[kind].of(len(steps), self._tokens(steps))
        if isinstance(first, Feed):
            device += self._costs["ReadCache"].of(len(steps), 0)
        draws = sum(isinstance(step, Feed) and step.draw is not None for step in steps)
        if draws:
            device += self._costs["SampleToken"].of(draws, 0)
        self.batches[kind].append(len(steps))
        return host, device

    def _tokens(self, steps: Sequence[EngineStep]) -> int:
        """Tokens, rows of audio or slices that the runner computes, with padding."""
        if isinstance(steps[0], EncodeAudio):
            return min(self.slots, bucket(len(steps)))
        if isinstance(steps[0], EncodeImages):
            return sum(len(step.grids) for step in steps if isinstance(step, EncodeImages))
        sized = [step for step in steps if isinstance(step, TokenStep)]
        if not sized:
            return 0
        if self.ragged:
            return ragged_bucket(sum(step.size for step in sized))
        rows = min(self.slots, bucket(max(step.slot for step in sized) + 1))
        return rows * bucket(max(step.size for step in sized))

    def _answer(self, step: EngineStep) -> Any:
        match step:
            case Feed():
                drawn = self._drawn(step.slot) if step.draw else None
                return FeedResult(self._logits, self._logits, drawn)
            case SampleToken():
                return self._drawn(step.row.slot)
            case EncodeAudio():
                return torch.zeros(10, 1)
            case EncodeImages():
                return torch.zeros(len(step.grids), 64, 1)
            case SpeechCondition():
                return torch.zeros(len(step.tokens) + 1, 1)
            case DecodeSpeech():
                self._codes[step.slot] = 1
                return 0
            case DecodeCodes():
                return [self._code(step.slot) for _ in range(step.size)]
            case _:
                return 0

    def _code(self, slot: int) -> int:
        self._codes[slot] += 1
        return END_CODE if self._codes[slot] > SPOKEN_CODES else 0

    def _drawn(self, slot: int) -> SampledToken:
        left = self.words[slot]
        self.words[slot] -= 1
        if left < 0:
            return SampledToken(self._ids.listen, recorded=True)
        if left == 0:
            return SampledToken(self._ids.chunk_eos, recorded=True)
        ends_turn = left == 1 and self.ends_turn[slot]
        return SampledToken(self._ids.turn_eos if ends_turn else WORD, recorded=True)


@dataclass(frozen=True)
class SimulatedCodes:
    """Codes that are being drawn."""

    codes: list[Any]
    gpu: Gpu

    def is_ready(self) -> bool:
        return not self.gpu.is_busy("codes")

    def read(self) -> list[Any]:
        self.gpu.finish("codes")
        return self.codes


class SimulatedVocoder:
    """Serves everything queued at a moment, as `MicroBatcher` does, on a stream of the same GPU. The floor of
    its cost is time of its thread, in which the GPU may be idle.
    """

    def __init__(self, cost: Cost, gpu: Gpu) -> None:
        self._floor, self._work = cost.floor, replace(cost, floor=0.0)
        self._gpu = gpu
        self._queue: list[Callable[[], None]] = []
        self._serving = False

    def synthesize(self, then: Callable[[], None]) -> None:
        self._queue.append(then)
        if not self._serving:
            self._serve()

    def _serve(self) -> None:
        batch, self._queue = self._queue, []
        self._serving = bool(batch)
        if batch:
            end = partial(self._gpu.at, self._gpu.now + self._floor, partial(self._end, batch))
            self._gpu.start("vocoder", self._work.of(len(batch), 0), end)

    def _end(self, batch: list[Callable[[], None]]) -> None:
        for then in batch:
            then()
        self._serve()
