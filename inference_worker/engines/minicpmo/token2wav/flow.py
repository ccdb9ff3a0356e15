"""Audio codes to mel for several streams, each with a voice and a memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from antiphon.inference_worker.engines.minicpmo.placing import placed
from antiphon.inference_worker.engines.minicpmo.token2wav.encoder import (
    BatchedEncoder,
    EncoderMemory,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.keeping import kept_frames
from antiphon.inference_worker.engines.minicpmo.token2wav.solver import Solver, SolverMemory

KeptCodes = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True, slots=True)
class FlowMemory:
    """Where a stream stands; `speaker` (mels,) and `prompt`, in frames, are its voice's."""

    speaker: Tensor
    prompt: int
    encoder: EncoderMemory
    solver: SolverMemory


@dataclass(frozen=True, slots=True)
class Flowed:
    """A chunk of mel (streams, mels, frames), and what each stream has seen in it."""

    mel: Tensor
    encoder: list[EncoderMemory]
    solver: SolverMemory


class Flow:
    """The package's `flow`. What is kept at 25 entries a second differs between its releases."""

    def __init__(self, flow: Any, steps: int, kept_codes: KeptCodes) -> None:
        self._flow = flow
        self._encoder = BatchedEncoder(flow)
        self._solver = Solver(flow.decoder, steps)
        self._kept_codes = kept_codes
        self.lookahead = int(flow.pre_lookahead_len)
        self.codes = int(flow.input_embedding.num_embeddings)

    def begin(self, codes: Tensor, speaker: Tensor, mel: Tensor) -> FlowMemory:
        """A voice: codes (1, n) with lookahead, what is known of the speaker (1, m), mel (1, frames, mels)."""
        own = self._flow.spk_embed_affine_layer(normalize(speaker, dim=1))
        encoded, encoder = self._encoder.encode(codes, [self._encoder.nothing()], ends=False)
        given = torch.cat([encoded, own[:, None].expand_as(encoded), mel], -1)
        _, solver = self._solver.solve(given, [self._solver.nothing()])
        return FlowMemory(
            speaker=own[0],
            prompt=mel.shape[1],
            encoder=_copied(encoder[0]),
            solver=SolverMemory(*(part[:, :, 0].clone() for part in solver)),
        )

    def advance(
        self, codes: Sequence[Sequence[int]], memories: Sequence[FlowMemory], *, ends: bool
    ) -> Flowed:
        """The next codes of several streams, as many of each. Changes none of `memories`."""
        table = placed(codes, memories[0].speaker.device)
        encoded, encoder = self._encoder.encode(table, [m.encoder for m in memories], ends=ends)
        speakers = torch.stack([memory.speaker for memory in memories])
        given = [encoded, speakers[:, None].expand_as(encoded), torch.zeros_like(encoded)]
        mel, solver = self._solver.solve(torch.cat(given, -1), [m.solver for m in memories])
        return Flowed(mel.transpose(1, 2), encoder, solver)

    def kept(self, memory: FlowMemory, flowed: Flowed, row: int) -> FlowMemory:
        """What a stream keeps of `memory` and of row `row` of a chunk."""
        grown, prompt = flowed.encoder[row], memory.prompt
        new, convs = (part[:, :, row] for part in flowed.solver)
        return replace(
            memory,
            encoder=EncoderMemory(
                self._kept_codes(grown.codes, prompt),
                kept_frames([grown.frames], prompt),
                grown.convs.clone(),
            ),
            solver=SolverMemory(kept_frames([new, memory.solver.attention], prompt), convs.clone()),
        )


def _copied(memory: EncoderMemory) -> EncoderMemory:
    return EncoderMemory(memory.codes.clone(), memory.frames.clone(), memory.convs.clone())
