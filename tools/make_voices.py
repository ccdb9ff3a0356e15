"""Synthesises the edge's bundled reference voices: `python tools/make_voices.py`.

The repository contains the result; this script documents how it was made with eSpeak NG.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import soundfile
import soxr

from antiphon.inference_worker.engines.local.voices.espeak import espeak
from antiphon.shared_schemas.audio import INPUT_RATE, to_pcm16

FOLDER = Path(__file__).resolve().parent.parent / "edge" / "assets" / "ref_audio"
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


def main(folder: Path = FOLDER) -> None:
    """Writes 16 kHz mono 16-bit WAV files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (voice, pace, text) in VOICES.items():
        samples = speak(text, voice, pace)
        soundfile.write(folder / f"{name}.wav", to_pcm16(samples), INPUT_RATE, subtype="PCM_16")
        sys.stdout.write(f"{name}: {len(samples) / INPUT_RATE:.1f} s\n")


def speak(text: str, voice: str, pace: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Float32 mono at 16 kHz, with the loudness of speech into a microphone."""
    engine = espeak()
    pcm = np.concatenate(engine.synthesise(text, voice, pace).pcm).astype(np.float32)
    sound: np.ndarray[tuple[int], np.dtype[np.float32]] = soxr.resample(
        pcm, engine.sample_rate, INPUT_RATE
    ).astype(np.float32)
    return sound * np.float32(PEAK / np.abs(sound).max())


if __name__ == "__main__":
    main()
