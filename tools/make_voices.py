"""Synthesises the edge's reference voices and samples of the voices of `local`: `python tools/make_voices.py`.

The repository contains the results; this script documents how they were made with eSpeak NG and Kokoro.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import soundfile
import soxr

from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.speech import Clause
from antiphon.inference_worker.engines.local.voices.catalogue import DEFAULT_VOICES, ESPEAK
from antiphon.inference_worker.engines.local.voices.espeak import espeak
from antiphon.inference_worker.engines.local.voices.speaker import Voices
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples, to_pcm16

ASSETS = Path(__file__).resolve().parent.parent / "edge" / "assets"
PEAK = 0.7

VOICES = {
    "english": (
        "en-us",
        150,
        "Hello, I am your assistant. Ask me anything, and take all the time you need.",
    ),
    "english_female": (
        "en+f3",
        145,
        "Good evening. Make yourself comfortable, and I will tell you a story.",
    ),
    "chinese": ("cmn", 160, "你好,我是你的助手。有什么问题,请随时告诉我。"),
}
"""By file name: eSpeak's voice, words per minute, text."""


SAMPLES = {
    "en": ("Hello, I am {name}.", "How can I help you?"),
    "zh": ("你好，很高兴认识你。", "有什么可以帮你的吗？"),
}
"""The sentences of a sample, by language."""

PAUSE_S = 0.3
"""Between its sentences."""

QUALITY = 0.7
"""For libsndfile, from 1 (48 kbit/s) to 0."""


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    make_reference_voices(ASSETS / "ref_audio")
    make_samples(ASSETS / "voice_samples")


def make_reference_voices(folder: Path) -> None:
    """Writes 16 kHz mono 16-bit WAV files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (voice, pace, text) in VOICES.items():
        samples = speak(text, voice, pace)
        soundfile.write(folder / f"{name}.wav", to_pcm16(samples), INPUT_RATE, subtype="PCM_16")
        report(name, samples, INPUT_RATE)


def make_samples(folder: Path) -> None:
    """Writes a 24 kHz mono MP3 file for each voice that sessions choose by name.

    All browsers play MP3.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pace = LocalOptions().words_per_minute
    pause = np.zeros(round(PAUSE_S * OUTPUT_RATE), np.float32)
    for language, default in DEFAULT_VOICES.items():
        voices = Voices.load(default, pace, language)
        for entry in voices.entries:
            if entry.id == ESPEAK and language != "en":
                continue
            voice = voices.by_id[entry.id]  # not a `Speaker`, which takes eSpeak on a busy machine
            clauses = [clause(text.format(name=entry.name), language) for text in SAMPLES[language]]
            first, second = (voice.speak(one, time.perf_counter()).audio for one in clauses)
            samples = loud(np.concatenate([first, pause, second]))
            file = folder / f"{entry.id}.mp3"
            soundfile.write(file, samples, OUTPUT_RATE, format="MP3", compression_level=QUALITY)
            report(entry.id, samples, OUTPUT_RATE)


def speak(text: str, voice: str, pace: int) -> Samples:
    """Float32 mono at 16 kHz."""
    engine = espeak()
    pcm = np.concatenate(engine.synthesise(text, voice, pace).pcm).astype(np.float32)
    return loud(soxr.resample(pcm, engine.sample_rate, INPUT_RATE).astype(np.float32))


def clause(text: str, language: str) -> Clause:
    return Clause(words_of(text, language), ends_sentence=True)


def loud(sound: Samples) -> Samples:
    """With the loudness of speech into a microphone."""
    return sound * np.float32(PEAK / np.abs(sound).max())


def report(name: str, samples: Samples, rate: int) -> None:
    sys.stdout.write(f"{name}: {len(samples) / rate:.1f} s\n")


if __name__ == "__main__":
    main()
