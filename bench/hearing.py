"""How well the recogniser of the engine `local` understands ten voices, and what a transcription costs.

    python bench/hearing.py
    python bench/hearing.py --verbose        # every sentence that was misrecognised

The voices say short questions, numbers and names as in a conversation: at several levels, at several places in
the stream, with silence around. Numbers count as equal in words and in digits, "two" as "too" and "to" beside
another number. Printed are the word error rate, the share of the sentences without error, and of KEY
questions which voices are understood.
"""

import argparse
import re
import time
from collections import Counter

import numpy as np

from antiphon.inference_worker.engines.local.hearing.speech_input import SpeechInput, endpoint_rules
from antiphon.inference_worker.engines.local.hearing.transcript import Transcript
from antiphon.inference_worker.engines.local.hearing.transcription import Recogniser
from antiphon.inference_worker.engines.local.rules.text import plain
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from ten_voices import ESPEAK_VOICES, VOICES, TenVoices
from voice_accuracy import distance

KEY = (
    "What is two plus two?",
    "Why is the sky blue?",
    "What is seventeen times twenty-three?",
)
SENTENCES = (
    *KEY,
    "What is the capital of France?",
    "How many legs does a spider have?",
    "What is nine minus four?",
    "What is fifteen plus eight?",
    "How much is six times seven?",
    "What is one hundred divided by five?",
    "How old is the Earth?",
    "Who wrote Hamlet?",
    "My name is Peter.",
    "My name is Julia.",
    "I live in Berlin.",
    "Where is Tokyo?",
    "Tell me a joke.",
    "What time is it?",
    "Which day is today?",
    "How tall is Mount Everest?",
    "Can you sing?",
    "What is your name?",
    "How do I boil an egg?",
    "What is the largest planet?",
    "Who was Albert Einstein?",
    "I have three cats and two dogs.",
    "Tell me about the moon.",
)
LEVELS = (1.0, 0.25, 0.05)
"""Of the voice; one of them for each sentence."""

OFFSETS = (0, 171, 342)
"""Samples by which the speech is late in its frame."""


def recognised(recogniser: Recogniser, speech: Samples, number: int) -> tuple[str, float]:
    """The transcript in a stream, and the CPU seconds of the transcription."""
    spent = 0.0
    transcribe = recogniser.transcribe

    def timed(audio: Samples) -> Transcript:
        nonlocal spent
        begun = time.process_time()
        found = transcribe(audio)
        spent += time.process_time() - begun
        return found

    lead = INPUT_RATE // 2 + OFFSETS[number % len(OFFSETS)]
    quiet = np.zeros(INPUT_RATE, np.float32)
    audio = np.concatenate([quiet[:lead], LEVELS[number % len(LEVELS)] * speech, quiet])
    listening = SpeechInput(recogniser, endpoint_rules(480, 1.0))
    recogniser.transcribe = timed  # type: ignore[assignment,method-assign]
    try:
        return listening.feed(audio).text, spent
    finally:
        recogniser.transcribe = transcribe  # type: ignore[method-assign]


def words(text: str) -> list[str]:
    """The words with numbers in digits."""
    return re.findall(r"[a-z0-9']+", plain(text.replace("-", " ")))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--verbose", action="store_true")
    asked = parser.parse_args()
    voices, recogniser = TenVoices(), Recogniser()
    errors: Counter[str] = Counter()
    spoken: Counter[str] = Counter()
    right: Counter[str] = Counter()
    understood: dict[str, list[str]] = {text: [] for text in KEY}
    spent_s = sound_s = 0.0
    for voice in VOICES:
        for number, text in enumerate(SENTENCES):
            speech = voices.speak(text, voice).audio
            said, spent = recognised(recogniser, speech, number)
            spent_s += spent
            sound_s += len(speech) / INPUT_RATE
            wrong = distance(words(text), words(said))
            errors[voice] += wrong
            spoken[voice] += len(words(text))
            right[voice] += wrong == 0
            if wrong == 0 and text in KEY:
                understood[text].append(voice)
            if wrong and asked.verbose:
                print(f"    {voice}: {text} -> {said}", flush=True)
        print(f"{voice:<12} {_rates(errors, spoken, right, (voice,))}", flush=True)
    natural = tuple(voice for voice in VOICES if voice not in ESPEAK_VOICES)
    print(f"{'natural':<12} {_rates(errors, spoken, right, natural)}")
    print(f"{'all':<12} {_rates(errors, spoken, right, VOICES)}")
    for text, by in understood.items():
        print(f"{text:<40} {len(by)} of {len(VOICES)}")
    print(f"CPU per second of speech: {spent_s / sound_s:.3f} s")


def _rates(
    errors: Counter[str], spoken: Counter[str], right: Counter[str], voices: tuple[str, ...]
) -> str:
    wrong, said = (sum(count[voice] for voice in voices) for count in (errors, spoken))
    whole = sum(right[voice] for voice in voices)
    return f"WER {100 * wrong / said:5.1f} %   {whole} of {len(voices) * len(SENTENCES)} sentences right"


if __name__ == "__main__":
    main()
