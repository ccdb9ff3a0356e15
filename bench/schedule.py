"""Unit times of many full-duplex sessions on a simulated device, in virtual time.

    python bench/schedule.py                                # 1 to 64 sessions, all of them speak
    python bench/schedule.py --sessions 32 --phases random --speaking 0.5
    python bench/schedule.py --costs costs.json             # measured: bench/gpu_report.py writes them

Sessions, engine thread and scheduler are the real ones. Only the device is simulated: a batch takes
the time that a table of costs gives, and nothing is computed. The default costs are ASSUMED for an
H200; no GPU measured them. A run needs seconds, and equal arguments give equal results.

A unit is due one second after the previous one. Its latency counts from there to its audio, or to
the decision to listen. Prints Markdown.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast, get_args

import numpy as np
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import Engine, EngineJob
from antiphon.inference_worker.engines.minicpmo.scheduling.runner import Runner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    DecodeCodes,
    EncodeAudio,
    EngineStep,
    Feed,
    FeedResult,
    SampledToken,
    SampleToken,
    SpeechCondition,
    SpeechSettings,
    Steps,
    TokenStep,
    bucket,
    ragged_bucket,
)
from antiphon.inference_worker.engines.minicpmo.sessions.context import AudioInput
from antiphon.inference_worker.engines.minicpmo.sessions.duplex import (
    DuplexConversation,
    UnitOutcome,
)
from antiphon.inference_worker.engines.minicpmo.sessions.speech_output import SpeechContext
from antiphon.shared_schemas.config import DuplexConfig
from random_model import TINY, WORD

DEADLINE_MS = 1000
TURN_UNITS = 4
"""Units that a session speaks or listens for at a time."""

WARM_UP_UNITS = 3
"""Units at the start of a run that are not counted."""

MEL = torch.zeros(80, 102)
Phases = Literal["even", "random", "aligned"]


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
    # In a graph: 70 launches at 2 µs, a few passes over the scores, and the tables of the host.
    "SampleToken": Cost(base=0.5, per_session=0.02),
    "EncodeAudio": Cost(base=1.0, per_session=1.0),
    "SpeechCondition": Cost(base=0.2),
    "DecodeSpeech": Cost(base=1.2),
    # Each code. No draw on the host; 258 launches with the draw in a graph take 0.5 ms at 2 µs.
    "DecodeCodes": Cost(base=0.8),
    "Token2wav": Cost(floor=30.0, base=4.0, per_session=5.4),
    "Advance": Cost(per_session=0.05),
}
"""Estimates for an H200, by type of step. `Advance` is the Python of a session between two steps,
and is part of every batch. Types that are not listed take no other time.
"""


class Clock:
    """Virtual milliseconds, and what happens at later ones."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, moment: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(moment, self.now), next(self._order), event))

    def advance(self, duration: float) -> None:
        """Let `duration` pass, with all events in it."""
        end = self.now + duration
        while self._events and self._events[0][0] <= end:
            self._next()
        self.now = end

    def skip(self) -> bool:
        """Go to the next event; False if there is none."""
        return bool(self._events) and self._next()

    def _next(self) -> bool:
        self.now, _, event = heapq.heappop(self._events)
        event()
        return True


@dataclass(frozen=True, slots=True, eq=False)
class WaitForEvent(EngineStep):
    """Let time pass until something happens, if no session has work. It is no work itself, so it does not
    run while codes are drawn, like other codes.
    """

    batchable: ClassVar[bool] = False
    draws_codes: ClassVar[bool] = True


class SimulatedDevice:
    """Takes the place of the runner. A session speaks what `words` allows it."""

    def __init__(self, scenario: Scenario, costs: dict[str, Cost], clock: Clock) -> None:
        self.slots = slots = scenario.sessions
        self.ragged = scenario.ragged
        self.starts_codes = scenario.overlap is not None
        self._overlap = scenario.overlap or 0.0
        self.words = [0] * slots
        self.running = 0
        self.busy: dict[str, float] = defaultdict(float)
        self.batches: dict[str, list[int]] = defaultdict(list)
        self._costs, self._clock = costs, clock
        # A session is recognised by its logits.
        self._logits = [torch.tensor([slot]) for slot in range(slots)]
        self._ids = Tokenizer(TINY).ids

    def enter_thread(self) -> None: ...

    def is_device_lost(self) -> bool:
        return False

    def run(self, steps: Sequence[EngineStep]) -> list[Any]:
        if isinstance(steps[0], WaitForEvent):
            return [self.running > 0 or self._clock.skip()]
        self._clock.advance(self._cost(steps))
        return [self._answer(step) for step in steps]

    def start(self, steps: Sequence[EngineStep]) -> SimulatedCodes:
        """The share `overlap` of the time runs beside other steps; the Python of sessions does not."""
        if isinstance(steps[0], WaitForEvent):
            return SimulatedCodes(self.run(steps), self._clock.now, self._clock)
        host = self._costs["Advance"].of(len(steps), 0)
        whole = self._cost(steps)
        beside = self._overlap * (whole - host)
        self._clock.advance(whole - beside)
        codes = [self._answer(step) for step in steps]
        return SimulatedCodes(codes, self._clock.now + beside, self._clock)

    def _cost(self, steps: Sequence[EngineStep]) -> float:
        kind = type(steps[0]).__name__
        duration = self._costs["Advance"].of(len(steps), 0)
        if kind in self._costs:
            depth = steps[0].size if isinstance(steps[0], DecodeCodes) else 1
            duration += depth * self._costs[kind].of(len(steps), self._tokens(steps))
        draws = sum(isinstance(step, Feed) and step.draw is not None for step in steps)
        if draws:
            duration += self._costs["SampleToken"].of(draws, 0)
        self.busy[kind] += duration
        self.batches[kind].append(len(steps))
        return duration

    def _tokens(self, steps: Sequence[EngineStep]) -> int:
        """Tokens that the runner computes, with padding."""
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
                logits = self._logits[step.slot]
                return FeedResult(logits, logits, self._drawn(step.slot) if step.draw else None)
            case SampleToken():
                return self._drawn(int(step.logits))
            case EncodeAudio():
                return torch.zeros(10, 1)
            case SpeechCondition():
                return torch.zeros(len(step.tokens) + 1, 1)
            case DecodeCodes():
                return [0] * step.size
            case _:
                return 0

    def _drawn(self, slot: int) -> SampledToken:
        left = self.words[slot]
        self.words[slot] -= 1
        if left < 0:
            return SampledToken(self._ids.listen, recorded=True)
        return SampledToken(WORD if left else self._ids.chunk_eos, recorded=True)


