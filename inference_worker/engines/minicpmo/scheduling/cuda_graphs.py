"""CUDA graphs of the steps in every unit: one launch each, so that the GPU does not wait for Python."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

Inputs = tuple[Tensor, ...]
ForwardFunction = Callable[..., Tensor]
"""Inputs to hidden states."""

Output = TypeVar("Output", Tensor, tuple[Tensor, ...])

WARM_UP_RUNS = 3


@dataclass(slots=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    inputs: Inputs
    output: Tensor | tuple[Tensor, ...]

    def __call__(self, inputs: Inputs) -> Any:
        for kept, new in zip(self.inputs, inputs, strict=True):
            kept.copy_(new)
        self.graph.replay()
        # The next replay overwrites the output, but sessions keep rows of it.
        if isinstance(self.output, Tensor):
            return self.output.clone()
        return tuple(part.clone() for part in self.output)


class GraphPool:
    """One graph per shape. `replayed` and `eager` count how steps ran, if it is enabled."""

    def __init__(self, device: torch.device, *, enabled: bool) -> None:
        self.enabled = enabled
        self.replayed = 0
        self.eager = 0
        self._captured: dict[Hashable, _Captured] = {}
        self._memory = torch.cuda.graph_pool_handle() if enabled else None
        # One stream for all graphs: cuBLAS keeps a workspace for each stream it has run on.
        self._stream = torch.cuda.Stream(device) if enabled else None  # type: ignore[no-untyped-call]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._captured

    def drop(self, key: Hashable) -> None:
        """Free the graph of this shape, if there is one."""
        self._captured.pop(key, None)

    def clear(self) -> None:
        """Free all graphs."""
        self._captured.clear()

    def run(self, key: Hashable, inputs: Inputs, forward: Callable[..., Output]) -> Output:
        """Run the captured graph of this shape, or `forward` if none was captured."""
        captured = self._captured.get(key)
        if captured is None:
            self.eager += self.enabled
            return forward(*inputs)
        self.replayed += 1
        output: Output = captured(inputs)
        return output

    def capture(self, key: Hashable, inputs: Inputs, forward: Callable[..., Output]) -> None:
        """Capture `forward` at the shape of `inputs`, all of whose writes must be discarded ones."""
        stream = self._stream
        assert stream is not None
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_RUNS):
                forward(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory, stream=stream):
            output = forward(*inputs)
        self._captured[key] = _Captured(graph, inputs, output)
