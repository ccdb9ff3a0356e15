"""Measures the local engine: from the end of an utterance to the result that starts to speak.

    python bench/local_latency.py --questions 40

Synthesised questions begin at random places in the one-second grid. As in a real conversation, the engine
gets a chunk when its second has ended, and has the rest of the second for work in the background. The
latency is from the last audible sample of the utterance to the result.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from dataclasses import dataclass, field

import numpy as np

from antiphon.cli.conversation.latency import percentile
from antiphon.inference_worker.engines.factory import build_processor
from antiphon.inference_worker.engines.local.voices.espeak import espeak
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
MAX_UNITS = 30


@dataclass
class Measured:
    """Milliseconds of every question and every unit."""

    latency: list[float] = field(default_factory=list)
    units: list[float] = field(default_factory=list)
    unanswered: int = 0
    underruns: int = 0


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
    audio = np.zeros((MAX_UNITS + len(question) // chunk + 2) * chunk, dtype=np.float32)
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
    print(f"unanswered {measured.unanswered}, units without sound {measured.underruns}")


def main() -> None:
    """Load the engine, ask the questions, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--per-session", type=int, default=5, help="questions in one session")
    parser.add_argument("--chunk-ms", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quiet", action="store_true", help="do not print the conversations")
    arguments = parser.parse_args()
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
