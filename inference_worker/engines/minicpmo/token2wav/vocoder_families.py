"""The two families of package releases: how they prompt a voice, retain codes and synthesize mel.

Both have the same methods: the codes (1, n) of a reference with the lookahead of the last ones, the
state of a new stream, a key that is equal for states that can share a batch, and the audio (streams,
samples) of mel (streams, mels, frames) with the new states.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import fold, pad

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.token2wav.flow import (
    codes_to_retain,
    codes_to_retain_until_1_0_6,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import ChunkGraphs

SILENT_CODE = 4218
HOP = 480
"""Samples per frame of mel."""


def without_host_reads(hift: Any) -> None:
    """Keep the window of the transform on the device, and replace `torch.istft`.

    torch's inverse reads on the host whether the windows overlap everywhere. The host would wait for
    the device in the middle of each chunk, and no CUDA graph could be captured.
    """
    window = hift.stft_window = hift.stft_window.to(next(hift.parameters()))
    hop = int(hift.istft_params["hop_len"])
    hift._istft = lambda magnitude, phase: inverse_stft(magnitude, phase, window, hop)  # noqa: SLF001


def inverse_stft(magnitude: Tensor, phase: Tensor, window: Tensor, hop: int) -> Tensor:
    """Samples (rows, hop x (frames - 1)) of spectra (rows, bins, frames), as the package's `_istft`."""
    spectra = torch.polar(magnitude.clip(max=1e2), phase)
    size, frames = len(window), spectra.shape[-1]
    length = size + hop * (frames - 1)
    parts = torch.fft.irfft(spectra, dim=1) * window[:, None]
    weights = window.square()[None, :, None].expand(1, -1, frames)
    sums, weight = (
        fold(each, (1, length), (1, size), stride=(1, hop))[:, 0, 0, size // 2 : length - size // 2]
        for each in (parts, weights)
    )
    return sums / weight


@dataclass(frozen=True, slots=True)
class CausalState:
    """The mel (mels, n) of a stream from frame `mel_from` on; its excitation (1, 480 n) from
    `source_from` on; the phase of its oscillators (harmonics,) at the end; and the number of
    synthesized frames.
    """

    mel: Tensor
    source: Tensor
    phase: Tensor
    mel_from: int = 0
    source_from: int = 0
    sounded: int = 0

    @property
    def source_until(self) -> int:
        """The first frame without excitation."""
        return self.source_from + self.source.shape[-1] // HOP


class CausalVocoder:
    """The vocoder since release 1.0.7: causal networks that process a bounded past again with every chunk.

    The package works in blocks of 16 frames. The result does not depend on their length, so here a
    chunk is one block, and streams of equal progress share it. Runs the networks of the package's
    `hift`, which accept any number of rows.
    """

    retained_codes = staticmethod(codes_to_retain)

    def __init__(self, inner: Any, graphs: ChunkGraphs) -> None:
        model, bounded = inner.hift, inner.bounded_vocoder
        self._model = model
        self._graphs = graphs
        self._weight: Tensor = model.conv_pre.weight
        self._f0_left, self._f0_right = int(bounded.f0_left), int(bounded.f0_right)
        self._history, self._right = int(bounded.history), int(bounded.decoder_right)
        self._oscillator = model.m_source.l_sin_gen
        without_host_reads(model)
        noise = self._oscillator.sine_waves = self._oscillator.sine_waves.to(self._weight)
        self._noise = noise[0].unflatten(0, (-1, HOP))
        harmonics = model.nb_harmonics + 1
        self._harmonics = torch.arange(1, harmonics + 1, dtype=torch.float32).to(self._weight)

    def prompt_codes(self, codes: Tensor, lookahead: int) -> Tensor:
        """The lookahead is the beginning of the voice."""
        return torch.cat([codes, codes[:, :lookahead]], 1)

    def initial_state(self) -> CausalState:
        new = self._weight.new_zeros
        phase = new(len(self._harmonics), dtype=torch.float64)
        return CausalState(new(self._model.conv_pre.in_channels, 0), new(1, 0), phase)

    def batch_key(self, state: CausalState) -> Hashable:
        """The lengths of the past; equal for all streams from their third chunk on at the latest."""
        ends = state.source_from, state.source_until, state.sounded
        return state.mel.shape[-1], *(end - state.mel_from for end in ends)

    def synthesize(
        self, mel: Tensor, states: Sequence[CausalState], *, ends: bool
    ) -> tuple[Tensor, list[CausalState]]:
        """Hold back eight frames, except at the end. Silence takes their place in the first chunk."""
        one, streams = states[0], len(states)
        mel = torch.cat([torch.stack([state.mel for state in states]), mel], 2)
        inputs: tuple[Tensor, ...] = (
            mel,
            torch.stack([state.source for state in states]),
            torch.stack([state.phase for state in states]),
            device_tensor([state.source_until for state in states], mel.device),
        )

        def forward(*inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return self._sound(*inputs, one=one, ends=ends)

        rows = None if ends else self._graphs.size(streams)
        key = ("audio", rows, mel.shape[-1], self.batch_key(one))
        if rows is None or not self._graphs.has(key):
            speech, source, phases = forward(*inputs)
        else:
            extra = rows - streams
            inputs = tuple(
                torch.cat([each, each.new_zeros(extra, *each.shape[1:])]) if extra else each
                for each in inputs
            )
            speech, source, phases = (
                part[:streams] for part in self._graphs.run(key, inputs, forward)
            )
        first = not states[0].sounded and speech.shape[-1]
        kept = [
            self._kept(mel[row], source[row], phases[row], state, speech.shape[-1] // HOP)
            for row, state in enumerate(states)
        ]
        if first and not ends:
            speech = pad(speech, ((self._f0_right + self._right) * HOP, 0))
        return speech, kept

    def _sound(
        self,
        mel: Tensor,
        source: Tensor,
        phases: Tensor,
        starts: Tensor,
        *,
        one: CausalState,
        ends: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The audio of new frames (streams, samples), the excitation (streams, 1, samples) as far as
        the mel allows, and the phases at its end. Of `one` stream only distances between frames are
        used, which are equal for all.
        """
        with torch.device(mel.device):  # the networks create their padding on the default device
            until = mel.shape[-1] if ends else mel.shape[-1] - self._f0_right
            done = one.source_until - one.mel_from
            if until > done:
                begin = max(0, done - self._f0_left)
                f0 = self._model.f0_predictor(mel[..., begin:].double(), finalize=ends).to(mel)
                new, phases = self._excitation(f0[:, done - begin :], phases, starts)
                source = torch.cat([source, new], 2)
            return self._decoded(mel, source, one, ends=ends), source, phases

    def _excitation(self, f0: Tensor, phases: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Harmonics of the pitch (streams, frames) where voiced, and noise from a fixed table."""
        oscillator, source = self._oscillator, self._model.m_source
        turns = (f0[..., None] * self._harmonics / self._model.sampling_rate).remainder(1).double()
        turns = turns.cumsum(1) * HOP + phases[:, None]
        tones = (turns.remainder(1) * (2 * math.pi)).sin().to(f0)
        voiced = (f0[..., None] > oscillator.voiced_threshold).to(f0)
        loudness = voiced * oscillator.noise_std + (1 - voiced) * oscillator.sine_amp / 3
        frames = torch.arange(f0.shape[1], device=f0.device)
        places = (starts[:, None] + frames) % len(self._noise)
        noise = self._noise.index_select(0, places.flatten()).unflatten(0, places.shape)
        tones = (tones * oscillator.sine_amp * voiced).unsqueeze(2)
        mixed = tones + loudness.unsqueeze(2) * noise
        excitation = source.l_tanh(source.l_linear(mixed)).flatten(1).unsqueeze(1)
        return excitation, turns[:, -1].remainder(1)

    def _decoded(self, mel: Tensor, source: Tensor, one: CausalState, *, ends: bool) -> Tensor:
        """The audio of new frames whose lookahead is known."""
        known = one.source_from + source.shape[-1] // HOP
        if known - (0 if ends else self._right) <= one.sounded:
            return mel.new_zeros(len(mel), 0)
        window = mel[..., one.source_from - one.mel_from : known - one.mel_from]
        speech: Tensor = self._model.decode(window, source, finalize=ends)
        return speech[:, (one.sounded - one.source_from) * HOP :]

    def _kept(
        self, mel: Tensor, source: Tensor, phase: Tensor, state: CausalState, frames: int
    ) -> CausalState:
        sounded = state.sounded + frames
        known = state.source_from + source.shape[-1] // HOP
        source_from = max(0, sounded - self._history)
        mel_from = max(0, min(source_from, known - self._f0_left))
        return CausalState(
            mel[:, mel_from - state.mel_from :].clone(),
            source[:, (source_from - state.source_from) * HOP :].clone(),
            phase.clone(),
            mel_from,
            source_from,
            sounded,
        )


@dataclass(frozen=True, slots=True)
class CrossfadeState:
    """The end of the last chunk of a stream, 160 ms: mel (mels, 8), excitation (1, n) and audio (n,)."""

    mel: Tensor
    source: Tensor
    speech: Tensor


class CrossfadeVocoder:
    """The vocoder up to release 1.0.6: chunks overlap by 160 ms and are crossfaded.

    Runs the package's `hift`, which accepts any number of rows; its noise is drawn again each time.
    """

    retained_codes = staticmethod(codes_to_retain_until_1_0_6)

    def __init__(self, inner: Any) -> None:
        self._hift = inner.hift
        self._frames = int(inner.mel_cache_len)
        self._window: Tensor = inner.speech_window
        self._like: Tensor = inner.flow.encoder_proj.weight
        without_host_reads(inner.hift)

    def prompt_codes(self, codes: Tensor, lookahead: int) -> Tensor:
        """The lookahead is silence."""
        return pad(codes, (0, lookahead), value=SILENT_CODE)

    def initial_state(self) -> CrossfadeState:
        new = self._like.new_zeros
        return CrossfadeState(new(self._like.shape[0], 0), new(1, 0), new(0))

    def batch_key(self, state: CrossfadeState) -> Hashable:
        """First chunks have a separate batch."""
        return state.mel.shape, state.source.shape, state.speech.shape

    def synthesize(
        self, mel: Tensor, states: Sequence[CrossfadeState], *, ends: bool
    ) -> tuple[Tensor, list[CrossfadeState]]:
        """Hold back the overlap, except at the end. 160 ms of silence take its place in the first chunk."""
        overlap = self._frames * HOP
        mel = torch.cat([torch.stack([state.mel for state in states]), mel], 2)
        speech, source = self._hift(mel, torch.stack([state.source for state in states]))
        before = torch.stack([state.speech for state in states])
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
        return speech, [CrossfadeState(*parts) for parts in rows]


VocoderFamily = CausalVocoder | CrossfadeVocoder
