"""Records what the callers of `antiphon evaluate` say.

    PYTHONPATH=bench python tools/make_evaluation_speech.py

The repository contains the results; this script documents how they were made with Kokoro and eSpeak NG.
The folder has one Ogg Opus file for each voice, and `index.json` with the place of each sentence in it.
"""

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path

import av
import numpy as np
import soxr
from av.audio.frame import AudioFrame

from antiphon.cli.evaluate.speech import CALLERS, FOLDER, RECORDED, spoken_by
from antiphon.shared_schemas.audio import INPUT_RATE, Samples, to_pcm16
from antiphon.shared_schemas.wav import open_wav
from ten_voices import TenVoices

BIT_RATE = 20_000
PEAK = 0.5
GAP_S = 0.2
LONGEST_S = 3.0
"""Of a part of the recording."""

Entry = tuple[str, Samples, int]
"""A sentence, its sound, and the sample at which it may pause."""


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    voices = TenVoices()
    index = {}
    for number, voice in enumerate(CALLERS):
        entries = [entry(voices, text, voice) for text in spoken_by(number)]
        index[voice] = write(voice, entries)
        sys.stdout.write(f"{voice}: {len(entries)} sentences\n")
        sys.stdout.flush()
    index[RECORDED] = write(RECORDED, parts_of_the_recording())
    (FOLDER / "index.json").write_text(json.dumps(index, indent=1) + "\n")


def entry(voices: TenVoices, text: str, voice: str) -> Entry:
    """eSpeak NG says some sentences in another way each time."""
    before, _, after = text.partition(" | ")
    said = voices.speak(f"{before} {after}".strip(), voice)
    if not after:
        return text, said.audio, 0
    first, second = said.halves(len(before.split()))
    return text, np.concatenate([first, second]), len(first)


def parts_of_the_recording() -> list[Entry]:
    """Of the package moonshine-voice: what is between its longer pauses."""
    spec = find_spec("moonshine_voice")
    assert spec is not None
    assert spec.origin is not None
    data = (Path(spec.origin).parent / "assets" / f"{RECORDED}.wav").read_bytes()
    sound = open_wav(data)
    audio = soxr.resample(sound.mono(), sound.rate, INPUT_RATE).astype(np.float32)
    block = INPUT_RATE // 50
    loud = np.abs(audio[: len(audio) // block * block]).reshape(-1, block).max(axis=1) > 0.02
    parts: list[Entry] = []
    begin = None
    for place in range(len(loud)):
        if loud[place] and begin is None:
            begin = place
        quiet = begin is not None and not loud[place : place + 8].any()
        if begin is not None and (quiet or (place - begin) * 0.02 >= LONGEST_S):
            if (place - begin) * 0.02 >= 1.0:
                part = audio[begin * block : place * block]
                parts.append((f"part {len(parts) + 1}", part, 0))
            begin = None
    return parts


def write(voice: str, entries: list[Entry]) -> dict[str, list[int]]:
    """The first and the last sample of each sentence, and the sample of its pause."""
    gap = np.zeros(round(GAP_S * INPUT_RATE), np.float32)
    sounds, places, at = [], {}, 0
    for text, audio, pause in entries:
        sounds += [audio * np.float32(PEAK / np.abs(audio).max()), gap]
        places[text] = [at, at + len(audio), at + pause if pause else 0]
        at += len(audio) + len(gap)
    pcm = to_pcm16(np.concatenate(sounds)).reshape(1, -1)
    options = {"fflags": "+bitexact"}
    with av.open(str(FOLDER / f"{voice}.opus"), "w", format="ogg", options=options) as file:
        stream = file.add_stream("libopus", rate=INPUT_RATE, layout="mono")
        stream.bit_rate = BIT_RATE
        frame = AudioFrame.from_ndarray(pcm, format="s16", layout="mono")
        frame.sample_rate = INPUT_RATE
        file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return places


if __name__ == "__main__":
    main()
