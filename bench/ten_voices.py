"""Speech of ten voices: the eight natural ones of the engine `local` and two of eSpeak NG."""

from dataclasses import dataclass

import numpy as np
import soxr

from antiphon.inference_worker.engines.local.clauses import words_of
from antiphon.inference_worker.engines.local.speech import Clause
from antiphon.inference_worker.engines.local.voices.catalogue import NATURAL_VOICES
from antiphon.inference_worker.engines.local.voices.kokoro import Kokoro
from antiphon.inference_worker.engines.local.voices.queue import SynthesisQueue
from antiphon.inference_worker.engines.local.voices.said_before import SaidBefore
from antiphon.inference_worker.engines.local.voices.voice import EspeakVoice, KokoroVoice, Voice
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples

ESPEAK_VOICES = ("en-us+Hugo", "en-gb-x-rp")
VOICES = (*NATURAL_VOICES, *ESPEAK_VOICES)

_FADE = np.linspace(1, 0, INPUT_RATE // 100, dtype=np.float32)
_SEARCHED = (INPUT_RATE // 12, INPUT_RATE // 32)


@dataclass(frozen=True, slots=True)
class Spoken:
    """`audio` at 16 kHz, without silence around it, and the sample at which each word begins."""

    audio: Samples
    starts: tuple[int, ...]

    def halves(self, words: int) -> tuple[Samples, Samples]:
        """The audio before and after the first `words`, cut where it is quietest there."""
        at = self.starts[words]
        first = max(0, at - _SEARCHED[0])
        hops = self.audio[first : at + _SEARCHED[1]]
        hops = hops[: len(hops) // len(_FADE) * len(_FADE)].reshape(-1, len(_FADE))
        cut = first + (int(np.argmin(np.square(hops).sum(axis=1))) + 1) * len(_FADE)
        before, after = self.audio[:cut].copy(), self.audio[cut:].copy()
        before[-len(_FADE) :] *= _FADE
        after[: len(_FADE)] *= _FADE[::-1]
        return before, after


class TenVoices:
    """Speaks any text in any of VOICES. The natural ones say the same each time."""

    def __init__(self) -> None:
        network, queue = Kokoro(), SynthesisQueue(0.05)
        self._voices: dict[str, Voice] = {
            name: KokoroVoice(network, queue, voice, SaidBefore())
            for name, voice in NATURAL_VOICES.items()
        }
        self._voices |= {name: EspeakVoice(name, 150) for name in ESPEAK_VOICES}

    def speak(self, text: str, voice: str) -> Spoken:
        clause = self._voices[voice].speak(Clause(words_of(text), ends_sentence=True), 0.0)
        audio = soxr.resample(clause.audio, OUTPUT_RATE, INPUT_RATE).astype(np.float32)
        starts = tuple(start * INPUT_RATE // OUTPUT_RATE for start in clause.starts)
        return Spoken(audio, starts)
