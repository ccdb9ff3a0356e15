"""A layer of either decoder. Projections with a common input are one matrix product."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, silu

from antiphon.inference_worker.engines.minicpmo.model.attention import grouped_sdpa, rotate
from antiphon.inference_worker.engines.minicpmo.model.kv_cache import CacheWindow
from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import (
    QuantizedWeight,
    Weight,
    dequantize,
    join_quantized,
)
from antiphon.inference_worker.engines.types import EngineLoadError


@dataclass(frozen=True, slots=True)
class ForwardInputs:
    """What all layers share in one forward pass.

    `positions` (rows, new); `cosines` and `sines` (rows, new, 1, head_dim) rotate heads; `mask` is
    additive, (rows, 1, new, length), or None if the kernels do not need it.
    """

    positions: Tensor
    cosines: Tensor
    sines: Tensor
    mask: Tensor | None
    cache: CacheWindow


class TorchKernels:
    """The operations of a layer between its matrix products, and products with quantised weights,
    in torch, for any device.

    `ragged`: attention reads the cache of every token's slot in place. torch's attention copies the
    cache for each token of a ragged batch, so padded batches suit it better.
    """

    ragged: ClassVar[bool] = False

    def tile(self, group: int, tokens: int) -> int:  # noqa: ARG002
        """Tokens of a slot that attention processes together in a step of `tokens`, with `group` query
        heads per key head.
        """
        return 1

    def multiply(self, given: Tensor, weight: Weight) -> Tensor:
        """Matrix product of (..., inputs) with a weight (outputs, inputs): (..., outputs)."""
        if isinstance(weight, QuantizedWeight):
            given, weight = weight.ordered(given), dequantize(weight, given.dtype)
        return linear(given, weight)

    def add_norm(self, hidden: Tensor, update: Tensor, norm: nn.RMSNorm) -> tuple[Tensor, Tensor]:
        """The sum, and the sum normed: (rows, new, width) each."""
        total = hidden + update
        return total, norm(total)

    def rotate_and_store(
        self, joint: Tensor, attention: "SelfAttention", shared: ForwardInputs
    ) -> Tensor:
        """Norm and rotate projected heads, store keys and values in the cache; queries (rows, new,
        heads, dim).
        """
        sizes = attention.sizes
        counts = [sizes.query_heads, sizes.key_heads, sizes.key_heads]
        heads = joint.view(*joint.shape[:2], sum(counts), sizes.head_dim)
        queries, keys, values = torch.split(heads, counts, dim=2)
        if sizes.head_norms:
            queries, keys = attention.q_norm(queries), attention.k_norm(keys)
        turned = rotate(torch.cat([queries, keys], dim=2), shared.cosines, shared.sines)
        queries, keys = torch.split(turned, counts[:2], dim=2)
        shared.cache.store(torch.stack([keys, values], dim=2), attention.index)
        return queries

    def attend(self, queries: Tensor, attention: "SelfAttention", shared: ForwardInputs) -> Tensor:
        """Mix the values that each query sees: (rows, new, heads * dim)."""
        keys, values = shared.cache.read(attention.index)
        mixed, _ = grouped_sdpa(attention, queries.transpose(1, 2), keys, values, shared.mask)
        return mixed.flatten(2)

    def gate(self, joint: Tensor) -> Tensor:
        """SiLU of the first half times the second: (rows, new, 2 * n) to (rows, new, n)."""
        gates, fed = joint.chunk(2, dim=-1)
        return silu(gates) * fed


@dataclass(frozen=True, slots=True)
class LayerSizes:
    """Sizes of one decoder. `head_norms`: queries and keys are normed per head, as in Qwen3."""

    width: int
    intermediate: int
    query_heads: int
    key_heads: int
    head_dim: int
    eps: float
    head_norms: bool


class SelfAttention(nn.Module):
    """`self_attn.*`: grouped queries over a slotted cache."""

    joint: Weight

    def __init__(self, sizes: LayerSizes, index: int, kernels: TorchKernels) -> None:
        super().__init__()
        self.sizes = sizes
        self.index = index
        self.kernels = kernels
        queries, keys = sizes.query_heads * sizes.head_dim, sizes.key_heads * sizes.head_dim
        self.q_proj = nn.Linear(sizes.width, queries, bias=False)
        self.k_proj = nn.Linear(sizes.width, keys, bias=False)
        self.v_proj = nn.Linear(sizes.width, keys, bias=False)
        self.o_proj = nn.Linear(queries, sizes.width, bias=False)
        if sizes.head_norms:
            self.q_norm = nn.RMSNorm(sizes.head_dim, sizes.eps)
            self.k_norm = nn.RMSNorm(sizes.head_dim, sizes.eps)

    def join_projections(self) -> None:
        """Join the three projections of the input. Call it when the weights are loaded."""
        self.joint = join_weights([self.q_proj, self.k_proj, self.v_proj])

    def forward(self, normed: Tensor, shared: ForwardInputs) -> Tensor:
        """(rows, new, width) to the same."""
        joint = self.kernels.multiply(normed, self.joint)
        queries = self.kernels.rotate_and_store(joint, self, shared)
        mixed = self.kernels.attend(queries, self, shared)
        return self.kernels.multiply(mixed, self.o_proj.weight)


class FeedForward(nn.Module):
    """`mlp.*`: gated by SiLU."""

    joint: Weight

    def __init__(self, sizes: LayerSizes, kernels: TorchKernels) -> None:
        super().__init__()
        self.kernels = kernels
        self.gate_proj = nn.Linear(sizes.width, sizes.intermediate, bias=False)
        self.up_proj = nn.Linear(sizes.width, sizes.intermediate, bias=False)
        self.down_proj = nn.Linear(sizes.intermediate, sizes.width, bias=False)

    def join_projections(self) -> None:
        """Join both projections of the input. Call it when the weights are loaded."""
        self.joint = join_weights([self.gate_proj, self.up_proj])

    def forward(self, normed: Tensor) -> Tensor:
        """(rows, new, width) to the same."""
        gated = self.kernels.gate(self.kernels.multiply(normed, self.joint))
        return self.kernels.multiply(gated, self.down_proj.weight)


def set_quantized(linear: nn.Linear, weight: QuantizedWeight) -> None:
    """Replace the weight of `linear`. Only the kernels of a layer can multiply with it."""
    del linear.weight
    linear.weight = weight  # type: ignore[assignment]


class DecoderLayer(nn.Module):
    """`layers.*`, named as in the checkpoint; the decoder runs its parts."""

    def __init__(self, sizes: LayerSizes, index: int, kernels: TorchKernels) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(sizes.width, sizes.eps)
        self.self_attn = SelfAttention(sizes, index, kernels)
        self.post_attention_layernorm = nn.RMSNorm(sizes.width, sizes.eps)
        self.mlp = FeedForward(sizes, kernels)


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


def join_weights(parts: Sequence[nn.Linear]) -> Weight:
    """Join weights with a common input. Each weight becomes a view of the result and keeps its name.

    Quantised weights are moved. Raises EngineLoadError if they do not have one form.
    """
    weights: list[Weight] = [part.weight for part in parts]
    quantized = [weight for weight in weights if isinstance(weight, QuantizedWeight)]
    if quantized:
        alike = len(quantized) == len(parts) and len({weight.group for weight in quantized}) == 1
        if not alike or not all(_same(weight.order, quantized[0].order) for weight in quantized):
            raise EngineLoadError("projections with a common input must be quantised alike")
        for part in parts:
            del part.weight
        return join_quantized(quantized)
    joint = torch.cat([part.weight for part in parts])
    for part, rows in zip(parts, torch.split(joint, [p.out_features for p in parts]), strict=True):
        part.weight = nn.Parameter(rows, requires_grad=False)
    return joint
