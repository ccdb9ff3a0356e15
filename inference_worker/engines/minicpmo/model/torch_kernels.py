"""What a layer does between its products, in torch's own operations: for any device."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from antiphon.inference_worker.engines.minicpmo.model.layer import ForwardInputs, SelfAttention
from antiphon.inference_worker.engines.minicpmo.model.rotary import rotate


class TorchKernels:
    """`attention` names a function of the library's registry, ours among them (attention.py)."""

    def __init__(self, attention: str) -> None:
        self._attend = ALL_ATTENTION_FUNCTIONS[attention]

    def add_norm(self, hidden: Tensor, update: Tensor, norm: nn.RMSNorm) -> tuple[Tensor, Tensor]:
        """The sum, and the sum normed: (rows, new, width) each."""
        total = hidden + update
        return total, norm(total)

    def rotate_and_store(
        self, joint: Tensor, attention: SelfAttention, shared: ForwardInputs
    ) -> Tensor:
        """Norm and turn projected heads, put keys and values in the cache; queries (rows, new, heads, dim)."""
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

    def attend(self, queries: Tensor, attention: SelfAttention, shared: ForwardInputs) -> Tensor:
        """Mix the values that each query sees: (rows, new, heads * dim)."""
        keys, values = shared.cache.read(attention.index)
        mixed: Tensor = self._attend(attention, queries.transpose(1, 2), keys, values, shared.mask)[
            0
        ]
        return mixed.flatten(2)

    def gate(self, joint: Tensor) -> Tensor:
        """SiLU of the first half times the second: (rows, new, 2 * n) to (rows, new, n)."""
        gates, fed = joint.chunk(2, dim=-1)
        return silu(gates) * fed
