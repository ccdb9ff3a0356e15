"""Codes to sound: Token2wav of the `minicpmo-utils` package, one running state per session."""

from __future__ import annotations

import copy
import importlib
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import soundfile
import torch

from inference_worker.engines.types import EngineLoadError
from shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples

CHUNK = 25
SILENT_PREFIX = (4218, 4218, 4218)
LEAST_FLUSH = 5


@dataclass(slots=True)
class VoiceState:
    """A session's voice: what a turn starts from, and where the current turn stands."""

    base: Any
    stream: Any = None
    waiting: list[int] = field(default_factory=list)


class Vocoder(Protocol):
    """Makes 24 kHz sound out of audio codes."""

    def clone(self, reference: Samples) -> VoiceState:
        """A voice from float32 mono 16 kHz reference audio."""

    def speak(self, voice: VoiceState, codes: list[int], *, last: bool) -> Samples:
        """Sound for the next codes of a turn; `last` flushes what is held back and ends it."""

    def reset(self, voice: VoiceState) -> None:
        """Begin a new turn."""


def next_pieces(waiting: list[int], lookahead: int, *, last: bool) -> list[tuple[list[int], bool]]:
    """Cut `waiting` (in place) into what the vocoder is given: codes and whether they end the turn.

    A piece is 25 codes and the lookahead; a shorter one is given too, as long as 5 codes are new.
    """
    pieces: list[tuple[list[int], bool]] = []
    while len(waiting) >= lookahead + LEAST_FLUSH:
        take = min(CHUNK + lookahead, len(waiting))
        pieces.append((waiting[:take], False))
        del waiting[: take - lookahead]
    if last and waiting:
        pieces.append((waiting.copy(), True))
        waiting.clear()
    return pieces


class Token2WavVocoder:
    """The package keeps one stream on the object; each call puts the session's in and takes it out.

    Called from the sessions' threads, one at a time, on a CUDA stream of its own: the engine's thread
    does not wait for it.
    """

    def __init__(self, folder: Path, steps: int) -> None:
        self._inner = _open(folder, steps)
        self._lock = threading.Lock()
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._lookahead = int(self._inner.flow.pre_lookahead_len)

    def clone(self, reference: Samples) -> VoiceState:
        """A voice from float32 mono 16 kHz reference audio."""
        with self._turn(), tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "voice.wav")
            soundfile.write(path, reference, INPUT_RATE)
            flow, hift = self._inner.set_stream_cache(path)
            prompt = (path, self._inner.cache.pop(path))
            voice = VoiceState(base=(prompt, copy.deepcopy(flow), copy.deepcopy(hift)))
        self.reset(voice)
        return voice

    def speak(self, voice: VoiceState, codes: list[int], *, last: bool) -> Samples:
        """Sound for the next codes of a turn; `last` flushes what is held back and ends it."""
        voice.waiting += codes
        pieces = next_pieces(voice.waiting, self._lookahead, last=last)
        with self._turn():
            sound = [self._next(voice, piece, ends=ends) for piece, ends in pieces]
        if last:
            self.reset(voice)
        return _whole_second(sound, last=last)

    def reset(self, voice: VoiceState) -> None:
        """Begin a new turn."""
        _, flow, hift = voice.base
        with self._turn():
            voice.stream = (copy.deepcopy(flow), copy.deepcopy(hift))
        voice.waiting = list(SILENT_PREFIX)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._lock, torch.cuda.stream(self._stream):
            yield

    def _next(self, voice: VoiceState, codes: list[int], *, ends: bool) -> Samples:
        inner, ((path, prompt), _, _) = self._inner, voice.base
        inner.cache = {path: prompt}
        inner._stream_prompt = path  # noqa: SLF001  # the package has no other way to switch streams
        inner.stream_cache, inner.hift_cache_dict = voice.stream
        pcm: bytes = inner.stream(codes, prompt_wav=path, last_chunk=ends)
        voice.stream = (inner.stream_cache, inner.hift_cache_dict)
        return np.frombuffer(pcm, dtype="<i2").astype(np.float32) / 32768.0


def _whole_second(sound: list[Samples], *, last: bool) -> Samples:
    """The pieces as one; silence on the left completes a second, except at a turn's end."""
    if not sound:
        return SILENCE
    whole = np.concatenate(sound)
    missing = 0 if last else max(0, OUTPUT_RATE - len(whole))
    return np.pad(whole, (missing, 0))


def _open(folder: Path, steps: int) -> Any:
    try:
        package = importlib.import_module("stepaudio2")
    except ImportError as error:
        raise EngineLoadError(
            "the vocoder needs the package minicpmo-utils (pip install --no-deps minicpmo-utils, "
            f"then what it imports; or serve text only with vocoder=none): {error}"
        ) from error
    try:
        return package.Token2wav(str(folder), n_timesteps=steps)
    except (OSError, RuntimeError, ValueError) as error:
        raise EngineLoadError(f"no vocoder in {folder}: {error}") from error
