"""CUDA graphs of the vocoder: the stages of a whole chunk of 25 codes, for a few numbers of streams.

Each stage (encoder, solver step, audio) is a function of tensors of a fixed shape. A batch is padded
with silent streams to the next captured number, and the past of each stream to the longest that a
voice permits. Every other batch runs without graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import structlog
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import (
    GraphPool,
    Inputs,
    Output,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import CHUNK_CODES

log = structlog.get_logger()

MAX_REPLAY_ERROR = 1e-3
"""Largest difference between a replay and the same operations without a graph, relative to their range."""


class ChunkGraphs:
    """Graphs of all stages for batches of `sizes` streams, ascending; empty for none. `past` is the
    largest number of frames before a chunk.

    Nothing is captured except inside `capturing`. If a capture fails, all graphs are dropped, and the
    vocoder runs without them. `buffers` are memory that graphs share beside their inputs.
    """

    def __init__(self, device: torch.device, *, past: int, sizes: tuple[int, ...]) -> None:
        self.past = past
        self.sizes = sizes
        self.buffers: dict[str, Tensor] = {}
        self._pool = GraphPool(device, enabled=bool(sizes))
        self._capturing = False
        self._known_reasons = set[str]()

    @property
    def replayed(self) -> int:
        """How many stages ran as a graph."""
        return self._pool.replayed

    def rows(self, streams: int, new_codes: int, past: int) -> int | None:
        """The streams of the graph in which a batch runs; None if there is none.

        `past` is the largest number of frames before this chunk.
        """
        if not self.sizes:
            return None
        if past > self.past:
            self._report(f"a stream retains {past} frames, and graphs have {self.past}")
        elif streams > self.sizes[-1]:
            self._report(f"the largest graph has {self.sizes[-1]} streams")
        elif new_codes != CHUNK_CODES:
            self._report(f"graphs have {CHUNK_CODES} codes")
        else:
            return self.size(streams)
        return None

    def size(self, streams: int) -> int | None:
        """The smallest captured number of streams that is not below `streams`; None if there is none."""
        return next((size for size in self.sizes if size >= streams), None)

    def has(self, key: Hashable) -> bool:
        """Whether `run` replays or captures this stage."""
        return self._capturing or key in self._pool

    def run(self, key: Hashable, inputs: Inputs, forward: Callable[..., Output]) -> Output:
        """The result of `forward`, from its graph if there is one."""
        if self._capturing and key not in self._pool:
            self._capture(key, inputs, forward)
        return self._pool.run(key, inputs, forward)

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Inside the context, each stage that has no graph is captured when it first runs."""
        self._capturing = bool(self.sizes)
        try:
            yield
        finally:
            self._capturing = False
            if not self.sizes:
                self.buffers.clear()

    def _report(self, reason: str) -> None:
        """Log why a batch runs without graphs, once for each reason."""
        if reason not in self._known_reasons and not self._capturing:
            self._known_reasons.add(reason)
            log.info("vocoder_chunk_without_graph", reason=reason)

    def _capture(self, key: Hashable, inputs: Inputs, forward: Callable[..., Output]) -> None:
        try:
            self._pool.capture(key, tuple(each.clone() for each in inputs), forward)
            error = _apart(self._pool.run(key, inputs, forward), forward(*inputs))
            if not error <= MAX_REPLAY_ERROR:
                raise RuntimeError(f"the graph of {key} computes another result ({error:.1e})")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001  # the vocoder works without graphs
            self._drop(str(error))

    def _drop(self, reason: str) -> None:
        log.warning("vocoder_graphs_off", reason=reason, consequence="a chunk takes more launches")
        self._capturing, self.sizes = False, ()
        self._pool.clear()


def _apart(got: Output, want: Output) -> float:
    """Largest difference, relative to the range of each tensor of `want`."""
    pairs = [(got, want)] if isinstance(want, Tensor) else zip(got, want, strict=True)
    return max(
        float((a - b).abs().max() / b.abs().max().clamp(min=1e-6)) for a, b in pairs if b.numel()
    )
