"""The vocoder of releases up to 1.0.6: chunks overlap by 160 ms and fade into each other."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from antiphon.inference_worker.engines.minicpmo.token2wav.keeping import kept_codes_until_1_0_6
from antiphon.inference_worker.engines.minicpmo.token2wav.sounding import HOP

SILENT_CODE = 4218


@dataclass(frozen=True, slots=True)
class FadingMemory:
    """The end of a stream's last chunk: mel (mels, 8), excitation (1, n) and sound (n,) of 160 ms."""

    mel: Tensor
    source: Tensor
    speech: Tensor


class Fading:
    """Runs the package's `hift`, which takes any number of rows; its noise is drawn anew each time."""

    def __init__(self, inner: Any) -> None:
        self._hift = inner.hift
        self._frames = int(inner.mel_cache_len)
        self._window: Tensor = inner.speech_window
        self._like: Tensor = inner.flow.encoder_proj.weight
        inner.hift.stft_window = inner.hift.stft_window.to(self._like)

    def prompted(self, codes: Tensor, lookahead: int) -> Tensor:
        """A voice ends in silence."""
        return pad(codes, (0, lookahead), value=SILENT_CODE)

    def kept_codes(self, entries: Tensor, prompt: int) -> Tensor:
        """The turn's beginning, where a voice has two seconds or more."""
        return kept_codes_until_1_0_6(entries, prompt)

    def nothing(self) -> FadingMemory:
        """Before the first chunk."""
        new = self._like.new_zeros
        return FadingMemory(new(self._like.shape[0], 0), new(1, 0), new(0))

    def kind(self, memory: FadingMemory) -> Hashable:
        """First chunks are served apart from later ones."""
        return memory.mel.shape, memory.source.shape, memory.speech.shape

    def sound(
        self, mel: Tensor, memories: Sequence[FadingMemory], *, ends: bool
    ) -> tuple[Tensor, list[FadingMemory]]:
        """What overlaps is held back, except at the end; 160 ms of silence stand for it at first."""
        overlap = self._frames * HOP
        mel = torch.cat([torch.stack([memory.mel for memory in memories]), mel], 2)
        speech, source = self._hift(mel, torch.stack([memory.source for memory in memories]))
        before = torch.stack([memory.speech for memory in memories])
        first = not before.shape[-1]
        if not first:
            fading, rising = self._window[overlap:], self._window[:overlap]
            speech[:, :overlap] = speech[:, :overlap] * rising + before * fading
        rows = zip(
            mel[..., -self._frames :].clone(),
            source[..., -overlap:].clone(),
            speech[:, -overlap:].clone(),
            strict=True,
        )
        if not ends:
            speech = pad(speech[:, :-overlap], (overlap if first else 0, 0))
        return speech, [FadingMemory(*parts) for parts in rows]
