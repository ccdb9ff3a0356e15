"""Draws audio codes: one per session, or several without the host, each fed as soon as it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.model.decoder import SpeechModel
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import (
    ForwardFunction,
    GraphPool,
    Inputs,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    MIN_CANDIDATES,
    NEVER,
    draw_index,
    not_finite_error,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.slotted_transformer import (
    BatchShape,
    SlottedTransformer,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_PER_STEP,
    PENALTY_CODES,
    CodeRow,
    DecodeCodes,
    SpeechSettings,
)

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
        with torch.cuda.stream(self.stream):
            # The only point where the host waits for the device.
            table = self.codes.tolist()
        found = [table[row] for row in self.rows]
        return [codes if _is_finite(codes) else not_finite_error() for codes in found]


def _is_finite(codes: int | list[int]) -> bool:
    return (codes if isinstance(codes, int) else min(codes)) >= 0


class CodeDecoder:
    """The speech model with its draws. With CUDA graphs, a step of `per_step` codes is one graph unless
    top-k or top-p apply: a sort may not be capturable.
    """

    def __init__(
        self,
        model: SpeechModel,
        transformer: SlottedTransformer,
        graphs: GraphPool,
        per_step: int = CODES_PER_STEP,
    ) -> None:
        self._per_step = per_step
        self._model = model
        self._transformer = transformer
        self._graphs = graphs
        self._codes = len(model.head_weight)
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
        restricted = steps[0].restricted
        forward = self._forward_of(shape, count, restricted=restricted)
        if restricted:
            return forward(*inputs), rows
        return self._graphs.run((self, shape, count), inputs, forward), rows

    def capture(self, slots: int) -> int:
        """Capture a step of `per_step` codes at every shape of up to `slots` sessions; returns
        their number.
        """
        shapes = self._transformer.token_shapes(slots)
        # The largest first: all others fit into the memory that it reserves.
        for shape in sorted(shapes, key=lambda s: s.tokens * s.length, reverse=True):
            inputs = self.discarded_inputs(shape)
            forward = self._forward_of(shape, self._per_step, restricted=False)
            self._graphs.capture((self, shape, self._per_step), inputs, forward)
        return len(shapes)

    def discarded_inputs(self, shape: BatchShape) -> Inputs:
        """Input that does not change the cache."""
        tokens = self._transformer.discarded_tokens(shape)
        return self._inputs([_NO_STEP] * shape.rows, tokens, self._per_step)

    def _inputs(self, steps: Sequence[DecodeCodes], tokens: Tensor, count: int) -> Inputs:
        """Codes and recent codes (rows, 1 + n), tokens, settings and draws (rows, n), in three copies."""
        recent, settings = list[list[int]](), list[tuple[float, ...]]()
        for step in steps:
            codes = list(step.row.codes[-PENALTY_CODES:])
            recent.append([step.code, *[self._codes] * (PENALTY_CODES - len(codes)), *codes])
            columns = _columns(step.row, step.held, 0.0, self._codes)
            settings.append((*(step.draws or (0.0,) * count), *columns))
        floats = device_tensor(settings, self._device, torch.float32)
        return device_tensor(recent, self._device), tokens, floats

    def _forward_of(self, shape: BatchShape, count: int, *, restricted: bool) -> ForwardFunction:
        decode = self._transformer.forward_of(shape)
        capacity = self._transformer.cache.positions

        def forward(codes: Tensor, tokens: Tensor, settings: Tensor) -> Tensor:
            """Codes (rows, count)."""
            code, recent, drawn = codes[:, 0], codes[:, 1:], list[Tensor]()
            draws, table = settings[:, :count], settings[:, count:]
            for n in range(count):
                hidden = decode(self._model.embed_codes(code)[:, None], tokens)[:, 0]
                logits = self._model.logits(hidden).float()
                drawn.append(_draw(logits, table, recent, draws[:, n], n, restricted=restricted))
                code = drawn[-1].clamp(min=0)
                recent = torch.cat([recent[:, 1:], code[:, None]], dim=1)
                positions, writes, slots, tiles = tokens.unbind()
                # Past the end of the cache, nothing is written.
                positions = (positions + 1).clamp(max=capacity - 1)
                tokens = torch.stack([positions, (writes + 1).clamp(max=capacity), slots, tiles])
            return torch.stack(drawn, dim=1)

        return forward


def code_probabilities(logits: Tensor, rows: Sequence[CodeRow]) -> Tensor:
    """The distribution of the draw for raw `logits` (rows, codes). The end code is the last."""
    table, recent, restricted = _tables(rows, logits)
    return _chances(logits, table, recent, restricted=restricted)


def _chances(
    logits: Tensor, table: Tensor, recent: Tensor, drawn: int = 0, *, restricted: bool
) -> Tensor:
    """`table` has the rows of `_columns`; `recent` are the codes that the penalty counts, padded with
    the number of codes; `drawn` codes were drawn with this table before.
    """
    scores = logits / table[:, :1]
    width = scores.shape[1]
    counts = torch.zeros(len(scores), width + 1, dtype=torch.long, device=scores.device)
    counts.scatter_add_(1, recent, torch.ones_like(recent))
    factors = table[:, 6:].gather(1, counts[:, :width])
    scores = torch.where(scores < 0, scores * factors, scores / factors)
    if restricted:
        scores = _restrict(scores, table[:, 4], table[:, 5])
    scores[:, -1] = scores[:, -1].masked_fill(table[:, 1] > drawn, NEVER)
    return scores.softmax(dim=-1)


def _tables(rows: Sequence[CodeRow], logits: Tensor) -> tuple[Tensor, Tensor, bool]:
    """The columns and the recent codes of `rows`, and whether top-k or top-p apply to any."""
    width = logits.shape[1]
    columns = [_columns(row, not row.may_end, row.draw, width) for row in rows]
    table = device_tensor(columns, logits.device, logits.dtype)
    recent = [list(row.codes[-PENALTY_CODES:]) for row in rows]
    longest = max(map(len, recent))
    padded = [codes + [width] * (longest - len(codes)) for codes in recent]
    counted = device_tensor(padded, logits.device).view(len(rows), longest)
    return table, counted, any(map(_is_restricted, rows))


def _columns(row: CodeRow, held: int, draw: float, codes: int) -> tuple[float, ...]:
    """Temperature, draws in which the end is held, greedy, draw, top-k, top-p, and the powers of the
    penalty.
    """
    settings = row.settings
    limits, powers = _limits(row, codes), _powers(settings.repetition_penalty)
    return (settings.temperature, held, settings.greedy, draw, *limits, *powers)


def _is_restricted(row: CodeRow) -> bool:
    return len(row.codes) > 0 and bool(row.settings.top_k or row.settings.top_p)


def _limits(row: CodeRow, count: int) -> tuple[int, float]:
    """The number of candidates, and the share of the least likely codes that are dropped (-1: none)."""
    if not _is_restricted(row):
        return count, -1.0
    top_k, top_p = row.settings.top_k or count, row.settings.top_p
    return min(count, max(top_k, MIN_CANDIDATES)), 1 - top_p if top_p else -1.0


def _restrict(scores: Tensor, top_k: Tensor, dropped: Tensor) -> Tensor:
    """Top-p, then top-k, as transformers applies them: codes of equal score are retained together."""
    ranked, order = scores.sort(dim=-1, stable=True)
    count = scores.shape[1]
    rare = ranked.softmax(dim=-1).cumsum(dim=-1) <= dropped[:, None]
    rare[:, count - MIN_CANDIDATES :] = False
    least = ranked.gather(1, (count - top_k).long()[:, None])
    return scores.masked_fill((rare | (ranked < least)).gather(1, order.argsort(dim=-1)), NEVER)


@lru_cache(maxsize=1024)
def _powers(penalty: float) -> tuple[float, ...]:
    """Computed on the host: on the device, their last bit could depend on the other rows."""
    return tuple(penalty**n for n in range(PENALTY_CODES + 1))


def sample_codes(logits: Tensor, rows: Sequence[CodeRow]) -> Tensor:
    """One code per row; -1 for a row that is not finite."""
    table, recent, restricted = _tables(rows, logits)
    return _draw(logits, table, recent, table[:, 3], 0, restricted=restricted)


def _draw(
    logits: Tensor, table: Tensor, recent: Tensor, draws: Tensor, drawn: int, *, restricted: bool
) -> Tensor:
    """One code per row without the host; -1 for a row that is not finite. See `_chances`."""
    sound = logits.isfinite().all(dim=-1)
    chances = _chances(logits.nan_to_num(), table, recent, drawn, restricted=restricted)
    codes = torch.where(table[:, 2] > 0, chances.argmax(dim=-1), draw_index(chances, draws))
    return torch.where(sound, codes, -1)
