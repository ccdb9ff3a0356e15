"""The causal transformers: Qwen3 for language and Llama for speech, with one loop over their layers."""

from itertools import chain
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize
from torch.nn.utils.parametrizations import weight_norm

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig, SpeechConfig
from antiphon.inference_worker.engines.minicpmo.model.attention import frequencies, rotation_tables
from antiphon.inference_worker.engines.minicpmo.model.kv_cache import CacheWindow
from antiphon.inference_worker.engines.minicpmo.model.layer import (
    DecoderLayer,
    ForwardInputs,
    LayerSizes,
    TorchKernels,
)


class Decoder(nn.Module):
    """Embeddings in, final hidden states out. The cache holds the context of each row."""

    inv_freq: Tensor

    def __init__(
        self, config: ModelConfig | SpeechConfig, kernels: TorchKernels, *, head_norms: bool
    ) -> None:
        super().__init__()
        sizes = LayerSizes(
            width=config.hidden_size,
            intermediate=config.intermediate_size,
            query_heads=config.num_attention_heads,
            key_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            eps=config.rms_norm_eps,
            head_norms=head_norms,
        )
        self.cache_sizes = config.num_hidden_layers, config.num_key_value_heads, config.head_dim
        """Layers, heads, and values of a head."""
        self._rotary = config.rope_theta, config.head_dim
        self.kernels = kernels
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            DecoderLayer(sizes, index, kernels) for index in range(config.num_hidden_layers)
        )
        self.norm = nn.RMSNorm(sizes.width, sizes.eps)
        self.compute_frequencies()

    def compute_frequencies(self) -> None:
        """Compute the rotary frequencies (head_dim / 2,) in float32 on the CPU. No checkpoint stores them."""
        self.register_buffer("inv_freq", frequencies(*self._rotary), persistent=False)

    def join_projections(self) -> None:
        """Join projections with a common input. Call it when the weights are loaded."""
        for layer in self._layers():
            layer.self_attn.join_projections()
            layer.mlp.join_projections()

    def set_kernels(self, kernels: TorchKernels) -> None:
        self.kernels = kernels
        for layer in self._layers():
            layer.self_attn.kernels = layer.mlp.kernels = kernels

    def tile(self, tokens: int) -> int:
        """Tokens of a slot that attention processes together in a step of `tokens`."""
        sizes = self._layers()[0].self_attn.sizes
        return self.kernels.tile(sizes.query_heads // sizes.key_heads, tokens)

    def forward_inputs(
        self, positions: Tensor, mask: Tensor | None, cache: CacheWindow
    ) -> ForwardInputs:
        """What all layers share in a forward pass at `positions` (rows, new)."""
        angles = positions[..., None, None].float() * self.inv_freq
        return ForwardInputs(positions, *rotation_tables(angles, self.table.dtype), mask, cache)

    @property
    def table(self) -> Tensor:
        """Embedding table; `forward` takes input of the same width."""
        return self.embed_tokens.weight

    def forward(
        self, embeds: Tensor, positions: Tensor, mask: Tensor | None, cache: CacheWindow
    ) -> Tensor:
        """`embeds` (rows, new, width), `positions` (rows, new), `mask` additive (rows, 1, new, all)."""
        shared = self.forward_inputs(positions, mask, cache)
        layers, add_norm = self._layers(), self.kernels.add_norm
        hidden, normed = embeds, layers[0].input_layernorm(embeds)
        following = chain((layer.input_layernorm for layer in layers[1:]), [self.norm])
        for layer, norm in zip(layers, following, strict=True):
            attended = layer.self_attn(normed, shared)
            hidden, normed = add_norm(hidden, attended, layer.post_attention_layernorm)
            hidden, normed = add_norm(hidden, layer.mlp(normed), norm)
        final: Tensor = normed
        return final

    def _layers(self) -> list[DecoderLayer]:
        return cast("list[DecoderLayer]", list(self.layers))


class Qwen3LanguageModel(nn.Module):
    """`llm.*`: the decoder and its untied head."""

    def __init__(self, config: ModelConfig, kernels: TorchKernels) -> None:
        super().__init__()
        self.model = Decoder(config, kernels, head_norms=True)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over tokens for final hidden states."""
        return self.model.kernels.multiply(hidden, self.lm_head.weight)


class _Projector(nn.Module):
    def __init__(self, config: SpeechConfig) -> None:
        super().__init__()
        self.linear1 = nn.Linear(config.llm_dim, config.hidden_size)
        self.linear2 = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, states: Tensor) -> Tensor:
        projected: Tensor = self.linear2(torch.relu(self.linear1(states)))
        return projected


class SpeechModel(nn.Module):
    """A Llama with the library's defaults over text conditions and audio codes. Its head is
    weight-normalised.
    """

    head_weight: Tensor

    def __init__(self, config: SpeechConfig, kernels: TorchKernels) -> None:
        super().__init__()
        self.audio_bos = config.audio_bos_token_id
        self.text_eos = config.text_eos_token_id
        # Unused, but part of the checkpoint.
        self.projector_spk = _Projector(config)
        self.projector_semantic = _Projector(config)
        self.emb_text = nn.Embedding(config.num_text_tokens, config.hidden_size)
        self.emb_code = nn.ModuleList([nn.Embedding(config.num_audio_tokens, config.hidden_size)])
        self.model = Decoder(config, kernels, head_norms=False)
        self.head_code = nn.ModuleList(
            [weight_norm(nn.Linear(config.hidden_size, config.num_audio_tokens, bias=False))]
        )

    def conditions(self, ids: Tensor, places: Tensor, states: Tensor) -> Tensor:
        """Text `ids` (n,) to (n, width). The states (spoken, llm width) of those at `places` are added."""
        embedded: Tensor = self.emb_text(ids)
        if len(places):
            meaning = normalize(self.projector_semantic(states), dim=-1)
            embedded.index_add_(0, places, meaning)
        return embedded

    def embed_codes(self, codes: Tensor) -> Tensor:
        embedded: Tensor = self.emb_code[0](codes)
        return embedded

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over audio codes for final hidden states."""
        return linear(hidden, self.head_weight)

    def fuse_head(self) -> None:
        """Compute the effective weight of the head once. Call it when the weights are loaded."""
        head = self.head_code[0]
        assert isinstance(head, nn.Linear)
        self.register_buffer("head_weight", head.weight.detach(), persistent=False)
