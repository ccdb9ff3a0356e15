"""Text to speech: turns a clause into 24 kHz audio with the position of each word."""

from __future__ import annotations

import numpy as np

from antiphon.inference_worker.engines.local.costs import StageCosts
from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.local.espeak import RawSpeech, espeak
from antiphon.inference_worker.engines.local.speech import Clause, SpokenClause
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError
from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples

_GAIN = 3.0 / 32768.0
"""eSpeak is quiet: its peaks are at a fifth of full scale."""

_AUDIBLE = 0.004
_RELEASE = OUTPUT_RATE // 50
_SENTENCE_PAUSE = np.zeros(OUTPUT_RATE * 3 // 10, dtype=np.float32)
_CLAUSE_PAUSE = np.zeros(OUTPUT_RATE * 15 // 100, dtype=np.float32)


class SpeechSynthesiser:
    """One voice at one speed. Safe to use from any thread."""

    def __init__(self, voice: str, words_per_minute: int) -> None:
        self._voice = voice
        self._words_per_minute = words_per_minute
        self._espeak = espeak()
        self._resample = import_library("soxr").resample
        try:
            self._espeak.synthesise("ready", voice, words_per_minute)
        except EngineError as error:
            raise EngineLoadError(str(error)) from error

    def synthesise(self, clause: Clause, after: Clause | None, costs: StageCosts) -> SpokenClause:
        """The audio of `clause`, after the pause that follows the previous clause `after`."""
        with costs.measure("tts"):
            raw = self._espeak.synthesise(clause.text, self._voice, self._words_per_minute)
        with costs.measure("token2wav"):
            audio = _trimmed(self._sound(raw))
        pause = _pause_after(after)
        scale = OUTPUT_RATE / self._espeak.sample_rate
        starts = _word_starts(clause, raw, scale, len(audio))
        return SpokenClause(
            words=clause.words,
            audio=np.concatenate([pause, audio]),
            starts=tuple(len(pause) + start for start in starts),
            phonemes=tuple(len(pause) + round(start * scale) for start in raw.phonemes),
        )

    def _sound(self, raw: RawSpeech) -> Samples:
        if not raw.pcm:
            return SILENCE
        pcm = np.concatenate(raw.pcm).astype(np.float32) * np.float32(_GAIN)
        sound: Samples = self._resample(pcm, self._espeak.sample_rate, OUTPUT_RATE)
        return np.clip(sound, -1.0, 1.0).astype(np.float32)


def _pause_after(clause: Clause | None) -> Samples:
    if clause is None:
        return SILENCE
    return _SENTENCE_PAUSE if clause.ends_sentence else _CLAUSE_PAUSE


def _trimmed(audio: Samples) -> Samples:
    """Remove the silence at the end."""
    audible = np.flatnonzero(np.abs(audio) > _AUDIBLE)
    return audio[: int(audible[-1]) + _RELEASE] if len(audible) else SILENCE


def _word_starts(clause: Clause, raw: RawSpeech, scale: float, length: int) -> list[int]:
    """Start sample of each word. Words that eSpeak joined to another word are interpolated."""
    announced = sorted(raw.words)
    known_offsets = [offset for offset, _ in announced] + [len(clause.text)]
    known_samples = [min(length, round(start * scale)) for _, start in announced] + [length]
    offsets = np.cumsum([0, *(len(word.text) + 1 for word in clause.words[:-1])])
    starts = np.interp(offsets, known_offsets, known_samples)
    starts[0] = 0.0
    return [int(start) for start in np.maximum.accumulate(starts)]
