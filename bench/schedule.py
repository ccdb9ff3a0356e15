"""Unit times of many full-duplex sessions on a simulated device, in virtual time.

    python bench/schedule.py                                # 1 to 64 sessions, all of them speak
    python bench/schedule.py --sessions 32 --phases random --speaking 0.5
    python bench/schedule.py --pictures --answers 1         # with camera pictures and a spoken chat answer
    python bench/schedule.py --costs costs.json             # measured: bench/gpu_report.py writes them

Sessions, engine thread and scheduler are the real ones. Only the device is simulated
(simulated_device.py): a batch takes the time that a table of costs gives, and nothing is computed. The
default costs are ASSUMED for an H200; no GPU measured them. A run needs seconds, and equal arguments
give equal results.

A unit is due one second after the previous one. Its latency counts from there to its audio, or to
the decision to listen. Prints Markdown.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.conversations.duplex import (
    DuplexConversation,
    UnitOutcome,
)
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import (
    ANSWER_SPEECH,
    AnswerSpeech,
    SpeechContext,
)
from antiphon.inference_worker.engines.minicpmo.conversations.text_context import AudioInput
from antiphon.inference_worker.engines.minicpmo.conversations.turns import TurnConversation
from antiphon.inference_worker.engines.minicpmo.preprocess.images import SlicedImage
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import Engine, EngineJob
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    SamplingSettings,
    SpeechSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Steps
from antiphon.shared_schemas.config import DuplexConfig
from random_model import TINY, WORD
from simulated_device import (
    ASSUMED,
    CONTEXT_TOKENS,
    END_CODE,
    Cost,
    Gpu,
    SimulatedDevice,
    SimulatedVocoder,
    WaitForEvent,
    read_costs,
    with_context,
)

DEADLINE_MS = 1000
TURN_UNITS = 4
"""Units that a session speaks or listens for at a time."""

WARM_UP_UNITS = 3
"""Units at the start of a run that are not counted."""

USUAL_TOKENS, MOST_TOKENS = 7, 19
"""Tokens of a SPEAK unit: of a second of speech with some margin, and the limit of the reference."""

ANSWER_TOKENS = 100
"""Tokens of a spoken answer: 28 s of speech. Another one follows at once."""

CHAT_PROMPT_TOKENS = 6000

MEL = torch.zeros(80, 102)
PICTURE = SlicedImage([torch.zeros(3, 14, 14)], [(28, 37)], 0)
"""A camera picture of 4:3. Nothing reads its pixels."""

Phases = Literal["even", "random", "aligned"]


@dataclass
class User:
    """One session: when its units are due, and which of them it speaks."""

    conversation: DuplexConversation
    phase: float
    speaks: Callable[[int], bool]
    unit: int = 0
    latencies: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})


@dataclass
class Speaker:
    """A chat session that speaks one answer after the other. `late_ms` of each second of speech is how much
    later it came than playback needed it.
    """

    slot: int
    began: float = 0.0
    seconds: int = 0
    late_ms: list[float] = field(default_factory=list)

    def hear(self, now: float) -> None:
        """Take the next second of speech. Playback begins with the first one."""
        if not self.seconds:
            self.began = now
        self.late_ms.append(now - (self.began + 1000 * self.seconds))
        self.seconds += 1


@dataclass(frozen=True)
class Scenario:
    """What a run simulates. `speaking` is the share of units that speak `tokens` words. Beside them,
    `answers` sessions speak chat answers, and every second `prompts` chats begin with a long prompt.
    """

    sessions: int
    units: int = 20
    tokens: int = USUAL_TOKENS
    speaking: float = 1.0
    phases: Phases = "even"
    ticks: int = 2
    jitter_ms: float = 0.0
    seed: int = 0
    pictures: bool = False
    answers: int = 0
    prompts: int = 0
    ragged: bool = True
    speech_stream: bool = True
    overlap: float = 0.5

    @property
    def slots(self) -> int:
        """The chats with long prompts share one slot: they come one after the other."""
        return self.sessions + self.answers + min(1, self.prompts)


class Simulation:
    """One run of a scenario. `runner_on` makes a runner that does more than the simulated device."""

    def __init__(
        self,
        scenario: Scenario,
        costs: dict[str, Cost],
        runner_on: Callable[[SimulatedDevice], object] = lambda device: device,
    ) -> None:
        self.scenario = scenario
        self.gpu = Gpu(scenario.overlap)
        self.device = SimulatedDevice(
            scenario.slots,
            costs,
            self.gpu,
            ragged=scenario.ragged,
            speech_stream=scenario.speech_stream,
        )
        self.vocoder = SimulatedVocoder(costs["Token2wav"], self.gpu)
        self.engine = Engine(cast("ModelRunner", runner_on(self.device)), clock=self._seconds)
        self._failure: BaseException | None = None
        self._over = False
        self._random = random.Random(scenario.seed)
        self._tokenizer = Tokenizer(TINY)
        self.users = [self._user(slot) for slot in range(scenario.sessions)]
        self.speakers = [Speaker(scenario.sessions + n) for n in range(scenario.answers)]
        self.prompt_ms: list[float] = []
        self.at_end: Callable[[], object] = lambda: None
        """Called on the engine thread when all units have ended."""

    def run(self) -> None:
        """Simulate all units. Everything happens on the engine thread, in one order."""
        for user in self.users:
            self._schedule(user)
        for speaker in self.speakers:
            self.device.words[speaker.slot] = 10**9
            self.gpu.at(0, partial(self._answer, speaker))
        for chat in range(self.scenario.prompts * self.scenario.units):
            self.gpu.at(1000 * chat / self.scenario.prompts, self._read_prompt)
        try:
            self.engine.run(self._pass_time())
        finally:
            self._over = True
            self.engine.close()
        if self._failure is not None:
            raise self._failure

    def latencies(self, *, speak: bool) -> list[float]:
        return [value for user in self.users for value in user.latencies[speak]]

    def _pass_time(self) -> Steps[None]:
        while self._failure is None and self._units_are_left() and (yield WaitForEvent()):
            pass
        self.at_end()

    def _units_are_left(self) -> bool:
        """Answers and prompts beside the units never end."""
        return any(user.unit < self.scenario.units for user in self.users)

    def _user(self, slot: int) -> User:
        conversation = DuplexConversation(
            slot,
            self._tokenizer,
            AudioInput(slot=slot, capacity=1500),
            self._speech(slot, SpeechSettings(), end_code=-1),
            config=DuplexConfig(force_listen_count=0),
            options=EngineOptions(),
        )
        turns = [self._random.random() for _ in range(self.scenario.units // TURN_UNITS + 2)]
        share = self.scenario.speaking
        return User(conversation, self._phase(slot), lambda u: turns[u // TURN_UNITS] < share)

    def _speech(self, slot: int, settings: SpeechSettings, *, end_code: int) -> SpeechContext:
        return SpeechContext(
            slot=slot,
            capacity=EngineOptions().speech_tokens,
            end_code=end_code,
            settings=settings,
            codes_per_step=self.engine.codes_per_step,
        )

    def _seconds(self) -> float:
        return self.gpu.now / 1000

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
        self.gpu.at(due, partial(self._begin, user, due))

    def _begin(self, user: User, due: float) -> None:
        speaks = user.speaks(user.unit)
        slot = user.conversation.slot
        self.device.words[slot] = self.scenario.tokens if speaks else -1
        self.device.ends_turn[slot] = not user.speaks(user.unit + 1)
        work = _unit(user.conversation, pictures=self.scenario.pictures)
        self._submit(work, partial(self._decided, user, due))

    def _decided(self, user: User, due: float, outcome: UnitOutcome) -> None:
        if outcome.is_listen:
            self._published(user, due, speak=False)
        else:
            self.vocoder.synthesize(partial(self._published, user, due, speak=True))

    def _published(self, user: User, due: float, *, speak: bool) -> None:
        if user.unit >= WARM_UP_UNITS:
            user.latencies[speak].append(self.gpu.now - due)
        user.unit += 1
        self._submit(user.conversation.finalize(), lambda _: self._schedule(user))

    def _answer(self, speaker: Speaker) -> None:
        """Speak an answer, and then the next one."""
        speaker.seconds = 0

        def on_codes(_codes: list[int], _last: bool) -> None:
            self.vocoder.synthesize(lambda: speaker.hear(self.gpu.now))

        context = self._speech(speaker.slot, ANSWER_SPEECH, end_code=END_CODE)
        chat = TurnConversation(speaker.slot, self._tokenizer, capacity=8192)
        work = _spoken_answer(chat, AnswerSpeech(context, on_codes, clock=self._seconds))
        self._submit(work, lambda _: self._answer(speaker))

    def _read_prompt(self) -> None:
        """A chat begins, in the last slot."""
        came = self.gpu.now
        chat = TurnConversation(self.scenario.slots - 1, self._tokenizer, capacity=8192)
        prompt = chat.feed([(WORD,) * CHAT_PROMPT_TOKENS])
        self._submit(prompt, lambda _: self.prompt_ms.append(self.gpu.now - came))

    def _submit(self, work: Steps[Any], then: Callable[[Any], None]) -> None:
        def ended(future: Any) -> None:
            try:
                then(future.result())
            except BaseException as error:  # noqa: BLE001  # a future would only log it
                # At the end, answers and prompts are still under way.
                self._failure = None if self._over else error

        self.engine.submit(EngineJob(work)).add_done_callback(ended)


def _unit(conversation: DuplexConversation, *, pictures: bool) -> Steps[UnitOutcome]:
    yield from conversation.prefill(MEL, [PICTURE] if pictures else [])
    return (yield from conversation.generate())


def _spoken_answer(chat: TurnConversation, speech: AnswerSpeech) -> Steps[None]:
    yield from chat.user(["hello"])
    yield from chat.open_answer()
    yield from chat.generate(SamplingSettings(), ANSWER_TOKENS, speech=speech)


def simulate(scenario: Scenario, costs: dict[str, Cost] | None = None) -> Simulation:
    """Run a scenario with `costs`, by default the assumed ones."""
    simulation = Simulation(scenario, costs or ASSUMED)
    simulation.run()
    return simulation


def row(simulation: Simulation) -> str:
    """A row of the table: percentiles, missed deadlines, mean batches, and the other sessions."""
    scenario, device = simulation.scenario, simulation.device
    listen, speak = simulation.latencies(speak=False), simulation.latencies(speak=True)
    every = listen + speak
    missed = 1000 * sum(value > DEADLINE_MS for value in every) / len(every)
    sizes = " / ".join(
        f"{np.mean(device.batches[kind]):.1f}" if device.batches[kind] else "–"
        for kind in ("Feed", "SampleToken", "DecodeCodes")
    )
    cells = [str(scenario.sessions), str(scenario.tokens), *map(percentiles, (listen, speak))]
    late = max((late for one in simulation.speakers for late in one.late_ms), default=None)
    others = [
        "–" if late is None else f"{late:.0f}",
        f"{np.percentile(simulation.prompt_ms, 50):.0f}" if simulation.prompt_ms else "–",
    ]
    return f"| {' | '.join(cells)} | {missed:.0f} | {sizes} | {' | '.join(others)} |"


def percentile(simulation: Simulation, part: float) -> float:
    """Of the latencies of SPEAK units."""
    return float(np.percentile(simulation.latencies(speak=True), part))


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
    parser.add_argument("--tokens", default="7,19", help="tokens of a SPEAK unit (19 is the limit)")
    parser.add_argument("--speaking", type=float, default=1.0, help="share of units that speak")
    parser.add_argument("--phases", choices=get_args(Phases), default="even")
    parser.add_argument("--ticks", type=int, default=2, help="starts per second, if aligned")
    parser.add_argument("--jitter-ms", type=float, default=0.0, help="of the due time of a unit")
    parser.add_argument("--pictures", action="store_true", help="a picture in every unit")
    parser.add_argument("--answers", type=int, default=0, help="chats that speak answers")
    parser.add_argument(
        "--prompts", type=int, default=0, help=f"chats of {CHAT_PROMPT_TOKENS} tokens per second"
    )
    parser.add_argument("--context", type=int, default=CONTEXT_TOKENS, help="tokens of a session")
    parser.add_argument(
        "--overlap",
        type=float,
        default=0.5,
        help="ASSUMED share of the work of a stream that others hide: of codes and of the vocoder",
    )
    parser.add_argument("--host-ms", type=float, help="ASSUMED time of the host for each batch")
    parser.add_argument("--one-stream", action="store_true", help="codes and tokens on one stream")
    parser.add_argument("--padded", action="store_true", help="as with --kernels torch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--costs", type=Path, help="JSON with measured costs, in ms")
    args = parser.parse_args()
    costs = with_context(read_costs(args.costs) if args.costs else ASSUMED, args.context)
    if args.host_ms is not None:
        costs["Host"] = replace(costs["Host"], base=args.host_ms)
    print(f"Simulated device, costs {args.costs or 'ASSUMED, not measured'}. ", end="")
    print(f"{args.speaking:.0%} speak, phases {args.phases}.\n")
    print(
        "| sessions | tokens | LISTEN p50 / p99, ms | SPEAK p50 / p99, ms | missed of 1000 ", end=""
    )
    print("| mean batch feed / draw / code | answers late, ms | prompts p50, ms |")
    print("|---|---|---|---|---|---|---|---|")
    for count, tokens in product(_numbers(args.sessions), _numbers(args.tokens)):
        scenario = Scenario(
            count,
            args.units,
            tokens,
            args.speaking,
            args.phases,
            args.ticks,
            args.jitter_ms,
            args.seed,
            pictures=args.pictures,
            answers=args.answers,
            prompts=args.prompts,
            ragged=not args.padded,
            speech_stream=not args.one_stream,
            overlap=args.overlap,
        )
        print(row(simulate(scenario, costs)), flush=True)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
