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
from torch import Tensor

from inference_worker.engines.minicpmo.config import EngineOptions
from inference_worker.engines.types import EngineLoadError
from shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, SILENCE, Samples

CHUNK = 25
SILENT_PREFIX = (4218, 4218, 4218)
LEAST_FLUSH = 5
LONGEST_REFERENCE = 15 * INPUT_RATE
"""Samples of a voice that are cloned: the package's buffers end at 20 s, the turn's sound included."""


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


@dataclass(frozen=True, slots=True)
class _Cloned:
    """A voice as the package knows it: its file's name, what was made of it, where a turn begins."""

    path: str
    prompt: Any
    flow: dict[str, Tensor]
    hift: dict[str, Tensor]


class Token2WavVocoder:
    """The package keeps one stream on the object; each call puts the session's in and takes it out.

    Called from the sessions' threads, one at a time; on a GPU on a stream of its own there, so that
    the engine's thread does not wait for it.
    """

    def __init__(self, inner: Any, device: torch.device) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        on_gpu = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
        self._lookahead = int(inner.flow.pre_lookahead_len)

    def clone(self, reference: Samples) -> VoiceState:
        """A voice from float32 mono 16 kHz reference audio, of which 15 s are listened to."""
        inner = self._inner
        with self._turn(), tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "voice.wav")
            soundfile.write(path, reference[:LONGEST_REFERENCE], INPUT_RATE)
            inner.cache = None
            flow, hift = inner.set_stream_cache(path)
            cloned = _Cloned(path, inner.cache, self._own(flow), copy.deepcopy(hift))
        voice = VoiceState(cloned)
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
        with self._turn():
            voice.stream = (voice.base.flow, copy.deepcopy(voice.base.hift))
        voice.waiting = list(SILENT_PREFIX)

    def warm_up(self) -> None:
        """Clone a second of noise and speak with it: what the package lacks is told now."""
        noise = np.random.default_rng(0).normal(0, 0.01, INPUT_RATE).astype(np.float32)
        try:
            self.speak(self.clone(noise), list(SILENT_PREFIX) * LEAST_FLUSH, last=True)
        except Exception as error:
            raise EngineLoadError(f"the vocoder cannot speak: {error}") from error

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._lock, torch.cuda.stream(self._stream), torch.inference_mode():
            yield

    def _next(self, voice: VoiceState, codes: list[int], *, ends: bool) -> Samples:
        inner, cloned = self._inner, voice.base
        inner.cache = cloned.prompt
        inner._stream_prompt = cloned.path  # noqa: SLF001  # no other way to switch streams
        inner.stream_cache, inner.hift_cache_dict = voice.stream
        pcm: bytes = inner.stream(codes, prompt_wav=cloned.path, last_chunk=ends)
        voice.stream = (self._own(inner.stream_cache), inner.hift_cache_dict)
        return np.frombuffer(pcm, dtype="<i2").astype(np.float32) / 32768.0

    def _own(self, flow: dict[str, Tensor]) -> dict[str, Tensor]:
        """A copy of the session's own: the package hands out views of buffers that all streams share.

        They have room for 16 solver steps; those in use are kept.
        """
        steps = self._inner.n_timesteps
        return {
            name: (kept[:steps] if name.startswith("estimator") else kept).clone()
            for name, kept in flow.items()
        }


def _whole_second(sound: list[Samples], *, last: bool) -> Samples:
    """The pieces as one; silence on the left completes a second, except at a turn's end."""
    if not sound:
        return SILENCE
    whole = np.concatenate(sound)
    missing = 0 if last else max(0, OUTPUT_RATE - len(whole))
    return np.pad(whole, (missing, 0))


def find_token2wav(model: Path, options: EngineOptions) -> Path | None:
    """Token2wav's folder as chosen; "auto" takes the model's own where that and a GPU are there."""
    if isinstance(options.vocoder, Path):
        return options.vocoder
    beside = model / "assets" / "token2wav"
    no_gpu = options.device == "cpu" or not torch.cuda.is_available()
    return None if options.vocoder == "none" or no_gpu or not beside.is_dir() else beside


def open_token2wav(folder: Path, steps: int, device: torch.device) -> Token2WavVocoder:
    """The vocoder of the package `minicpmo-utils`. Raises EngineLoadError with the remedy."""
    if device.type != "cuda":
        raise EngineLoadError(
            f"the vocoder runs on a GPU, not on {device}: vocoder=none serves text"
        )
    try:
        package = importlib.import_module("stepaudio2")
    except (ImportError, OSError) as error:
        raise EngineLoadError(
            "the vocoder needs the package minicpmo-utils (pip install --no-deps minicpmo-utils, and "
            f"the extra token2wav; or serve text only with vocoder=none): {error}"
        ) from error
    try:
        with torch.cuda.device(device):
            inner = package.Token2wav(str(folder), n_timesteps=steps)
            # Loaded on this thread's stream, used on another, which does not wait for it.
            torch.cuda.synchronize()
    except Exception as error:
        raise EngineLoadError(f"no vocoder in {folder}: {error}") from error
    return Token2WavVocoder(inner, device)
