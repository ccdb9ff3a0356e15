"""Asks the engine `local` 100 everyday questions and prints the share of right answers.

The questions are in everyday.json, each with a pattern that a right answer has. Those marked
`spoken` are spoken by the engine's voice and go through its speech recognition. Each is a request of its own,
with the prompt and the sampling of the chat page.

    python bench/everyday.py [--runs 2] [--written] [--no-rules] [--show] [--category knowledge]
        [--model-path qwen2.5-coder-0.5b]
"""

import argparse
import json
import re
import resource
import time
import zoneinfo
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import soxr

from antiphon import __version__
from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.processor import LocalProcessor
from antiphon.inference_worker.engines.local.rules.quantities.clock import spoken_time
from antiphon.inference_worker.engines.local.rules.quantities.dates import spoken_date
from antiphon.inference_worker.engines.local.speech import Clause
from antiphon.inference_worker.engines.local.stored_models import resolve_model
from antiphon.inference_worker.engines.local.voices.catalogue import DEFAULT_VOICE
from antiphon.inference_worker.engines.local.voices.speaker import Voices
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, float_bytes
from antiphon.shared_schemas.config import ChatOptions, GenerationConfig
from antiphon.shared_schemas.content import AudioPart, ConversationMessage, Part, Role, TextPart

QUESTIONS = Path(__file__).with_suffix(".json")
PROMPT = "You are a helpful assistant. Give short, correct answers in plain words."
_PAUSE = np.zeros(INPUT_RATE // 2, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Question:
    """`right` is a pattern that right answers have."""

    category: str
    text: str
    right: str
    spoken: bool


def questions() -> list[Question]:
    return [
        Question(row["category"], row["question"], row["right"], row.get("spoken", False))
        for row in json.loads(QUESTIONS.read_text())
    ]


def is_right(question: Question, answer: str) -> bool:
    """Whether `answer` has what the question asks for, now."""
    return bool(re.search(_filled(question.right), answer))


def _filled(pattern: str) -> str:
    """`pattern` with today's values in place of the names in braces."""
    now = datetime.now().astimezone()
    tokyo = now.astimezone(zoneinfo.ZoneInfo("Asia/Tokyo"))
    christmas = date(now.year + (now.date() > date(now.year, 12, 25)), 12, 25)
    values = {
        "time": _either_minute(now),
        "tokyo": _either_minute(tokyo),
        "weekday": f"{now:%A}",
        "date": spoken_date(now.date()),
        "year": str(now.year),
        "month": f"{now:%B}",
        "tomorrow": f"{now + timedelta(days=1):%A}",
        "christmas": str((christmas - now.date()).days),
        "version": re.escape(__version__),
    }
    return re.sub(r"\{([a-z]+)\}", lambda found: values[found[1]], pattern)


def _either_minute(now: datetime) -> str:
    """The answer was perhaps made in the minute before."""
    return f"{spoken_time(now)}|{spoken_time(now - timedelta(minutes=1))}"


def speech(voices: Voices, text: str) -> Samples:
    """By the voice itself: a speaker would give a question to eSpeak while this machine is busy."""
    clause = Clause(words_of(text), ends_sentence=True)
    spoken = voices.default.speak(clause, time.perf_counter()).audio
    received = soxr.resample(spoken, OUTPUT_RATE, INPUT_RATE).astype(np.float32)
    return np.concatenate([_PAUSE, received, _PAUSE])


def ask(engine: LocalProcessor, part: Part, tokens: int) -> str:
    view = engine.set_chat_mode()
    system = ConversationMessage(Role.SYSTEM, (TextPart(PROMPT),))
    generation = GenerationConfig(temperature=0.7, max_new_tokens=tokens)
    try:
        view.prefill(
            [system, ConversationMessage(Role.USER, (part,))], ChatOptions(generation=generation)
        )
        return "".join(delta.text for delta in view.generate())
    finally:
        view.cleanup()


def parts(options: LocalOptions, asked: list[Question], *, written: bool) -> Iterator[Part]:
    """The questions as a client sends them. Their voice is a second one: it counts as memory."""
    voices = None
    for question in asked:
        if question.spoken and not written:
            voices = voices or Voices.load(options.voice, options.words_per_minute)
            if voices.problem:
                raise SystemExit(voices.problem)
            yield AudioPart(float_bytes(speech(voices, question.text)))
        else:
            yield TextPart(question.text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--written", action="store_true", help="ask all questions in writing")
    parser.add_argument("--no-rules", action="store_true", help="the language model alone")
    parser.add_argument("--show", action="store_true", help="print the answers")
    parser.add_argument("--category", help="only the questions of this one")
    parser.add_argument("--tokens", type=int, default=96, help="limit of an answer")
    parser.add_argument("--voice", default=DEFAULT_VOICE, help="that asks the spoken questions")
    parser.add_argument("--model-path", type=Path, help="a GGUF file, or a name of antiphon models")
    arguments = parser.parse_args()
    path = resolve_model(arguments.model_path)
    rules = not arguments.no_rules
    options = LocalOptions(slots=1, rules=rules, model_path=path, voice=arguments.voice)
    engine = LocalProcessor(options)
    engine.load(lambda _: None)
    asked = [q for q in questions() if arguments.category in (None, q.category)]
    asked_as = list(parts(options, asked, written=arguments.written))
    for _ in range(arguments.runs):
        right: Counter[str] = Counter()
        for question, part in zip(asked, asked_as, strict=True):
            answer = ask(engine, part, arguments.tokens)
            good = is_right(question, answer)
            right[question.category] += good
            if arguments.show:
                print(
                    f"{'right' if good else 'WRONG'}  {question.text}\n       {answer!r}",
                    flush=True,
                )
        report(asked, right)
    engine.close()


def report(asked: list[Question], right: Counter[str]) -> None:
    print("| category | questions | right |\n|---|---|---|")
    for category, count in Counter(question.category for question in asked).items():
        print(f"| {category} | {count} | {right[category]} |")
    print(f"| all | {len(asked)} | {right.total()} |")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # of KiB on Linux
    print(f"\n{peak} MiB of memory at most", flush=True)


if __name__ == "__main__":
    main()
