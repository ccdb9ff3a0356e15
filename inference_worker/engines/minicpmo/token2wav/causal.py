"""The vocoder since 1.0.7: causal networks that hear a bounded past again with every chunk.

The package works in blocks of 16 frames; its result does not depend on how long they are, so here a
chunk is one block, and so are chunks of several streams that have come equally far.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from antiphon.inference_worker.engines.minicpmo.placing import placed
from antiphon.inference_worker.engines.minicpmo.token2wav.keeping import kept_codes
from antiphon.inference_worker.engines.minicpmo.token2wav.sounding import HOP


@dataclass(frozen=True, slots=True)
class CausalMemory:
    """A stream's mel (mels, n) from frame `mel_from` on, and its excitation (1, 480 n) from
    `source_from` on; the oscillators' phase (harmonics,) at its end; and how many frames have sounded.
    """

    mel: Tensor
    source: Tensor
    phase: Tensor
    mel_from: int = 0
    source_from: int = 0
    sounded: int = 0

    @property
    def source_until(self) -> int:
        """The frame that has no excitation yet."""
        return self.source_from + self.source.shape[-1] // HOP


class Causal:
    """Runs the networks of the package's `hift`, which take any number of rows."""

    def __init__(self, inner: Any) -> None:
        model, bounded = inner.hift, inner.bounded_vocoder
        self._model = model
        self._weight: Tensor = model.conv_pre.weight
        self._f0_left, self._f0_right = int(bounded.f0_left), int(bounded.f0_right)
        self._history, self._right = int(bounded.history), int(bounded.decoder_right)
        self._oscillator = model.m_source.l_sin_gen
        # Kept on the host by the package, and sent for again with every block.
        model.stft_window = model.stft_window.to(self._weight)
        noise = self._oscillator.sine_waves = self._oscillator.sine_waves.to(self._weight)
        self._noise = noise[0].unflatten(0, (-1, HOP))
        harmonics = model.nb_harmonics + 1
        self._harmonics = torch.arange(1, harmonics + 1, dtype=torch.float32).to(self._weight)

    def prompted(self, codes: Tensor, lookahead: int) -> Tensor:
        """A voice begins again at its end."""
        return torch.cat([codes, codes[:, :lookahead]], 1)

    def kept_codes(self, entries: Tensor, prompt: int) -> Tensor:
        """The voice and the last two seconds."""
        return kept_codes(entries, prompt)

    def nothing(self) -> CausalMemory:
        """Before the first chunk."""
        new = self._weight.new_zeros
        phase = new(len(self._harmonics), dtype=torch.float64)
        return CausalMemory(new(self._model.conv_pre.in_channels, 0), new(1, 0), phase)

    def kind(self, memory: CausalMemory) -> Hashable:
        """How much of a stream's past there is: the same for all from their third chunk on, at the latest."""
        ends = memory.source_from, memory.source_until, memory.sounded
        return memory.mel.shape[-1], *(end - memory.mel_from for end in ends)

    def sound(
        self, mel: Tensor, memories: Sequence[CausalMemory], *, ends: bool
    ) -> tuple[Tensor, list[CausalMemory]]:
        """Eight frames are held back, except at the end; silence stands for them at first."""
        mel = torch.cat([torch.stack([memory.mel for memory in memories]), mel], 2)
        with torch.device(mel.device):  # the networks pad with zeros that they make on the host
            source, phases = self._excited(mel, memories, ends=ends)
            speech = self._decoded(mel, source, memories[0], ends=ends)
        first = not memories[0].sounded and speech.shape[-1]
        kept = [
            self._kept(mel[row], source[row], phases[row], memory, speech.shape[-1] // HOP)
            for row, memory in enumerate(memories)
        ]
        if first and not ends:
            speech = pad(speech, ((self._f0_right + self._right) * HOP, 0))
        return speech, kept

    def _excited(
        self, mel: Tensor, memories: Sequence[CausalMemory], *, ends: bool
    ) -> tuple[Tensor, Tensor]:
        """The excitation (streams, 1, samples) as far as the mel allows, and the phases at its end."""
        one = memories[0]
        until = mel.shape[-1] if ends else mel.shape[-1] - self._f0_right
        done = one.source_until - one.mel_from
        source = torch.stack([memory.source for memory in memories])
        phases = torch.stack([memory.phase for memory in memories])
        if until <= done:
            return source, phases
        start = max(0, done - self._f0_left)
        f0 = self._model.f0_predictor(mel[..., start:].double(), finalize=ends).to(mel)
        f0 = f0[:, done - start :]
        new, phases = self._excitation(f0, phases, [memory.source_until for memory in memories])
        return torch.cat([source, new], 2), phases

    def _excitation(
        self, f0: Tensor, phases: Tensor, starts: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Harmonics of the pitch (streams, frames) where there is one, and noise from a fixed table."""
        oscillator, source = self._oscillator, self._model.m_source
        turns = (f0[..., None] * self._harmonics / self._model.sampling_rate).remainder(1).double()
        turns = turns.cumsum(1) * HOP + phases[:, None]
        tones = (turns.remainder(1) * (2 * math.pi)).sin().to(f0)
        voiced = (f0[..., None] > oscillator.voiced_threshold).to(f0)
        loudness = voiced * oscillator.noise_std + (1 - voiced) * oscillator.sine_amp / 3
        begins = placed(starts, f0.device)[:, None]
        places = (begins + torch.arange(f0.shape[1], device=f0.device)) % len(self._noise)
        tones = (tones * oscillator.sine_amp * voiced).unsqueeze(2)
        mixed = tones + loudness.unsqueeze(2) * self._noise[places]
        excitation = source.l_tanh(source.l_linear(mixed)).flatten(1).unsqueeze(1)
        return excitation, turns[:, -1].remainder(1)

    def _decoded(self, mel: Tensor, source: Tensor, one: CausalMemory, *, ends: bool) -> Tensor:
        """The sound of frames that have not sounded and whose future is known."""
        known = one.source_from + source.shape[-1] // HOP
        if known - (0 if ends else self._right) <= one.sounded:
            return mel.new_zeros(len(mel), 0)
        heard = mel[..., one.source_from - one.mel_from : known - one.mel_from]
        speech: Tensor = self._model.decode(heard, source, finalize=ends)
        return speech[:, (one.sounded - one.source_from) * HOP :]

    def _kept(
        self, mel: Tensor, source: Tensor, phase: Tensor, memory: CausalMemory, frames: int
    ) -> CausalMemory:
        sounded = memory.sounded + frames
        known = memory.source_from + source.shape[-1] // HOP
        source_from = max(0, sounded - self._history)
        mel_from = max(0, min(source_from, known - self._f0_left))
        return CausalMemory(
            mel[:, mel_from - memory.mel_from :].clone(),
            source[:, (source_from - memory.source_from) * HOP :].clone(),
            phase.clone(),
            mel_from,
            source_from,
            sounded,
        )
