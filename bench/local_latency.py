"""Measures the local engine: from the end of an utterance to the result that starts to speak.

    python bench/local_latency.py --questions 40 --chunk-ms 200

Synthesised questions begin at random places in the grid of chunks. As in a real conversation, the engine
gets a chunk when its time has ended, and has the time of the next one for work in the background. The
latency is from the last audible sample of the utterance to the result.

The stages add up to it: the silence until the chunk at whose end the answer begins to be made; the
recogniser and the end of the turn; the language model's first clause; its voice; and the wait for the end
of the turn or of a chunk. Their CPU time is that of all threads, so it also says something on a busy machine.
"""

import argparse
import math
import random
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from antiphon.cli.conversation.latency import percentile
from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.engines.local.reply import Reply
from antiphon.inference_worker.engines.local.speech import Clause, SpokenClause
from antiphon.inference_worker.engines.local.voices import speaker
from antiphon.inference_worker.engines.local.voices.cancellation import Cancellation
from antiphon.inference_worker.engines.local.voices.espeak import espeak
from antiphon.inference_worker.engines.local.voices.speaker import Speaker
from antiphon.inference_worker.engines.processor import DuplexView
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.unit_result import UnitResult

QUESTIONS = (
    "What is the capital of Italy?",
    "How many days are there in a week?",
    "Tell me a story about a dog and a cat.",
    "What is the largest ocean on Earth?",
    "Hello, how are you today?",
    "What do bees make?",
    "Can you tell me what the opposite of hot is?",
    "I would like to travel to Italy next summer. Which city should I visit first?",
)
VOICES = ("en-us+f3", "en-us+m3", "en-us+Hugo")
MAX_S = 30


@dataclass
class Measured:
    """Milliseconds of every question and every unit."""

    latency: list[float] = field(default_factory=list)
    stages: list[list[tuple[float, float]]] = field(default_factory=list)
    units: list[float] = field(default_factory=list)
    unanswered: int = 0
    underruns: int = 0


STAGES = ("silence", "hearing", "language model", "voice", "rest")


@dataclass
class Clock:
    """When the newest answer reached each stage: wall and CPU time."""

    unit: tuple[float, float] = (0.0, 0.0)
    marks: list[tuple[float, float]] = field(default_factory=list)

    @staticmethod
    def now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    def install(self) -> None:
        """Note the begin of each reply, and of its first clause before and after the voice."""
        clock, start, spoken = self, Reply.start, Speaker.speak

        def begin(self: Reply, pool: Executor) -> None:
            clock.marks = [clock.unit, clock.now()]
            start(self, pool)

        def speak(
            self: Speaker,
            clause: Clause,
            costs: StageCosts,
            cancellation: Cancellation | None = None,
        ) -> Iterator[SpokenClause]:
            if len(clock.marks) == 2:
                clock.marks.append(clock.now())
            for part in spoken(self, clause, costs, cancellation):
                if len(clock.marks) == 3:
                    clock.marks.append(clock.now())
                yield part

        Reply.start, Speaker.speak = begin, speak  # type: ignore[method-assign]

    def stages(self, ended_at: float) -> list[tuple[float, float]]:
        """Milliseconds of wall and CPU time of each stage of an answer that begins now."""
        marks = [(ended_at, self.marks[0][1]), *self.marks, self.now()]
        return [
            (1000 * (end[0] - begin[0]), 1000 * (end[1] - begin[1]))
            for begin, end in pairwise(marks)
        ]


CLOCK = Clock()


def synthesise(text: str, voice: str) -> Samples:
    """`text` as 16 kHz audio that ends with its last audible sample."""
    import soxr

    raw = espeak().synthesise(text, voice, 150)
    pcm = np.concatenate(raw.pcm).astype(np.float32) * np.float32(3 / 32768)
    audio = soxr.resample(pcm, espeak().sample_rate, INPUT_RATE)
    audible = np.flatnonzero(np.abs(audio) > 0.01)
    return np.asarray(audio[: audible[-1] + 1], dtype=np.float32)


