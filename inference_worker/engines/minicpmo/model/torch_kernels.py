"""The operations of a decoder layer between its matrix products, in torch, for any device."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import silu
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from antiphon.inference_worker.engines.minicpmo.model.layer import ForwardInputs, SelfAttention
from antiphon.inference_worker.engines.minicpmo.model.rotary import rotate


class TorchKernels:
    """`attention` names a function in the library's registry, which includes `grouped_sdpa` of attention.py."""

    def __init__(self, attention: str) -> None:
        self._attend = ALL_ATTENTION_FUNCTIONS[attention]

    def add_norm(self, hidden: Tensor, update: Tensor, norm: nn.RMSNorm) -> tuple[Tensor, Tensor]:
        total = hidden + update
        return total, norm(total)

    def rotate_and_store(
        self, joint: Tensor, attention: SelfAttention, shared: ForwardInputs
    ) -> Tensor:
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
        keys, values = shared.cache.read(attention.index)
        mixed: Tensor = self._attend(attention, queries.transpose(1, 2), keys, values, shared.mask)[
            0
        ]
        return mixed.flatten(2)

    def gate(self, joint: Tensor) -> Tensor:
        gates, fed = joint.chunk(2, dim=-1)
        return silu(gates) * fed
