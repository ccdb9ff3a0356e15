"""Text to speech with eSpeak NG: turns a clause into 24 kHz audio with the position of each word.

eSpeak NG runs through ctypes, in process and without a sound card. The library keeps its voice, rate
and callback in global variables, so one lock guards every call.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from ctypes import POINTER, c_char_p, c_int, c_short, c_size_t, c_uint, c_void_p
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.common.costs import StageCosts
from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.local.speech import Clause, SpokenClause
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError
from antiphon.shared_schemas.audio import OUTPUT_RATE, SILENCE, Samples

_SYNCHRONOUS_RETRIEVAL = 2
_PHONEME_EVENTS = 0x0001
_DONT_EXIT = 0x8000
_UTF8_AND_END_PAUSE = 0x1001
_POSITION_IN_CHARACTERS = 1
_RATE_PARAMETER = 1
_EVENT_END_OF_LIST, _EVENT_WORD, _EVENT_PHONEME = 0, 1, 7


class _Event(ctypes.Structure):
    """`phoneme` is valid for phoneme events only: in C it is part of a union."""

    _fields_ = (
        ("type", c_int),
        ("unique_identifier", c_uint),
        ("text_position", c_int),
        ("length", c_int),
        ("audio_position", c_int),
        ("sample", c_int),
        ("user_data", c_void_p),
        ("phoneme", ctypes.c_char * 8),
    )


_SYNTH_ARGUMENTS = (c_char_p, c_size_t, c_uint, c_int, c_uint, c_uint, c_void_p, c_void_p)
_Callback = ctypes.CFUNCTYPE(c_int, POINTER(c_short), c_int, POINTER(_Event))


@dataclass(slots=True)
class RawSpeech:
    """The output of eSpeak: 16-bit `pcm` at `Espeak.sample_rate`.

    `words` has (character offset, sample) of each word event, `phonemes` the sample at which each
    phoneme begins, without pauses.
    """

    pcm: list[NDArray[np.int16]] = field(default_factory=list)
    words: list[tuple[int, int]] = field(default_factory=list)
    phonemes: list[int] = field(default_factory=list)


class Espeak:
    """Use `espeak()`: a process can have only one."""

    def __init__(self) -> None:
        loader = import_library("espeakng_loader")
        try:
            self._library: Any = ctypes.CDLL(loader.get_library_path())
        except OSError as error:
            raise EngineLoadError(f"eSpeak NG does not load: {error}") from error
        data, flags = loader.get_data_path(), _DONT_EXIT | _PHONEME_EVENTS
        self.sample_rate = int(
            self._library.espeak_Initialize(_SYNCHRONOUS_RETRIEVAL, 0, data.encode(), flags)
        )
        if self.sample_rate <= 0:
            raise EngineLoadError(f"eSpeak NG finds no voices in {data}")
        self._lock = threading.Lock()
        self._output = RawSpeech()
        self._callback = _Callback(self._receive)  # must outlive every synthesis
        self._library.espeak_SetSynthCallback(self._callback)
        self._library.espeak_Synth.argtypes = _SYNTH_ARGUMENTS

    def synthesise(self, text: str, voice: str, words_per_minute: int) -> RawSpeech:
        """Raises EngineError for an unknown voice or a failed synthesis."""
        data = text.encode() + b"\0"
        with self._lock:
            if self._library.espeak_SetVoiceByName(voice.encode()):
                raise EngineError(f"eSpeak NG has no voice {voice!r}")
            self._library.espeak_SetParameter(_RATE_PARAMETER, words_per_minute, 0)
            self._output = output = RawSpeech()
            status = self._library.espeak_Synth(
                data, len(data), 0, _POSITION_IN_CHARACTERS, 0, _UTF8_AND_END_PAUSE, None, None
            )
        if status:
            raise EngineError(f"eSpeak NG failed with status {status}")
        return output

    def _receive(self, pcm: Any, count: int, events: Any) -> int:
        if count > 0:
            self._output.pcm.append(np.ctypeslib.as_array(pcm, (count,)).copy())
        index = 0
        while events[index].type != _EVENT_END_OF_LIST:
            self._note(events[index])
            index += 1
        return 0

    def _note(self, event: Any) -> None:
        if event.type == _EVENT_WORD:
            self._output.words.append((event.text_position - 1, event.sample))
        elif event.type == _EVENT_PHONEME and not event.phoneme.startswith(b"_"):
            self._output.phonemes.append(event.sample)


@functools.cache
def espeak() -> Espeak:
    """The process's eSpeak. Raises EngineLoadError if it is not installed."""
    return Espeak()


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
