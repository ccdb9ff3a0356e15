"""A GPU without numbers: records what runs on it, from where, in which types and in how much memory.

Tensors of torch's FakeTensorMode claim to be on a GPU. They raise if devices mix, or if the host
would have to know a value. Three operations need a real GPU and are done in Python here: indexing
(its C++ part asks CUDA for the current device), attention (it chooses its kernel by the card; here
it is the kernel with a mask), and reads of the host, which are counted and return ones.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary, finalize

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig
from antiphon.inference_worker.engines.minicpmo.model.layer import set_quantized
from antiphon.inference_worker.engines.minicpmo.model.load import (
    assign_parameter,
    build_on_meta,
    compute_buffers,
    quantizable,
)
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import (
    QUANTIZERS,
    pack_int4,
)

GPU = torch.device("cuda", 0)
aten = torch.ops.aten
PRODUCTS = {
    aten.linear,
    aten.matmul,
    aten.dot,
    aten.mm,
    aten.addmm,
    aten.bmm,
    aten.conv1d,
    aten.conv2d,
}
FREE = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.dropout}
"""Operations without a launch (dropout: except while training)."""


class FakeGpu(TorchDispatchMode):
    """Counts operations since `clear`; `held` and `peak` are bytes of memory."""

    def __init__(self) -> None:
        super().__init__()
        self.held = self.peak = 0
        self._known: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self.clear()

    def clear(self) -> None:
        """Reset the counts; memory is unchanged."""
        self.launched = 0
        self.copies: list[str] = []
        self.reads = 0
        self.product_types: set[torch.dtype] = set()
        self.peak = self.held

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        out = func(*args, **given)
        made, sources = _tensors(out, GPU), _tensors((args, given))
        old = {t.untyped_storage()._cdata for t in sources}
        fresh = any(t.untyped_storage()._cdata not in old for t in made)
        if made and (fresh or func._schema.is_mutable) and func.overloadpacket not in FREE:
            self._note(func, sources, given)
        for tensor in made:
            self._hold(tensor.untyped_storage())
        return out

    def _note(self, func: Any, sources: Sequence[Tensor], given: dict[str, Any]) -> None:
        self.launched += 1
        if any(t.device.type == "cpu" and t.dim() for t in sources):
            self.copies.append("without waiting" if given.get("non_blocking") else "waiting")
        if func.overloadpacket in PRODUCTS:
            self.product_types |= {t.dtype for t in sources}

    def read(self, tensor: Tensor) -> Any:
        """What a read of the host returns: ones."""
        self.reads += 1
        return np.ones(tensor.shape, dtype=int).tolist()

    def _hold(self, storage: torch.UntypedStorage) -> None:
        if storage in self._known:
            return
        self._known[storage] = size = storage.nbytes()
        self.held += size
        self.peak = max(self.peak, self.held)
        finalize(storage, self._release, size)

    def _release(self, size: int) -> None:
        self.held -= size


def _tensors(tree: Any, device: torch.device | None = None) -> list[Tensor]:
    found = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
    return [t for t in found if device is None or t.device == device]


class _InPython(TorchFunctionMode):
    """Operations that a real GPU does below Python."""

    def __torch_function__(
        self, func: Callable[..., Any], _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention:
            return _attend(*args, **given)
        if func is Tensor.__getitem__:
            return _indexed(*args)
        if func is Tensor.copy_:
            return aten.copy_(*args, **given)
        if func is Tensor.__invert__:
            return aten.bitwise_not(*args)
        if func is Tensor.contiguous and not args[0].is_contiguous():
            return args[0].clone(memory_format=torch.contiguous_format)
        if func is Tensor.__setitem__:
            return _write(*args)
        if func is torch.tensor and isinstance(args[0], list | tuple):
            # With its numbers, torch would try to send it to a real GPU.
            return torch.zeros(np.shape(args[0]), **given)
        return func(*args, **given)


def _attend(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **given: Any
) -> Tensor:
    """Checks what the kernel with a mask requires of its arguments, and returns its result."""
    assert not given.get("is_causal")
    assert not given.get("dropout_p")
    assert query.shape[1] == key.shape[1], "the kernel would copy the keys for every query head"
    for tensor in (query, key, value):
        assert tensor.stride(-1) == 1
        assert tensor.shape[-1] % 8 == 0
        assert tensor.storage_offset() % 8 == 0
        assert tensor.dtype == query.dtype
    bias = attn_mask
    if bias is not None:
        assert bias.dtype == query.dtype, "each layer would convert the mask again"
        assert bias.stride(-1) == 1
        bias = bias.expand(*query.shape[:3], key.shape[2])
    out: Tensor = aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, False, scale=given.get("scale")
    )[0]
    return out


def _indexed(tensor: Tensor, key: Any) -> Tensor:
    view, tensors = _viewed(tensor, key)
    return aten.index(view, tensors) if tensors else view


def _write(tensor: Tensor, key: Any, new: Any) -> None:
    view, tensors = _viewed(tensor, key)
    if tensors:
        aten.index_put_(view, tensors, new)
    else:
        aten.copy_(view, new) if isinstance(new, Tensor) else aten.fill_(view, new)


def _viewed(tensor: Tensor, key: Any) -> tuple[Tensor, list[Tensor | None]]:
    """Apply the plain parts of `key`; returns the view and the index tensors by dimension."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if Ellipsis in [k for k in keys if not isinstance(k, Tensor)]:
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        taken = sum(k is not None for k in keys) - 1
        keys[at : at + 1] = [slice(None)] * (tensor.dim() - taken)
    dim, tensors = 0, list[Tensor | None]()
    for k in keys:
        if isinstance(k, int):
            tensor = tensor.select(dim, k)
            continue
        if k is None:
            tensor = tensor.unsqueeze(dim)
        elif isinstance(k, slice):
            tensor = aten.slice(tensor, dim, k.start, k.stop, k.step or 1)
        tensors.append(k if isinstance(k, Tensor) else None)
        dim += 1
    return tensor, tensors if any(t is not None for t in tensors) else []