@dataclass(frozen=True)
class SimulatedCodes:
    """Codes that are drawn at the time `ready`."""

    codes: list[Any]
    ready: float
    clock: Clock

    def is_ready(self) -> bool:
        return self.clock.now >= self.ready

    def read(self) -> list[Any]:
        self.clock.advance(max(0.0, self.ready - self.clock.now))
        return self.codes


class SimulatedVocoder:
    """Serves everything queued at a moment, as `MicroBatcher` does."""

    def __init__(self, cost: Cost, clock: Clock) -> None:
        self._cost, self._clock = cost, clock
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
            duration = self._cost.of(len(batch), 0)
            self._clock.at(self._clock.now + duration, lambda: self._end(batch))

    def _end(self, batch: list[Callable[[], None]]) -> None:
        for then in batch:
            then()
        self._serve()


@dataclass
class User:
    """One session: when its units are due, and which of them it speaks."""

    conversation: DuplexConversation
    phase: float
    speaks: Callable[[int], bool]
    unit: int = 0
    latencies: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})


@dataclass(frozen=True)
class Scenario:
    """What a run simulates. `speaking` is the share of units that speak `tokens` words; `overlap` the
    share of the time of codes that runs beside other steps, None with one stream.
    """

    sessions: int
    units: int = 20
    tokens: int = 19
    speaking: float = 1.0
    phases: Phases = "even"
    ticks: int = 2
    jitter_ms: float = 0.0
    seed: int = 0
    ragged: bool = True
    overlap: float | None = None


