"""Audio codes to mel for several streams: the conformer encoder, then the solver it conditions."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.token2wav.solver import Solver, SolverState
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import ChunkGraphs

RECENT_FRAMES = 100
"""Of a turn, the keys and values of the voice and of this many last frames are retained."""

CONV_FRAMES = 2
"""Frames of the first of the two convolutions in the state."""


def longest_past(voice_seconds: float) -> int:
    """The largest even number of frames, 50 per second, that a stream retains."""
    return 2 * math.ceil(voice_seconds * 25) + RECENT_FRAMES


@dataclass(frozen=True, slots=True)
class EncoderState:
    """The encoder state of one stream.

    Keys and values (layers, heads, entries, 2 x dim) at 25 and at 50 per second, and the last
    inputs of its convolutions (channels, 6).
    """

    codes: Tensor
    frames: Tensor
    convs: Tensor


class BatchedEncoder:
    """Runs the modules of `flow.encoder`, which accept any number of rows.

    Positions are relative and count from the end, so states of different lengths are padded on the
    left and masked.
    """

    def __init__(self, flow: Any, graphs: ChunkGraphs) -> None:
        self._flow = flow
        self._encoder = flow.encoder
        self._graphs = graphs
        self._lookahead = int(flow.encoder.pre_lookahead_layer.pre_lookahead_len)

    def initial_state(self) -> EncoderState:
        encoder, weight = self._encoder, self._encoder.after_norm.weight
        attention = encoder.encoders[0].self_attn
        shape = (attention.h, 0, 2 * attention.d_k)
        return EncoderState(
            weight.new_zeros(len(encoder.encoders), *shape),
            weight.new_zeros(len(encoder.up_encoders), *shape),
            weight.new_zeros(encoder.output_size(), CONV_FRAMES + 2 * encoder.up_layer.stride),
        )

    def encode(
        self,
        codes: Tensor,
        states: Sequence[EncoderState],
        *,
        ends: bool,
        rows: int | None = None,
    ) -> tuple[Tensor, list[EncoderState]]:
        """From (streams, codes) with lookahead to (streams, frames, mels), and the extended states.

        The end of a turn has no lookahead. The states are views of the batch. With `rows` the batch
        runs in the graph of this many streams.
        """
        streams = len(states)
        new = codes.shape[1] - (0 if ends else self._lookahead)
        if rows is None:
            lengths = [max(m.shape[-2] for m in part) for part in _entries(states)]
            inputs = self._inputs(codes, states, lengths, new, masked=False)
            encoded, *grown = self._forward(*inputs, ends=ends)
        else:
            lengths = [self._graphs.past // 2, self._graphs.past]
            padded = [*states, *[self.initial_state()] * (rows - streams)]
            codes = pad(codes, (0, 0, 0, rows - streams))
            inputs = self._inputs(codes, padded, lengths, new, masked=True)
            encoded, *grown = self._graphs.run(("encoder", rows), inputs, self._forward)
        return encoded[:streams], [
            EncoderState(
                grown[0][:, row, :, lengths[0] - state.codes.shape[-2] :],
                grown[1][:, row, :, lengths[1] - state.frames.shape[-2] :],
                grown[2][row],
            )
            for row, state in enumerate(states)
        ]

    def _inputs(
        self,
        codes: Tensor,
        states: Sequence[EncoderState],
        lengths: Sequence[int],
        new: int,
        *,
        masked: bool,
    ) -> tuple[Tensor, ...]:
        """The arguments of `_forward`: entries padded to `lengths`, and masks of the padding."""
        padded, masks = list[Tensor](), list[Tensor]()
        for part, length, grown in zip(_entries(states), lengths, (new, 2 * new), strict=True):
            gaps = [length - m.shape[-2] for m in part]
            whole = [
                pad(m, (0, 0, gap, 0)) if gap else m for m, gap in zip(part, gaps, strict=True)
            ]
            padded.append(torch.stack(whole, 1))
            masks.append(_visible(gaps, length + grown, codes.device, masked=masked))
        return codes, torch.stack([state.convs for state in states]), *padded, *masks

    def _forward(
        self,
        codes: Tensor,
        convs: Tensor,
        by_code: Tensor,
        by_frame: Tensor,
        code_mask: Tensor,
        frame_mask: Tensor,
        *,
        ends: bool = False,
    ) -> tuple[Tensor, ...]:
        """Mel conditions (streams, frames, mels); entries of all layers at 25 and at 50 per second,
        old and new; and the last inputs of the convolutions.
        """
        encoder = self._encoder
        x, _, _ = encoder.embed(self._flow.input_embedding(codes), None)
        if ends:
            x = pad(x, (0, 0, 0, self._lookahead))
        conv, up_conv = convs[..., :CONV_FRAMES], convs[..., CONV_FRAMES:]
        x, conv = encoder.pre_lookahead_layer.forward_chunk(x, cache=conv)
        x, by_code = self._attend(encoder.encoders, x, by_code, code_mask)
        x, _, up_conv = encoder.up_layer.forward_chunk(
            x.transpose(1, 2).contiguous(), None, cache=up_conv
        )
        x, _, _ = encoder.up_embed(x.transpose(1, 2).contiguous(), None)
        x, by_frame = self._attend(encoder.up_encoders, x, by_frame, frame_mask)
        if encoder.normalize_before:
            x = encoder.after_norm(x)
        return self._flow.encoder_proj(x), by_code, by_frame, torch.cat([conv, up_conv], 2)

    def _attend(
        self, layers: Iterable[Any], x: Tensor, before: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """From (streams, new, channels) to the same, and the entries of all layers, old and new."""
        length = before.shape[-2] + x.shape[1]
        positions = self._encoder.embed.position_encoding(offset=None, size=length)
        grown = []
        for layer, entries in zip(layers, before, strict=True):
            x, _, entries, _ = layer(x, mask, positions, att_cache=entries)
            grown.append(entries)
        return x, torch.stack(grown)


def _entries(states: Sequence[EncoderState]) -> tuple[list[Tensor], list[Tensor]]:
    return [state.codes for state in states], [state.frames for state in states]


def _visible(missing: Sequence[int], length: int, device: torch.device, *, masked: bool) -> Tensor:
    """(streams, 1, length), True for entries of the stream; empty if all are and not `masked`."""
    if not masked and not any(missing):
        return torch.zeros((0, 0, 0))
    gaps = device_tensor(missing, device)
    return (torch.arange(length, device=device) >= gaps[:, None]).unsqueeze(1)


RetainCodes = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True, slots=True)
class FlowState:
    """The state of a stream. `speaker` (mels,) and `prompt`, in frames, belong to its voice."""

    speaker: Tensor
    prompt: int
    encoder: EncoderState
    solver: SolverState


@dataclass(frozen=True, slots=True)
class FlowResult:
    """A chunk of mel (streams, mels, frames), and the extended states of the streams."""

    mel: Tensor
    encoder: list[EncoderState]
    solver: SolverState


class Flow:
    """The package's `flow`. Releases differ in what is retained at 25 entries per second."""

    def __init__(
        self,
        flow: Any,
        steps: int,
        retained_codes: RetainCodes,
        retained: torch.dtype,
        graphs: ChunkGraphs,
    ) -> None:
        self._flow = flow
        self._graphs = graphs
        self._encoder = BatchedEncoder(flow, graphs)
        self._solver = Solver(flow.decoder, steps, retained, graphs)
        self._retained_codes = retained_codes
        self.lookahead = int(flow.pre_lookahead_len)
        self.codes = int(flow.input_embedding.num_embeddings)

    def start(self, codes: Tensor, speaker: Tensor, mel: Tensor) -> FlowState:
        """A voice: codes (1, n) with lookahead, speaker embedding (1, m), mel (1, frames, mels)."""
        own = self._flow.spk_embed_affine_layer(normalize(speaker, dim=1))
        encoded, encoder = self._encoder.encode(codes, [self._encoder.initial_state()], ends=False)
        given = torch.cat([encoded, own[:, None].expand_as(encoded), mel], -1)
        _, solver = self._solver.solve(given, [self._solver.initial_state()])
        return FlowState(
            speaker=own[0],
            prompt=mel.shape[1],
            encoder=_copied(encoder[0]),
            solver=SolverState(*(part[:, :, 0].clone() for part in solver)),
        )

    def advance(
        self, codes: Sequence[Sequence[int]], states: Sequence[FlowState], *, ends: bool
    ) -> FlowResult:
        """Process the next codes of several streams, equally many of each. Does not change `states`."""
        flat = (code for own in codes for code in own)
        table = device_tensor(flat, states[0].speaker.device).view(len(codes), -1)
        past = max(
            max(
                m.solver.attention.shape[-2],
                m.encoder.frames.shape[-2],
                2 * m.encoder.codes.shape[-2],
            )
            for m in states
        )
        new = table.shape[1] - self.lookahead
        rows = None if ends else self._graphs.rows(len(states), new, past)
        encoders = [m.encoder for m in states]
        encoded, encoder = self._encoder.encode(table, encoders, ends=ends, rows=rows)
        speakers = torch.stack([state.speaker for state in states])
        given = [encoded, speakers[:, None].expand_as(encoded), torch.zeros_like(encoded)]
        mel, solver = self._solver.solve(torch.cat(given, -1), [m.solver for m in states], rows)
        return FlowResult(mel.transpose(1, 2), encoder, solver)

    def next_state(self, state: FlowState, result: FlowResult, row: int) -> FlowState:
        """The state of a stream after row `row` of a chunk."""
        grown, prompt = result.encoder[row], state.prompt
        new, convs = (part[:, :, row] for part in result.solver)
        return replace(
            state,
            encoder=EncoderState(
                self._retained_codes(grown.codes, prompt),
                frames_to_retain([grown.frames], prompt),
                grown.convs.clone(),
            ),
            solver=SolverState(
                frames_to_retain([new, state.solver.attention], prompt), convs.clone()
            ),
        )


