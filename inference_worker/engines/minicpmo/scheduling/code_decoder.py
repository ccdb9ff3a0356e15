"""Draws audio codes: one per session, or several without the host, each fed as soon as it is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.model.decoder import SpeechModel
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import (
    ForwardFunction,
    GraphPool,
    Inputs,
    bucket,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    PENALTY_CODES,
    CodeRow,
    CodeSettings,
    SpeechSettings,
    candidate_count,
    code_candidates,
    code_numbers,
    code_tables,
    draw_codes,
    not_finite_error,
    recent_codes,
    sample_codes,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.slotted_transformer import (
    BatchShape,
    SlottedTransformer,
    TokenPlaces,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import DecodeCodes

_NO_STEP = DecodeCodes(0, 0, 0, CodeRow(SpeechSettings(), (0,), may_end=True), ())
"""Fills the rows of a batch that no session uses."""


@dataclass(frozen=True, slots=True)
class DrawnCodes:
    """Codes (rows,) or (rows, count) that the device draws on `stream`, until `drawn`; the codes of
    each step are in one of `rows`.
    """

    codes: Tensor
    rows: Sequence[int]
    stream: torch.cuda.Stream | None = None
    drawn: torch.cuda.Event | None = None

    def is_ready(self) -> bool:
        """Whether `read` would return at once."""
        return self.drawn is None or self.drawn.query()  # type: ignore[no-untyped-call]

    def read(self) -> list[Any]:
        """A code or codes for each step; an exception for one that is not finite."""
        # The only points where the host waits for the device.
        if self.stream is None:
            drawn = self.codes.tolist()
        else:
            with torch.cuda.stream(self.stream):
                drawn = self.codes.tolist()
        found = [drawn[row] for row in self.rows]
        return [codes if _is_finite(codes) else not_finite_error() for codes in found]


def _is_finite(codes: int | list[int]) -> bool:
    return (codes if isinstance(codes, int) else min(codes)) >= 0


class CodeDecoder:
    """The speech model with its draws. With CUDA graphs, a step of `per_step` codes is one graph. It applies
    the top-k and top-p of written answers, which leave the codes of units unchanged, unless a row needs more
    candidates than usual.
    """

    def __init__(
        self,
        model: SpeechModel,
        transformer: SlottedTransformer,
        graphs: GraphPool,
        per_step: int,
    ) -> None:
        self._per_step = per_step
        self._model = model
        self._transformer = transformer
        self._graphs = graphs
        self._codes = len(model.head_weight)
        self._usual_candidates = candidate_count(1, self._codes)
        self._device = model.head_weight.device

    def run(self, steps: Sequence[DecodeCodes]) -> tuple[Tensor, list[int]]:
        """Codes (rows, count), -1 where a row is not finite, and the row of each step. All steps are
        of one group.
        """
        count = steps[0].size
        shape, tokens, rows = self._transformer.place_tokens(
            [(step.slot, step.start) for step in steps], count
        )
        by_row = dict(zip(rows, steps, strict=True))
        filled = [by_row.get(row, _NO_STEP) for row in range(shape.rows)]
        inputs = self._inputs(filled, tokens, count)
        candidates = max(code_candidates(step.row, self._codes) for step in steps)
        forward = self._forward_of(shape, count, candidates)
        if candidates > self._usual_candidates:
            return forward(*inputs), rows
        return self._graphs.run((self, shape, count), inputs, forward), rows

    def draw(self, logits: Tensor, rows: Sequence[CodeRow]) -> Tensor:
        """The first code after each condition, (rows,); -1 for a row that is not finite."""
        count, width = bucket(len(rows)), logits.shape[1]
        key = (self, "draw", count)
        if key not in self._graphs or any(
            code_candidates(row, width) > self._usual_candidates for row in rows
        ):
            return sample_codes(logits, rows)
        padding = count - len(rows)
        if padding:
            logits = torch.cat([logits, logits[-1:].expand(padding, -1)])
        inputs = self._draw_inputs(logits, [*rows, *[_NO_STEP.row] * padding])
        return self._graphs.run(key, inputs, self._draw_first)

    def _draw_inputs(self, logits: Tensor, rows: Sequence[CodeRow]) -> Inputs:
        table, recent = code_tables(rows, self._codes, self._device)
        return logits, recent, table

    def _draw_first(self, logits: Tensor, recent: Tensor, table: Tensor) -> Tensor:
        settings = CodeSettings.of(table)
        return draw_codes(logits, settings, recent, settings.draw, self._usual_candidates)

    def _capture_draws(self, slots: int) -> int:
        counts = sorted({bucket(n + 1) for n in range(slots)})
        for count in reversed(counts):
            logits = torch.zeros(count, self._codes, device=self._device)
            inputs = self._draw_inputs(logits, [_NO_STEP.row] * count)
            self._graphs.capture((self, "draw", count), inputs, self._draw_first)
        return len(counts)

    def capture(self, slots: int) -> int:
        """Capture a step of `per_step` codes at every shape of up to `slots` sessions, and the draw after
        conditions; returns the number of graphs.
        """
        shapes = self._transformer.token_shapes(slots)
        # The largest first: all others fit into the memory that it reserves.
        for shape in sorted(shapes, key=lambda s: s.tokens * s.length, reverse=True):
            inputs = self.discarded_inputs(shape)
            forward = self._forward_of(shape, self._per_step, self._usual_candidates)
            self._graphs.capture((self, shape, self._per_step), inputs, forward)
        return len(shapes) + self._capture_draws(slots)

    def discarded_inputs(self, shape: BatchShape) -> Inputs:
        """Input that does not change the cache."""
        tokens = self._transformer.discarded_tokens(shape)
        return self._inputs([_NO_STEP] * shape.rows, tokens, self._per_step)

    def _inputs(self, steps: Sequence[DecodeCodes], tokens: Tensor, count: int) -> Inputs:
        """Codes and recent codes (rows, 1 + n), tokens, settings and draws (rows, n), in three copies."""
        recent, numbers = list[int](), list[float]()
        for step in steps:
            recent += (step.code, *recent_codes(step.row, self._codes))
            numbers += step.draws or (0.0,) * count
            numbers += code_numbers(step.row, step.held, 0.0, self._codes)
        codes = device_tensor(recent, self._device)
        floats = device_tensor(numbers, self._device, torch.float32)
        return codes.view(len(steps), -1), tokens, floats.view(len(steps), -1)

    def _forward_of(self, shape: BatchShape, count: int, candidates: int) -> ForwardFunction:
        decode = self._transformer.forward_of(shape)
        capacity = self._transformer.cache.positions

        def forward(codes: Tensor, tokens: Tensor, settings: Tensor) -> Tensor:
            """Codes (rows, count)."""
            first, recent = torch.split(codes, [1, PENALTY_CODES], dim=1)
            draws, numbers = torch.split(settings, [count, settings.shape[1] - count], dim=1)
            code, table, drawn = first[:, 0], CodeSettings.of(numbers), list[Tensor]()
            for n in range(count):
                hidden = decode(self._model.embed_codes(code)[:, None], tokens)[:, 0]
                logits = self._model.logits(hidden).float()
                drawn.append(draw_codes(logits, table, recent, draws[:, n], candidates, n))
                code = drawn[-1].clamp(min=0)
                recent = torch.cat([recent[:, 1:], code[:, None]], dim=1)
                tokens = TokenPlaces.of(tokens).following(capacity)
            return torch.stack(drawn, dim=1)

        return forward
