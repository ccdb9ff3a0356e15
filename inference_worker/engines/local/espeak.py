"""eSpeak NG through ctypes, in process and without a sound card.

The library keeps its voice, rate and callback in global variables, so one lock guards every call.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError

_SYNCHRONOUS_RETRIEVAL = 2
_PHONEME_EVENTS = 0x0001
_DONT_EXIT = 0x8000
_UTF8_AND_END_PAUSE = 0x1001
_POSITION_IN_CHARACTERS = 1
_RATE_PARAMETER = 1
_EVENT_END_OF_LIST, _EVENT_WORD, _EVENT_PHONEME = 0, 1, 7


class _EventId(ctypes.Union):
    _fields_ = (
        ("number", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("phoneme", ctypes.c_char * 8),
    )


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", _EventId),
    )


_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


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
        self.sample_rate = int(
            self._library.espeak_Initialize(
                _SYNCHRONOUS_RETRIEVAL,
                0,
                loader.get_data_path().encode(),
                _DONT_EXIT | _PHONEME_EVENTS,
            )
        )
        if self.sample_rate <= 0:
            raise EngineLoadError(f"eSpeak NG finds no voices in {loader.get_data_path()}")
        self._lock = threading.Lock()
        self._output = RawSpeech()
        self._callback = _Callback(self._receive)  # must outlive every synthesis
        self._library.espeak_SetSynthCallback(self._callback)
        self._library.espeak_Synth.argtypes = (
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_uint,
            ctypes.c_int,
            ctypes.c_uint,
            ctypes.c_uint,
            ctypes.c_void_p,
            ctypes.c_void_p,
        )

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
        elif event.type == _EVENT_PHONEME and not event.id.phoneme.startswith(b"_"):
            self._output.phonemes.append(event.sample)


@functools.cache
def espeak() -> Espeak:
    """The process's eSpeak. Raises EngineLoadError if it is not installed."""
    return Espeak()
