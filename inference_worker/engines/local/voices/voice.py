"""One voice: turns a clause into 24 kHz audio with the position of each word."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.local.chinese.phonemes import symbols_of as chinese_symbols
from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.local.speech import Clause, SpokenClause, Word, joined
from antiphon.inference_worker.engines.local.voices.cancellation import Cancellation
from antiphon.inference_worker.engines.local.voices.catalogue import Accent, NaturalVoice
from antiphon.inference_worker.engines.local.voices.espeak import RawSpeech, espeak
from antiphon.inference_worker.engines.local.voices.kokoro import (
    CONTEXT_STEPS,
    MOST_SYMBOLS,
    STEP_SAMPLES,
    THREADS,
    Kokoro,
    Utterance,
    load_statistics,
    load_style,
)
from antiphon.inference_worker.engines.local.voices.phonemes import Symbols, symbols_of
from antiphon.inference_worker.engines.local.voices.pieces import (
    MELODY_SHARE,
    PieceMaker,
    SpeechPiece,
    first_steps,
    in_background,
)
from antiphon.inference_worker.engines.local.voices.queue import (
    OVERHEAD_LETTERS,
    SynthesisQueue,
)
from antiphon.inference_worker.engines.local.voices.said_before import SaidBefore
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError
from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples

_STEPS_PER_LETTER: dict[Accent, float] = {"en-US": 2.6, "en-GB": 2.6, "zh-CN": 10.0}
_STEPS_OF_SILENCE = 10

_UNNOTICED_S = 0.1
"""A clause that is late by less is spoken at once."""

_WORTHWHILE = 0.85
"""Of the time of a clause: pieces that save less of it than the rest are not made."""

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
        self._statistics = load_statistics(voice.style)

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
        symbols = symbols_in(clause.spoken, self._accent)
        if not symbols.text:
            return _silent(clause)
        work = functools.partial(self._network.speak, symbols.ids, self._style, speed, cancellation)
        said = self._queue.run(work, len(clause.text), needed_at, cancellation)
        spoken = _placed(clause, symbols, said)
        self._said.add(key, spoken)
        return spoken

    def speak_in_pieces(
        self,
        clause: Clause,
        needed_at: float,
        speed: float = 1.0,
        cancellation: Cancellation | None = None,
    ) -> Iterator[SpokenClause]:
        """Nearly the same sound in parts, each ready before the one before it has been played.

        It is one part if that is ready in time, or on a machine that is too slow for pieces.
        """
        key = self._key(clause, speed)
        symbols = symbols_in(clause.spoken, self._accent)
        if (
            not 0 < len(symbols.ids) <= MOST_SYMBOLS
            or self._said.find(key, clause) is not None
            or not self._hurries(clause, needed_at)
        ):
            yield self.speak(clause, needed_at, speed, cancellation)
            return
        maker = PieceMaker(
            self._network,
            symbols.ids,
            self._style,
            self._statistics,
            speed,
            self._queue.longest_s(len(clause.text)),
            needed_at,
            cancellation or Cancellation(),
        )

        def work(give: Callable[[SpeechPiece], None]) -> None:
            make = functools.partial(maker.make, give)
            self._queue.run(make, len(clause.text), needed_at, cancellation)

        parts = []
        with closing(in_background(work)) as pieces:
            for part in _placed_pieces(clause, symbols, pieces):
                parts.append(part)
                yield part
        self._said.add(key, joined(parts))

    def _hurries(self, clause: Clause, needed_at: float) -> bool:
        """Whether a listener would wait for the whole clause, and can have it in pieces."""
        wait, work = self._queue.estimate_s(len(clause.text), needed_at)
        late = time.perf_counter() + wait + work - needed_at
        return late > _UNNOTICED_S and self._first_share(clause) < _WORTHWHILE

    def _first_share(self, clause: Clause) -> float:
        """What the first piece takes, of the time of the whole clause."""
        steps = int(len(clause.text) * _STEPS_PER_LETTER[self._accent]) + _STEPS_OF_SILENCE
        melody = steps * MELODY_SHARE
        longest_s = self._queue.longest_s(len(clause.text))
        first = first_steps(steps, longest_s / (steps + melody))
        return min(1.0, (melody + first + CONTEXT_STEPS) / (steps + melody))

    def rehearse(self, clause: Clause, cancellation: Cancellation) -> None:
        """Speak the clause when no session waits, and keep it. Raises SynthesisCancelled."""
        spoken = self.speak(clause, math.inf, 1.0, cancellation)
        self._said.add(self._key(clause, 1.0), spoken)  # what is said twice is kept

    def estimate_s(
        self, clause: Clause, needed_at: float, speed: float = 1.0
    ) -> tuple[float, float]:
        """How long `speak_in_pieces` would wait for other sessions, and then until the first sound."""
        if self._said.find(self._key(clause, speed), clause) is not None:
            return 0.0, 0.0
        wait, work = self._queue.estimate_s(len(clause.text), needed_at)
        return wait, work * self._first_share(clause)

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


def symbols_in(spoken: Sequence[str], accent: Accent) -> Symbols:
    """What a voice of that accent says."""
    return chinese_symbols(spoken) if accent == "zh-CN" else symbols_of(spoken, accent)


def _placed(clause: Clause, symbols: Symbols, said: Utterance) -> SpokenClause:
    first, end = _audible(said.audio)
    places = _places(symbols, said.steps, first)
    return _part(clause.words, said.audio[first:end], places)


def _placed_pieces(
    clause: Clause, symbols: Symbols, pieces: Iterable[SpeechPiece]
) -> Iterator[SpokenClause]:
    """The clause in parts without silence around it. Each word is in the part in which it begins."""
    words, places, held = clause.words, None, SILENCE
    for piece in pieces:
        audio = np.concatenate([held, piece.audio])
        first, end = _audible(audio)
        if places is None:
            places = _places(symbols, piece.steps, first)
        else:
            first = 0
        # Silence at the end of a piece may be that of the clause.
        audio, held = audio[first:end], audio[end:]
        due = places if piece.last else _Places(*(each[each < len(audio)] for each in places))
        yield _part(words[: len(due.words)], audio, due, more=not piece.last)
        words = words[len(due.words) :]
        rest = (each[len(gone) :] for each, gone in zip(places, due, strict=True))
        places = _Places(*(each - len(audio) for each in rest))


class _Places(NamedTuple):
    """The sample at which each word and each phoneme begins."""

    words: NDArray[np.int64]
    sounds: NDArray[np.int64]


def _places(symbols: Symbols, steps: NDArray[np.int64], first: int) -> _Places:
    """Places in the audio from sample `first` on."""
    # The first duration is that of the pad in front of the symbols.
    begins = np.maximum(np.cumsum(steps)[:-1] * STEP_SAMPLES - first, 0)
    words = begins[np.minimum(np.array(symbols.starts, dtype=np.int64), len(begins) - 1)]
    words[:1] = 0
    letters = zip(begins, symbols.text, strict=False)
    sounds = [place for place, symbol in letters if symbol.isalpha()]
    return _Places(words, np.array(sounds, dtype=np.int64))


def _part(
    words: tuple[Word, ...], audio: Samples, places: _Places, *, more: bool = False
) -> SpokenClause:
    within = [np.clip(each, 0, max(0, len(audio) - 1)).tolist() for each in places]
    return SpokenClause(words, audio, tuple(within[0]), tuple(within[1]), more)


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
