"""The vocoder of a worker: voices from references, and sound for the sessions that ask together."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from antiphon.inference_worker.engines.minicpmo.gpu_process import device_lost, leave
from antiphon.inference_worker.engines.minicpmo.token2wav.agreement import check_agreement
from antiphon.inference_worker.engines.minicpmo.token2wav.causal import Causal
from antiphon.inference_worker.engines.minicpmo.token2wav.fading import Fading
from antiphon.inference_worker.engines.minicpmo.token2wav.flow import Flow
from antiphon.inference_worker.engines.minicpmo.token2wav.meeting import Meeting
from antiphon.inference_worker.engines.minicpmo.token2wav.streams import (
    Chunk,
    Heard,
    Stream,
    Streams,
)
from antiphon.inference_worker.engines.minicpmo.vocoder import (
    CHUNK,
    SILENT_PREFIX,
    VoiceState,
    next_pieces,
    whole_second,
)
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

LONGEST_REFERENCE = 15 * INPUT_RATE
"""Samples of a voice that are cloned; memory is counted for these."""

MOST_WARM = 32
"""Streams in a batch that is run at load."""


class Token2WavVocoder:
    """Serves the sessions' threads, on one of its own: those that ask while a batch runs are the next batch.

    On a GPU it computes on a stream of its own, so that the engine's thread does not wait for it.
    """

    def __init__(self, inner: Any, device: torch.device) -> None:
        self._inner = inner
        self._device = device
        self._cloning = threading.Lock()
        on_gpu = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
        with self._computing():
            sounding = Causal(inner) if hasattr(inner, "bounded_vocoder") else Fading(inner)
            self._flow = Flow(inner.flow, inner.n_timesteps, sounding.kept_codes)
        self._streams = Streams(self._flow, sounding)
        self._meeting = Meeting[Chunk, Samples](self._serve)

    def clone(self, reference: Samples) -> VoiceState:
        """A voice from float32 mono 16 kHz reference audio, of which 15 s are listened to."""
        with self._cloning, self._computing(), tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "voice.wav")
            soundfile.write(path, reference[:LONGEST_REFERENCE], INPUT_RATE)
            voice = VoiceState(self._streams.begin(self._inner._prepare_prompt(path)))  # noqa: SLF001
        self.reset(voice)
        return voice

    def speak(self, voice: VoiceState, codes: list[int], *, last: bool) -> Samples:
        """Sound for the next codes of a turn; `last` flushes what is held back and ends it."""
        unknown = [code for code in codes if not 0 <= code < self._flow.codes]
        if unknown:
            raise EngineError(f"the vocoder knows codes below {self._flow.codes}, not {unknown[0]}")
        voice.waiting += codes
        pieces = next_pieces(voice.waiting, self._flow.lookahead, last=last)
        sound = [self._meeting.ask(Chunk(voice.stream, piece, ends)) for piece, ends in pieces]
        if last:
            self.reset(voice)
        return whole_second(sound, last=last)

    def reset(self, voice: VoiceState) -> None:
        """Begin a new turn."""
        base: Stream = voice.base
        voice.stream = base.copy()
        voice.waiting = list(SILENT_PREFIX)

    def check(self) -> None:
        """Compare with the package's own loop, while its buffers are there. Raises EngineLoadError."""
        with self._computing():
            check_agreement(self._inner.flow, self._flow, self._inner.n_timesteps)

    def warm_up(self, sessions: int) -> None:
        """Clone two noises and speak with up to so many at once: what the package lacks is told now.

        A convolution has a plan for each number of streams and each length; a turn's first
        two chunks are lengths of their own.
        """
        noise = np.random.default_rng(0).normal(0, 0.01, 2 * INPUT_RATE).astype(np.float32)
        whole = (list(SILENT_PREFIX) * CHUNK)[: CHUNK + self._flow.lookahead]
        try:
            voices = [self.clone(noise), self.clone(noise[:INPUT_RATE])]
            for count in range(1, min(sessions, MOST_WARM) + 1):
                streams = [voices[n % 2].base.copy() for n in range(count)]
                for codes, ends in [(whole, False)] * 3 + [(whole[:CHUNK], True)]:
                    self._meeting.ask_together([Chunk(stream, codes, ends) for stream in streams])
        except Exception as error:
            raise EngineLoadError(f"the vocoder cannot speak: {error}") from error

    def close(self) -> None:
        """End the thread."""
        self._meeting.close()

    def _serve(self, chunks: list[Chunk]) -> list[Heard]:
        with self._computing():
            heard = self._streams.serve(chunks)
        if any(isinstance(each, Exception) for each in heard) and device_lost(self._device):
            leave()
        return heard

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with torch.cuda.stream(self._stream), torch.inference_mode():
            yield
