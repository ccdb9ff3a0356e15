"""CUDA graphs on a CPU: the captured operations run again on the same tensors, without any Python.

As with a real graph, a replay only knows the memory it was captured with. A number read from the
host, or a tensor that was replaced since, still has its value at capture.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from antiphon.inference_worker.engines.minicpmo.scheduling import model_runner

DROPPING = {torch.ops.aten.scaled_dot_product_attention, torch.ops.aten.dropout}
"""Operations that only draw while training."""


class CpuGraph(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self._ops: list[tuple[Any, Any, Any, list[tuple[int, Tensor]]]] = []

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func.overloadpacket is torch.ops.aten.istft:  # in inference mode it arrives whole
            with self:
                return func.decompose(*args, **given)
        may_draw = torch.Tag.nondeterministic_seeded in func.tags
        assert not may_draw or func.overloadpacket in DROPPING, f"{func} draws"
        assert torch.Tag.data_dependent_output not in func.tags, f"{func} is read by the host"
        assert torch.Tag.dynamic_output_shape not in func.tags, f"{func} has any shape"
        out = func(*args, **given)
        assert not isinstance(out, bool | int | float), f"{func} is read by the host"
        kept = _fresh(out, (args, given))
        if kept or func._schema.is_mutable:  # a view shows the same memory at each replay
            self._ops.append((func, args, given, kept))
        return out

    def replay(self) -> None:
        """Run all operations again in place."""
        for func, args, given, kept in self._ops:
            again = _tensors(func(*args, **given))
            for place, old in kept:
                old.copy_(again[place])


class EmptyGraph:
    """Records nothing: for tensors without numbers, of which only the memory counts."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_error: object) -> None: ...

    def replay(self) -> None: ...


class NoStream:
    """Replaces torch.cuda.Stream: a CPU has one order of work."""

    def __init__(self, _device: object = None) -> None:
        pass

    def wait_stream(self, _other: object) -> None: ...


@contextmanager
def recording(graph: CpuGraph | EmptyGraph, *, pool: object, stream: object) -> Iterator[None]:
    assert pool is not None
    assert stream is not None
    with graph:
        yield


def use_cpu_graphs(
    monkeypatch: pytest.MonkeyPatch, graph: type[CpuGraph | EmptyGraph] = CpuGraph
) -> None:
    """Let GraphPool capture on the CPU. Pictures have no graphs: their capture takes seconds there."""
    monkeypatch.setattr(model_runner, "PICTURE_COUNTS", ())
    stand_ins = {
        "CUDAGraph": graph,
        "Stream": NoStream,
        "current_stream": NoStream,
        "graph": recording,
        "graph_pool_handle": object,
        "set_stream": lambda _stream: None,
        "stream": lambda _stream: nullcontext(),
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)


def _tensors(out: Any) -> list[Tensor]:
    if isinstance(out, Tensor):
        return [out]
    return [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]


def _fresh(out: Any, given: Any) -> list[tuple[int, Tensor]]:
    """Tensors of `out` that do not share memory with `given`, and their places."""
    old = {t.untyped_storage()._cdata for t in _tensors(given)}
    made = enumerate(_tensors(out))
    return [(place, t) for place, t in made if t.untyped_storage()._cdata not in old]