def run_unit(view: DuplexView, audio: Samples, measured: Measured) -> tuple[UnitResult, float]:
    """Run one unit; returns its result and the time of it (`time.perf_counter`)."""
    CLOCK.unit = CLOCK.now()
    begun = time.perf_counter()
    view.prefill(audio)
    result = view.generate()
    done = time.perf_counter()
    view.finalize()
    measured.units.append((done - begun) * 1000)
    return result, done


def ask(view: DuplexView, question: Samples, lead: int, chunk: int, measured: Measured) -> str:
    """Ask after `lead` samples of silence, and run units until the end of the reply; returns its text."""
    end = lead + len(question)
    audio = np.zeros(end + (MAX_S * INPUT_RATE // chunk + 1) * chunk, dtype=np.float32)
    audio = audio[: len(audio) // chunk * chunk]
    audio[lead:end] = question
    said: list[str] = []
    begun = time.perf_counter()
    for position in range(0, len(audio), chunk):
        captured = begun + (position + chunk) / INPUT_RATE
        time.sleep(max(0.0, captured - time.perf_counter()))
        result, done = run_unit(view, audio[position : position + chunk], measured)
        if result.is_listen:
            continue
        if not said:
            measured.latency.append((done - begun - end / INPUT_RATE) * 1000)
            measured.stages.append(CLOCK.stages(begun + end / INPUT_RATE))
        measured.underruns += not result.end_of_turn and not len(result.audio)
        said.append(result.text)
        if result.end_of_turn:
            break
    measured.unanswered += not said
    return "".join(said)


def report(measured: Measured) -> None:
    for name, values in (("utterance end to speech", measured.latency), ("unit", measured.units)):
        print(
            f"{name:24} n={len(values):4}  p50 {statistics.median(values):7.1f} ms"
            f"  p95 {percentile(values, 0.95):7.1f} ms  max {max(values):7.1f} ms"
        )
    for number, name in enumerate(STAGES):
        wall, cpu = zip(*(stages[number] for stages in measured.stages), strict=True)
        print(
            f"  {name:22} mean {statistics.fmean(wall):7.1f} ms  CPU {statistics.fmean(cpu):7.1f} ms"
        )
    print(f"unanswered {measured.unanswered}, units without sound {measured.underruns}")


def main() -> None:
    """Load the engine, ask the questions, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--per-session", type=int, default=5, help="questions in one session")
    parser.add_argument("--chunk-ms", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--patient",
        action="store_true",
        help="no stand-in voice, however long the natural one takes",
    )
    parser.add_argument("--quiet", action="store_true", help="do not print the conversations")
    arguments = parser.parse_args()
    CLOCK.install()
    if arguments.patient:
        speaker.LONGEST_WAIT_S = speaker.LONGEST_SILENCE_S = math.inf
    source = random.Random(arguments.seed)
    chunk = arguments.chunk_ms * INPUT_RATE // 1000
    processor = build_processor("local", slots=1)
    processor.load(lambda _: None)
    measured = Measured()
    for number in range(arguments.questions):
        if number % arguments.per_session == 0:
            view = processor.set_duplex_mode()
            config = DuplexConfig(force_listen_count=0, chunk_ms=arguments.chunk_ms)
            view.prepare("You are a helpful voice assistant.", config)
        text = source.choice(QUESTIONS)
        lead = chunk // 2 + source.randrange(INPUT_RATE)
        reply = ask(view, synthesise(text, source.choice(VOICES)), lead, chunk, measured)
        if not arguments.quiet:
            print(f"> {text}\n  {reply}")
        if (number + 1) % arguments.per_session == 0 or number + 1 == arguments.questions:
            view.cleanup()
    processor.close()
    report(measured)


if __name__ == "__main__":
    main()