def slice_entries(parts: Sequence[Tensor], start: int, stop: int) -> list[Tensor]:
    """Views of `parts`, concatenated along the last dimension but one, from `start` to `stop`."""
    views, begins = [], 0
    for part in parts:
        length = part.shape[-2]
        first, end = max(0, start - begins), min(length, stop - begins)
        if first < end:
            views.append(part[..., first:end, :])
        begins += length
    return views


def without_middle(parts: Sequence[Tensor], head: int, tail: int) -> list[Tensor]:
    """Views of `parts` without the entries between the first `head` and the last `tail`."""
    length = sum(part.shape[-2] for part in parts)
    if length <= head + tail:
        return list(parts)
    return slice_entries(parts, 0, head) + slice_entries(parts, length - tail, length)


def frames_to_retain(parts: Sequence[Tensor], prompt: int) -> Tensor:
    """A copy of the retained entries at 50 per second, for a voice of `prompt` frames."""
    return torch.cat(without_middle(parts, prompt, RECENT_FRAMES), -2)


def codes_to_retain(entries: Tensor, prompt: int) -> Tensor:
    """A copy of the retained entries at 25 per second, since release 1.0.7."""
    return torch.cat(without_middle([entries], prompt // 2, RECENT_FRAMES // 2), -2)


def codes_to_retain_until_1_0_6(entries: Tensor, prompt: int) -> Tensor:
    """A copy of the retained entries at 25 per second, up to release 1.0.6.

    These releases cut two copies as if they were at 50 per second and keep the first half. A voice
    of two seconds or more therefore keeps the beginning of the turn, not its end.
    """
    pieces = without_middle([entries, entries], prompt, RECENT_FRAMES)
    half = sum(piece.shape[-2] for piece in pieces) // 2
    return torch.cat(slice_entries(pieces, 0, half), -2)


def _copied(state: EncoderState) -> EncoderState:
    return EncoderState(state.codes.clone(), state.frames.clone(), state.convs.clone())