def _without_numbers(buffer: Sequence[float], *, dtype: torch.dtype) -> Tensor:
    return torch.zeros(len(buffer), dtype=dtype)


@contextmanager
def fake_gpu() -> Iterator[FakeGpu]:
    """Inside the context, tensors made on `GPU` are fake, and the yielded object counts."""
    gpu = FakeGpu()
    with ExitStack() as stack:
        for mode in (FakeTensorMode(), gpu, _InPython()):
            stack.enter_context(mode)
        # Modes do not see this class; its Python implementation is patched.
        stack.enter_context(patch.object(FakeTensor, "tolist", lambda tensor: gpu.read(tensor)))
        stack.enter_context(patch.object(torch, "frombuffer", _without_numbers))
        yield gpu


def network_on(config: ModelConfig, *, fused: bool, weights: str = "plain") -> MiniCPMO:
    """The network as `load` places it, bfloat16 on the fake GPU. Call it inside `fake_gpu`.

    `weights` are plain, packed with 4 bits, or quantised at load as int8 or fp8.
    """
    network = build_on_meta(config, fused=fused)
    linear = quantizable(network)
    for name, parameter in list(network.named_parameters()):
        weight = torch.zeros(parameter.shape, dtype=torch.bfloat16, device=GPU)
        owner = linear.get(name.removesuffix(".weight"))
        if owner is not None and weights in QUANTIZERS:
            set_quantized(owner, QUANTIZERS[weights](weight))  # type: ignore[index]
        elif owner is not None and weights == "packed" and owner is not network.llm.lm_head:
            scales = torch.zeros(
                len(weight), weight.shape[1] // 128, dtype=torch.float16, device=GPU
            )
            set_quantized(owner, pack_int4(weight, scales, torch.zeros_like(scales)))
        else:
            assign_parameter(network, name, weight)
        del weight
    compute_buffers(network, GPU)
    return network.eval().requires_grad_(False)