class Simulation:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, costs: dict[str, Cost]) -> None:
        self.scenario = scenario
        self.clock = Clock()
        self.device = SimulatedDevice(scenario, costs, self.clock)
        self.vocoder = SimulatedVocoder(costs["Token2wav"], self.clock)
        self.engine = Engine(cast("Runner", self.device))
        self._failure: BaseException | None = None
        self._random = random.Random(scenario.seed)
        tokenizer = Tokenizer(TINY)
        self.users = [self._user(slot, tokenizer) for slot in range(scenario.sessions)]

    def run(self) -> None:
        """Simulate all units. Everything happens on the engine thread, in one order."""
        for user in self.users:
            self._schedule(user)
        try:
            self.engine.run(self._pass_time())
        finally:
            self.engine.close()
        if self._failure is not None:
            raise self._failure

    def latencies(self, *, speak: bool) -> list[float]:
        return [value for user in self.users for value in user.latencies[speak]]

    def _pass_time(self) -> Steps[None]:
        while self._failure is None and (yield WaitForEvent()):
            pass

    def _user(self, slot: int, tokenizer: Tokenizer) -> User:
        options = EngineOptions()
        speech = SpeechContext(
            slot=slot,
            capacity=options.speech_tokens,
            end_code=-1,
            settings=SpeechSettings(),
            codes_per_step=self.engine.codes_per_step,
        )
        config = DuplexConfig(force_listen_count=0)
        conversation = DuplexConversation(
            slot,
            tokenizer,
            AudioInput(slot=slot, capacity=1500),
            speech,
            config=config,
            options=options,
        )
        turns = [self._random.random() for _ in range(self.scenario.units // TURN_UNITS + 1)]
        share = self.scenario.speaking
        return User(conversation, self._phase(slot), lambda u: turns[u // TURN_UNITS] < share)

    def _phase(self, slot: int) -> float:
        count, ticks = self.scenario.sessions, self.scenario.ticks
        match self.scenario.phases:
            case "even":
                return 1000 * slot / count
            case "random":
                return 1000 * self._random.random()
            case "aligned":
                return 1000 * (slot % ticks) / ticks

    def _schedule(self, user: User) -> None:
        """The next unit begins when it is due, or at once if the previous one ended later."""
        if user.unit == self.scenario.units:
            return
        due = user.phase + 1000 * user.unit + self._random.random() * self.scenario.jitter_ms
        self.clock.at(due, partial(self._begin, user, due))

    def _begin(self, user: User, due: float) -> None:
        speaks = user.speaks(user.unit)
        slot = user.conversation.slot
        self.device.words[slot] = self.scenario.tokens if speaks else -1
        self._submit(_unit(user.conversation), partial(self._decided, user, due))

    def _decided(self, user: User, due: float, outcome: UnitOutcome) -> None:
        if outcome.is_listen:
            self._published(user, due, speak=False)
        else:
            self.vocoder.synthesize(partial(self._published, user, due, speak=True))

    def _published(self, user: User, due: float, *, speak: bool) -> None:
        if user.unit >= WARM_UP_UNITS:
            user.latencies[speak].append(self.clock.now - due)
        user.unit += 1
        self._submit(user.conversation.finalize(), lambda _: self._schedule(user))

    def _submit(self, work: Steps[Any], then: Callable[[Any], None]) -> None:
        self.device.running += 1

        def ended(future: Any) -> None:
            self.device.running -= 1
            try:
                then(future.result())
            except BaseException as error:  # noqa: BLE001  # a future would only log it
                self._failure = error

        self.engine.submit(EngineJob(work)).add_done_callback(ended)


def _unit(conversation: DuplexConversation) -> Steps[UnitOutcome]:
    yield from conversation.prefill(MEL)
    return (yield from conversation.generate())


def simulate(scenario: Scenario, costs: dict[str, Cost] | None = None) -> Simulation:
    """Run a scenario with `costs`, by default the assumed ones."""
    simulation = Simulation(scenario, costs or ASSUMED)
    simulation.run()
    return simulation


def read_costs(path: Path) -> dict[str, Cost]:
    """The assumed costs, with those of a JSON file in their place: {"Feed": {"floor": 4.9}}."""
    return ASSUMED | {kind: Cost(**cost) for kind, cost in json.loads(path.read_text()).items()}


def row(simulation: Simulation) -> str:
    """A row of the table: percentiles, missed deadlines, mean batches, use of the device."""
    scenario, device = simulation.scenario, simulation.device
    listen, speak = simulation.latencies(speak=False), simulation.latencies(speak=True)
    every = listen + speak
    missed = 1000 * sum(value > DEADLINE_MS for value in every) / len(every)
    sizes = " / ".join(
        f"{np.mean(device.batches[kind]):.1f}" if device.batches[kind] else "–"
        for kind in ("Feed", "SampleToken", "DecodeCodes")
    )
    used = sum(device.busy.values()) / simulation.clock.now
    cells = [str(scenario.sessions), *map(percentiles, (listen, speak))]
    return f"| {' | '.join(cells)} | {missed:.0f} | {sizes} | {used:.0%} |"


def percentiles(values: Sequence[float]) -> str:
    if not values:
        return "–"
    return f"{np.percentile(values, 50):.0f} / {np.percentile(values, 99):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", default="1,4,8,16,24,32,48,64")
    parser.add_argument("--units", type=int, default=20, help="units per session")
    parser.add_argument("--tokens", type=int, default=19, help="tokens of a SPEAK unit")
    parser.add_argument("--speaking", type=float, default=1.0, help="share of units that speak")
    parser.add_argument("--phases", choices=get_args(Phases), default="even")
    parser.add_argument("--ticks", type=int, default=2, help="starts per second, if aligned")
    parser.add_argument("--jitter-ms", type=float, default=0.0, help="of the due time of a unit")
    parser.add_argument(
        "--overlap",
        type=float,
        help="ASSUMED share of the time of codes that a second CUDA stream hides; default: one stream",
    )
    parser.add_argument("--padded", action="store_true", help="as with --kernels torch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--costs", type=Path, help="JSON with measured costs, in ms")
    args = parser.parse_args()
    costs = read_costs(args.costs) if args.costs else ASSUMED
    source = args.costs or "ASSUMED, not measured"
    print(
        f"Simulated device, costs {source}. {args.tokens} tokens, {args.speaking:.0%} speak, ",
        end="",
    )
    print(f"phases {args.phases}.\n")
    print("| sessions | LISTEN p50 / p99, ms | SPEAK p50 / p99, ms | missed of 1000 ", end="")
    print("| mean batch feed / draw / code | device used |")
    print("|---|---|---|---|---|---|")
    for count in map(int, args.sessions.split(",")):
        scenario = Scenario(
            count,
            args.units,
            args.tokens,
            args.speaking,
            args.phases,
            args.ticks,
            args.jitter_ms,
            args.seed,
            ragged=not args.padded,
            overlap=args.overlap,
        )
        print(row(simulate(scenario, costs)), flush=True)


if __name__ == "__main__":
    main()
