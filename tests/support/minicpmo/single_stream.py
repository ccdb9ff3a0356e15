"""One stream with the package's own loop: the reference for many streams at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from support.minicpmo.stepaudio_package import EARLIER, LATER, MELS


class SingleStreamLater:
    """Release 1.0.7: one stream on the object."""

    def __init__(self, inner: Any, voice: Path) -> None:
        self._inner, self._voice = inner, str(voice)
        inner.cache = None
        inner.set_stream_cache(self._voice)

    def chunk(self, codes: list[int], *, ends: bool) -> tuple[Tensor, Tensor]:
        """Mel (frames of the chunk) and sound."""
        with collected_mel(self._inner.flow) as mels:
            sound = self._inner.stream(codes, self._voice, last_chunk=ends, return_waveform=True)
        return mels[0], torch.from_numpy(sound[0])


class SingleStreamEarlier:
    """A copy of the loop up to release 1.0.6: 1.0.7 has their networks but not their loop."""

    def __init__(self, inner: Any, voice: Path) -> None:
        self._inner = inner
        codes, _, self._speaker, mel, _ = inner._prepare_prompt(str(voice))
        self._prompt = mel.shape[1]
        silence = torch.full((1, 3), 4218, dtype=codes.dtype)
        self._cache = inner.flow.setup_cache(
            torch.cat([codes, silence], 1), mel, self._speaker, n_timesteps=inner.n_timesteps
        )
        self._mel, self._source = mel.new_zeros(1, MELS, 0), mel.new_zeros(1, 1, 0)
        self._speech = mel.new_zeros(1, 0)

    def chunk(self, codes: list[int], *, ends: bool) -> tuple[Tensor, Tensor]:
        """Mel (frames of the chunk) and sound."""
        inner = self._inner
        mel, self._cache = inner.flow.inference_chunk(
            torch.tensor([codes]), self._speaker, self._cache, ends, inner.n_timesteps
        )
        self._trim("estimator_att_cache", 4)
        self._trim("conformer_att_cache", 3)
        return mel[0], self._vocode(mel, ends=ends)[0]

    def _trim(self, name: str, dim: int) -> None:
        kept = self._cache[name]
        if kept.shape[dim] > self._prompt + 100:
            head, tail = kept.narrow(dim, 0, self._prompt), kept.shape[dim] - 100
            self._cache[name] = torch.cat([head, kept.narrow(dim, tail, 100)], dim)

    def _vocode(self, mel: Tensor, *, ends: bool) -> Tensor:
        inner, overlap = self._inner, self._inner.source_cache_len
        mel = torch.cat([self._mel, mel], 2)
        speech, source = inner.hift(mel, self._source)
        before, window = self._speech, inner.speech_window
        if before.shape[1]:
            faded = speech[:, :overlap] * window[:overlap] + before * window[overlap:]
            speech[:, :overlap] = faded
        self._mel, self._source = mel[..., -inner.mel_cache_len :], source[..., -overlap:]
        self._speech = speech[:, -overlap:].clone()
        if ends:
            return speech
        silence = speech.new_zeros(1, 0 if before.shape[1] else overlap)
        return torch.cat([silence, speech[:, :-overlap]], 1)


SINGLE_STREAM = {EARLIER: SingleStreamEarlier, LATER: SingleStreamLater}


@contextmanager
def collected_mel(flow: Any) -> Iterator[list[Tensor]]:
    """Collects the mel of each chunk that the package's flow computes inside the context."""
    mels: list[Tensor] = []
    own = flow.inference_chunk

    def collecting(**given: Any) -> Any:
        mel, cache = own(**given)
        mels.append(mel[0])
        return mel, cache

    with patch.object(flow, "inference_chunk", collecting):
        yield mels
