"""Self-attention of both decoders: the library's projections, queries and keys turned together."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from inference_worker.engines.minicpmo.model.attention import LayerCache
from inference_worker.engines.minicpmo.model.rotary import turn


class DecoderAttention(nn.Module):
    """In the place of the library's own, with its modules and so with its names."""

    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    o_proj: nn.Linear
    q_norm: nn.Module
    k_norm: nn.Module

    def __init__(self, inner: Qwen3Attention | LlamaAttention) -> None:
        super().__init__()
        for name, child in inner.named_children():
            self.add_module(name, child)
        self._layer = int(inner.layer_idx)
        self._head_dim = inner.head_dim
        self._scale = inner.scaling
        self.num_key_value_groups = inner.num_key_value_groups
        self._attend = ALL_ATTENTION_FUNCTIONS[inner.config._attn_implementation]  # noqa: SLF001

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor,
        past_key_values: LayerCache | None,
        **_unused: object,
    ) -> tuple[Tensor, None]:
        """`hidden_states` (rows, new, width), turned by (rows, new, 1, head_dim) each."""
        rows, new, _ = hidden_states.shape
        shape = (rows, new, -1, self._head_dim)
        queries, keys = (
            self.q_proj(hidden_states).view(shape),
            self.k_proj(hidden_states).view(shape),
        )
        if hasattr(self, "q_norm"):
            queries, keys = self.q_norm(queries), self.k_norm(keys)
        heads = [queries.shape[2], keys.shape[2]]
        turned = turn(torch.cat([queries, keys], dim=2), *position_embeddings).transpose(1, 2)
        queries, keys = torch.split(turned, heads, dim=1)
        values = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if past_key_values is not None:
            keys, values = past_key_values.update(keys, values, self._layer)
        mixed, _ = self._attend(self, queries, keys, values, attention_mask, scaling=self._scale)
        return self.o_proj(mixed.reshape(rows, new, -1)), None
