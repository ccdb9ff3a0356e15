"""One voice: turns a clause into 24 kHz audio with the position of each word."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Hashable, Sequence

import numpy as np

from antiphon.inference_worker.engines.local.chinese.phonemes import symbols_of as chinese_symbols
from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.local.speech import Clause, SpokenClause
from antiphon.inference_worker.engines.local.voices.cancellation import Cancellation
from antiphon.inference_worker.engines.local.voices.catalogue import Accent, NaturalVoice
from antiphon.inference_worker.engines.local.voices.espeak import RawSpeech, espeak
from antiphon.inference_worker.engines.local.voices.kokoro import (
    STEP_SAMPLES,
    THREADS,
    Kokoro,
    Utterance,
    load_style,
)
from antiphon.inference_worker.engines.local.voices.phonemes import Symbols, symbols_of
from antiphon.inference_worker.engines.local.voices.queue import (
    OVERHEAD_LETTERS,
    SynthesisQueue,
)
from antiphon.inference_worker.engines.local.voices.said_before import SaidBefore
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError
from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples

_AUDIBLE = 0.004
_ATTACK = OUTPUT_RATE // 100
_RELEASE = OUTPUT_RATE // 50


class KokoroVoice:
    """A natural voice. Each symbol of a clause has a duration, which places the words."""

    def __init__(
        self, network: Kokoro, queue: SynthesisQueue, voice: NaturalVoice, said: SaidBefore
    ) -> None:
        """`said` may be shared with other voices."""
        self._network = network
        self._queue = queue
        self._said = said
        self._id = voice.id
        self._accent = voice.accent
        self._style = load_style(voice.style)

    def speak(
        self,
        clause: Clause,
        needed_at: float,
        speed: float = 1.0,
        cancellation: Cancellation | None = None,
    ) -> SpokenClause:
        """The clause without silence around it. `needed_at` is a value of time.perf_counter().

        Raises SynthesisCancelled if it is cancelled.
        """
        key = self._key(clause, speed)
        if (known := self._said.find(key, clause)) is not None:
            return known
        symbols = _symbols_of(clause.spoken, self._accent)
        if not symbols.text:
            return _silent(clause)
        work = functools.partial(self._network.speak, symbols.ids, self._style, speed, cancellation)
        said = self._queue.run(work, len(clause.text), needed_at, cancellation)
        spoken = _placed(clause, symbols, said)
        self._said.add(key, spoken)
        return spoken

    def rehearse(self, clause: Clause, cancellation: Cancellation) -> None:
        """Speak the clause when no session waits, and keep it. Raises SynthesisCancelled."""
        spoken = self.speak(clause, math.inf, 1.0, cancellation)
        self._said.add(self._key(clause, 1.0), spoken)  # what is said twice is kept

    def estimate_s(
        self, clause: Clause, needed_at: float, speed: float = 1.0
    ) -> tuple[float, float]:
        """How long `speak` would wait for other sessions, and how long it would take then."""
        if self._said.find(self._key(clause, speed), clause) is not None:
            return 0.0, 0.0
        return self._queue.estimate_s(len(clause.text), needed_at)

    def _key(self, clause: Clause, speed: float) -> Hashable:
        return self._id, clause.spoken, speed

    def give_up(self) -> None:
        """Another voice speaks a clause, because of the estimate."""
        self._queue.forgive()


class EspeakVoice:
    """A voice of eSpeak NG at one speed. It never waits."""

    _GAIN = np.float32(3.0 / 32768.0)
    """eSpeak is quiet: its peaks are at a fifth of full scale."""

    def __init__(self, name: str, words_per_minute: int) -> None:
        """Raises EngineLoadError for an unknown voice."""
        self._name = name
        self._words_per_minute = words_per_minute
        self._reads_english = name.startswith("en")
        self._espeak = espeak()
        self._resample = import_library("soxr").resample
        try:
            self._espeak.synthesise("ready", name, words_per_minute)
        except EngineError as error:
            raise EngineLoadError(str(error)) from error

    def speak(
        self,
        clause: Clause,
        needed_at: float | None = None,  # noqa: ARG002
        speed: float = 1.0,
    ) -> SpokenClause:
        """The clause without silence around it.

        A voice of another language reads the shown text: it knows its own numbers and signs.
        """
        words = clause.spoken if self._reads_english else [word.text for word in clause.words]
        text = " ".join(filter(None, words))
        if not text:
            return _silent(clause)
        raw = self._espeak.synthesise(text, self._name, round(self._words_per_minute * speed))
        sound = self._sound(raw)
        audio = sound[: _audible(sound)[1]]
        scale = OUTPUT_RATE / self._espeak.sample_rate
        return SpokenClause(
            words=clause.words,
            audio=audio,
            starts=tuple(_word_starts(words, raw, scale, len(audio))),
            phonemes=tuple(round(start * scale) for start in raw.phonemes),
        )

    def _sound(self, raw: RawSpeech) -> Samples:
        if not raw.pcm:
            return SILENCE
        pcm = np.concatenate(raw.pcm).astype(np.float32) * self._GAIN
        sound: Samples = self._resample(pcm, self._espeak.sample_rate, OUTPUT_RATE)
        return np.clip(sound, -1.0, 1.0).astype(np.float32)


Voice = KokoroVoice | EspeakVoice


def measured_speed(network: Kokoro, voice: NaturalVoice) -> tuple[float, float]:
    """Seconds of computation per second of speech, and per letter. The first run is no slower than others."""
    text = "Hello! How can I help you?"
    symbols = symbols_of(text.split(" "), "en-US")
    style = load_style(voice.style)
    # The time of the cores: other programs that are busy at the start say nothing about the machine.
    begun = time.process_time()
    said = network.speak(symbols.ids, style)
    seconds = (time.process_time() - begun) / THREADS
    letters = len(text) + OVERHEAD_LETTERS
    return seconds / (len(said.audio) / OUTPUT_RATE), seconds / letters


def _symbols_of(spoken: Sequence[str], accent: Accent) -> Symbols:
    return chinese_symbols(spoken) if accent == "zh-CN" else symbols_of(spoken, accent)


def _placed(clause: Clause, symbols: Symbols, said: Utterance) -> SpokenClause:
    first, end = _audible(said.audio)
    # The first duration is that of the pad in front of the symbols.
    begins = np.cumsum(said.steps)[:-1] * STEP_SAMPLES - first
    places = np.clip(begins, 0, max(0, end - first - 1))
    starts = [int(places[min(start, len(places) - 1)]) for start in symbols.starts]
    starts[:1] = [0] * len(starts[:1])
    letters = zip(places, symbols.text, strict=False)
    sounds = [int(place) for place, symbol in letters if symbol.isalpha()]
    return SpokenClause(clause.words, said.audio[first:end], tuple(starts), tuple(sounds))


def _audible(audio: Samples) -> tuple[int, int]:
    """Where the sound begins and ends, with a little silence at both ends."""
    loud = np.flatnonzero(np.abs(audio) > _AUDIBLE)
    if not len(loud):
        return 0, 0
    return max(0, int(loud[0]) - _ATTACK), min(len(audio), int(loud[-1]) + _RELEASE)


def _silent(clause: Clause) -> SpokenClause:
    """A clause that is shown only."""
    return SpokenClause(clause.words, SILENCE, (0,) * len(clause.words), ())


def _word_starts(words: Sequence[str], raw: RawSpeech, scale: float, length: int) -> Sequence[int]:
    """Start sample of each word. Words that eSpeak joined to another word are interpolated.

    An empty word begins with the next one.
    """
    announced = sorted(raw.words)
    lengths = [len(word) + 1 if word else 0 for word in words]
    known_offsets = [offset for offset, _ in announced] + [sum(lengths) - 1]
    known_samples = [min(length, round(start * scale)) for _, start in announced] + [length]
    offsets = np.cumsum([0, *lengths[:-1]])
    starts = np.interp(offsets, known_offsets, known_samples)
    starts[0] = 0.0
    return [int(start) for start in np.maximum.accumulate(starts)]
