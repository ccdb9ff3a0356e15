"""Measures interim transcripts: from the end of each spoken word to the result that shows it.

    python bench/interim_words.py --url ws://127.0.0.1:8006 --questions 40

Questions in one of the voices of the engine `local`, which know when their words begin, start at random places
in the one-second grid. A word counts when a result has it for the first time, in an interim or a final text.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import statistics
import time
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import soxr

from antiphon.cli.conversation.latency import percentile
from antiphon.client.duplex import DuplexSession, connect_duplex
from antiphon.client.sound import paced, padded_chunks, silence
from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.speech import Clause
from antiphon.inference_worker.engines.local.voices.speaker import Voices
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples

QUESTIONS = (
    "What is the capital of Italy?",
    "How many days are there in a week?",
    "Tell me a story about a dog and a cat.",
    "What is the largest ocean on Earth?",
    "Can you tell me what the opposite of hot is?",
    "I would like to travel to Italy next summer. Which city should I visit first?",
    "Yesterday I bought a new bicycle and now I am looking for a good place to ride it every morning.",
)


@dataclass
class Measured:
    """Seconds from the end of a word to the result with it."""

    first: list[float] = field(default_factory=list)
    all: list[float] = field(default_factory=list)
    missed: int = 0


@dataclass(frozen=True)
class Question:
    """Speech at 16 kHz, and the words with the second at which each of them ends."""

    audio: Samples
    words: tuple[tuple[str, float], ...]


def plain(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def speak(voices: Voices, voice: str, text: str) -> Question:
    clause = Clause(words_of(text), ends_sentence=True)
    spoken = voices.speaker(voice).speak(clause, StageCosts())
    audible = int(np.flatnonzero(np.abs(spoken.audio) > 0.01)[-1]) + 1
    ends = [*spoken.starts[1:], audible]
    words = [
        (plain(w.text)[0], end / OUTPUT_RATE) for w, end in zip(clause.words, ends, strict=True)
    ]
    audio = soxr.resample(spoken.audio[:audible], OUTPUT_RATE, INPUT_RATE).astype(np.float32)
    return Question(audio, tuple(words))


async def ask(session: DuplexSession, question: Question, lead_s: float, found: Measured) -> None:
    """Ask, and read results until the final text."""
    lead = np.zeros(round(lead_s * INPUT_RATE), dtype=np.float32)
    chunks = padded_chunks(np.concatenate([lead, question.audio]))
    begun = time.monotonic()

    async def send() -> None:
        async for chunk in paced(chain(chunks, silence()), begun):
            await session.send_audio(chunk)

    sending = asyncio.create_task(send())
    shown: dict[int, float] = {}
    try:
        async for unit in session.results():
            text = plain(f"{unit.user_text or ''} {unit.interim_user_text or ''}")
            place = 0
            for number, (word, _) in enumerate(question.words):
                if word in text[place:]:
                    place += text[place:].index(word) + 1
                    shown.setdefault(number, unit.received_at)
            if unit.user_text:
                break
    finally:
        sending.cancel()
    for number, (_, end_s) in enumerate(question.words):
        if number not in shown:
            found.missed += 1
            continue
        waited = shown[number] - begun - lead_s - end_s
        found.all.append(waited)
        if number == 0:
            found.first.append(waited)


async def measure(arguments: argparse.Namespace) -> Measured:
    voices = Voices.load(arguments.voice, LocalOptions().words_per_minute)
    asked = [speak(voices, arguments.voice, text) for text in QUESTIONS]
    source, found = random.Random(arguments.seed), Measured()
    for _ in range(arguments.questions):
        async with connect_duplex(arguments.url, transcript=True) as session:
            await session.wait_for_turn()
            config = {"interim_transcripts": not arguments.final, "force_listen_count": 0}
            await session.prepare(config=config)
            await ask(session, source.choice(asked), 0.5 + source.random(), found)
    return found


def main() -> None:
    """Ask the questions and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="ws://127.0.0.1:8006")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--voice", default="espeak")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--final", action="store_true", help="without interim transcripts")
    found = asyncio.run(measure(parser.parse_args()))
    for name, waits in (("first word of a question", found.first), ("every word", found.all)):
        soon = sum(wait <= 1.2 for wait in waits) / len(waits)
        print(
            f"{name:26} n={len(waits):4}  p50 {statistics.median(waits):5.2f} s"
            f"  p95 {percentile(waits, 0.95):5.2f} s  max {max(waits):5.2f} s  within 1.2 s {soon:.0%}"
        )
    print(f"words that no result has: {found.missed}")


if __name__ == "__main__":
    main()
