"""eSpeak NG through ctypes, in process and without a sound card: speech, and the phonemes of a text.

The library keeps its voice, rate and callback in global variables, so one lock guards every call.
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

from antiphon.inference_worker.engines.local.dependencies import import_library
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError

PHONEME_TIE = "^"
"""Joins the letters of one phoneme, as in `t^ʃ`."""

_SYNCHRONOUS_RETRIEVAL = 2
_PHONEME_EVENTS = 0x0001
_DONT_EXIT = 0x8000
_UTF8 = 1
_UTF8_AND_END_PAUSE = 0x1001
_IPA_WITH_TIES = 0x02 | 0x80 | ord(PHONEME_TIE) << 8
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
        self._library.espeak_TextToPhonemes.argtypes = (POINTER(c_char_p), c_int, c_int)
        self._library.espeak_TextToPhonemes.restype = c_char_p

    def synthesise(self, text: str, voice: str, words_per_minute: int) -> RawSpeech:
        """Raises EngineError for an unknown voice or a failed synthesis."""
        data = text.encode() + b"\0"
        with self._lock:
            self._select(voice)
            self._library.espeak_SetParameter(_RATE_PARAMETER, words_per_minute, 0)
            self._output = output = RawSpeech()
            status = self._library.espeak_Synth(
                data, len(data), 0, _POSITION_IN_CHARACTERS, 0, _UTF8_AND_END_PAUSE, None, None
            )
        if status:
            raise EngineError(f"eSpeak NG failed with status {status}")
        return output

    def phonemes(self, text: str, voice: str) -> str:
        """The IPA of `text` with stress marks and PHONEME_TIE; a space between words.

        Raises EngineError for an unknown voice.
        """
        found: list[str] = []
        rest = c_char_p(text.encode())
        with self._lock:
            self._select(voice)
            # Each call translates one clause and moves the pointer behind it.
            while rest.value is not None:
                ipa = self._library.espeak_TextToPhonemes(ctypes.byref(rest), _UTF8, _IPA_WITH_TIES)
                found.append((ipa or b"").decode())
        return " ".join(found)

    def _select(self, voice: str) -> None:
        if self._library.espeak_SetVoiceByName(voice.encode()):
            raise EngineError(f"eSpeak NG has no voice {voice!r}")

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
