"""How well the voices of the local engine are understood, and what they cost.

    python bench/voice_accuracy.py                 # all voices
    python bench/voice_accuracy.py --voices heart espeak --show

Each voice speaks typical answers, clause by clause as in a conversation. The engine's own recogniser
writes down what it hears. Printed are the word error rate, the CPU time for a second of speech, and the
CPU time of the first clause, which the listener waits for.
"""

import argparse
import logging
import re
import statistics
import time
from itertools import pairwise

import numpy as np
import structlog

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.clauses import ClauseSplitter, words_of
from antiphon.inference_worker.engines.local.hearing.transcription import Recogniser
from antiphon.inference_worker.engines.local.voices.catalogue import DEFAULT_VOICE
from antiphon.inference_worker.engines.local.voices.speaker import Speaker, Voices
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE

ANSWERS = (
    "The capital of Italy is Rome.",
    "There are seven days in a week, and twelve months in a year.",
    "The largest ocean on Earth is the Pacific Ocean.",
    "Bees make honey. They collect the nectar of flowers.",
    "Once upon a time, a dog and a cat lived in a small house near the sea.",
    "I would visit Florence first, because it has beautiful museums and bridges.",
    "The opposite of hot is cold.",
    "Water boils at one hundred degrees.",
    "I am a small voice assistant. I can answer questions and tell stories.",
    "You are welcome. Have a nice evening!",
    "Romeo and Juliet was written by William Shakespeare.",
    "First put the egg in boiling water, then wait for seven minutes.",
    "The sky looks blue because the air scatters blue light more than red light.",
    "Jupiter is the largest planet of our solar system.",
    "My favorite season is autumn, when the leaves turn yellow.",
    "A spider has eight legs, but an insect has only six.",
)


def measure(voices: Voices, recogniser: Recogniser, voice: str, *, shows: bool) -> str:
    """One row of the table. With `shows`, prints what was not understood."""
    errors = spoken_words = 0
    sound_s = spent_s = 0.0
    firsts: list[float] = []
    for text in ANSWERS:
        # Without a stand-in: a clause that another voice speaks says nothing about this one.
        speaker, audio = Speaker(voices.by_id[voice], voices.by_id[voice]), [SILENCE]
        splitter = ClauseSplitter()
        for number, clause in enumerate([*splitter.feed(text), *splitter.flush()]):
            begun = time.process_time()
            for part in speaker.speak(clause, StageCosts()):
                audio.append(part.audio)
                if number == len(firsts) == 0:
                    firsts.append(time.process_time() - begun)
            spent_s += time.process_time() - begun
        sound = np.concatenate(audio)
        sound_s += len(sound) / OUTPUT_RATE
        heard = hear(recogniser, sound)
        expected = words(text)
        wrong = distance(expected, words(heard))
        if wrong and shows:
            print(f"> {text}\n  {heard}")
        errors += wrong
        spoken_words += len(expected)
    rate = 100 * errors / spoken_words
    first = 1000 * statistics.median(firsts)
    return f"{voice:<10} {rate:8.1f} {spent_s / sound_s:12.2f} {first:14.0f}"


def hear(recogniser: Recogniser, sound: np.ndarray[tuple[int], np.dtype[np.float32]]) -> str:
    import soxr

    quiet = np.zeros(INPUT_RATE // 2, np.float32)
    return recogniser.transcribe(
        np.concatenate([quiet, soxr.resample(sound, OUTPUT_RATE, INPUT_RATE), quiet])
    ).text


_LONG_FORMS = (("i'm", "i am"), ("'re ", " are "), ("it's", "it is"), ("that's", "that is"))


def words(text: str) -> list[str]:
    """The words that are said for `text`: 100 and "one hundred" are the same, and so are I'm and "I am"."""
    said = " ".join(word.spoken for word in words_of(text)).lower()
    for short, long in _LONG_FORMS:
        said = said.replace(short, long)
    return re.findall(r"[a-z']+", said)


def distance(expected: list[str], recognised: list[str]) -> int:
    """Words to insert, delete or replace."""
    row = list(range(len(recognised) + 1))
    for word in expected:
        new = [row[0] + 1]
        for (above_left, above), other in zip(pairwise(row), recognised, strict=True):
            new.append(min(above + 1, new[-1] + 1, above_left + (word != other)))
        row = new
    return row[-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--voices", nargs="*", help="ids; all by default")
    parser.add_argument("--show", action="store_true", help="print what was not understood")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    voices, recogniser = Voices.load(DEFAULT_VOICE, 150), Recogniser()
    print(f"{'voice':<10} {'WER %':>8} {'CPU s per s':>12} {'first clause ms':>14}")
    for voice in asked.voices or voices.by_id:
        print(measure(voices, recogniser, voice, shows=asked.show), flush=True)


if __name__ == "__main__":
    main()
