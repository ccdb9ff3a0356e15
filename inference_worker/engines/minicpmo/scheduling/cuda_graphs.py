"""CUDA graphs of the steps in every unit and of the vocoder: one launch each, so that the GPU does not wait
for Python.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

Inputs = tuple[Tensor, ...]
ForwardFunction = Callable[..., Tensor]
"""Inputs to hidden states."""

Output = TypeVar("Output", Tensor, tuple[Tensor, ...])

WARM_UP_RUNS = 3

MAX_REPLAY_ERROR = 1e-3
"""Largest difference between a replay and the same operations without a graph, relative to their range."""

MAX_BATCHED_TOKENS = 32
"""Longer pieces run alone in padded batches: each fills the device."""


def bucket(count: int) -> int:
    """The smallest power of two that is at least `count`."""
    return 1 << max(0, count - 1).bit_length()


def ragged_bucket(count: int) -> int:
    """The tokens that a ragged batch of `count` is padded to: above 32 also three quarters of a
    power of two.
    """
    whole = bucket(count)
    return whole * 3 // 4 if whole > MAX_BATCHED_TOKENS and count <= whole * 3 // 4 else whole


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
    """One graph per shape. `replayed` and `eager` count how steps ran, if it is enabled.

    A shape is captured by `capture`, before steps run; or, inside `capturing`, when it first runs.
    """

    def __init__(self, device: torch.device, *, enabled: bool) -> None:
        self.enabled = enabled
        self._device = device
        self.replayed = 0
        self.eager = 0
        self._captured: dict[Hashable, _Captured] = {}
        self._failed: Callable[[str], None] | None = None
        self._memory = torch.cuda.graph_pool_handle() if enabled else None
        # One stream for all graphs: cuBLAS keeps a workspace for each stream it has run on.
        self._stream = torch.cuda.Stream(device) if enabled else None  # type: ignore[no-untyped-call]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._captured

    def drop(self, key: Hashable) -> None:
        """Free the graph of this shape, if there is one."""
        self._captured.pop(key, None)

    @property
    def is_capturing(self) -> bool:
        return self._failed is not None

    def has(self, key: Hashable) -> bool:
        """Whether `run` replays or captures this shape."""
        return self.is_capturing or key in self._captured

    @contextmanager
    def capturing(self, failed: Callable[[str], None]) -> Iterator[None]:
        """Inside the context, each shape that has no graph is captured when it first runs.

        If a capture fails or its replay differs, all graphs are dropped, and `failed` gets the reason.
        """
        self._failed = failed if self.enabled else None
        try:
            yield
        finally:
            self._failed = None

    def run(self, key: Hashable, inputs: Inputs, forward: Callable[..., Output]) -> Output:
        """Run the captured graph of this shape, or `forward` if none was captured."""
        if self._failed is not None and key not in self._captured:
            self._capture_and_compare(key, inputs, forward, self._failed)
        captured = self._captured.get(key)
        if captured is None:
            self.eager += self.enabled
            return forward(*inputs)
        self.replayed += 1
        output: Output = captured(inputs)
        return output

    def capture(self, key: Hashable, inputs: Inputs, forward: Callable[..., Output]) -> None:
        """Capture `forward` at the shape of `inputs`, all of whose writes must be discarded ones.

        After a failure, the stream and the allocator are as they were before.
        """
        stream, memory = self._stream, self._memory
        assert stream is not None
        assert memory is not None
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP_RUNS):
                forward(*inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph, outside = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, pool=memory, stream=stream):
                output = forward(*inputs)
        except BaseException:
            # If the capture itself is refused, torch stays on its stream, and the allocator keeps in the
            # pool what it frees later.
            torch.cuda.set_stream(outside)
            with suppress(RuntimeError):  # the allocator has left the pool
                torch._C._cuda_endAllocateToPool(self._device.index or 0, memory)  # noqa: SLF001
            raise
        self._captured[key] = _Captured(graph, inputs, output)

    def _capture_and_compare(
        self,
        key: Hashable,
        inputs: Inputs,
        forward: Callable[..., Output],
        failed: Callable[[str], None],
    ) -> None:
        try:
            self.capture(key, tuple(each.clone() for each in inputs), forward)
            error = _apart(self.run(key, inputs, forward), forward(*inputs))
            if not error <= MAX_REPLAY_ERROR:
                raise RuntimeError(f"the graph of {key} computes another result ({error:.1e})")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001  # the steps work without graphs
            self._failed = None
            self._captured.clear()
            failed(str(error))


def _apart(got: Output, want: Output) -> float:
    """Largest difference, relative to the range of each tensor of `want`."""
    pairs = [(got, want)] if isinstance(want, Tensor) else zip(got, want, strict=True)
    return max(
        float((a - b).abs().max() / b.abs().max().clamp(min=1e-6)) for a, b in pairs if b.numel()
    )
