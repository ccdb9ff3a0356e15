"""The causal transformers: Qwen3 for language, Llama for speech, one loop over their layers."""

from __future__ import annotations

from itertools import chain
from typing import cast

from torch import Tensor, nn

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig, SpeechConfig
from antiphon.inference_worker.engines.minicpmo.model.layer import (
    CacheRows,
    DecoderLayer,
    Kernels,
    LayerSizes,
    Pass,
)
from antiphon.inference_worker.engines.minicpmo.model.rotary import frequencies, turn_by

SPEECH_THETA = 10000.0
SPEECH_WORDS = 32000
"""The library's default vocabulary: the checkpoint carries a table of it that nothing uses."""

SPEECH_EPS = 1e-6


class Decoder(nn.Module):
    """Embeddings in, final hidden states out; the cache decides what each row remembers."""

    inv_freq: Tensor

    def __init__(
        self, sizes: LayerSizes, *, layers: int, words: int, theta: float, kernels: Kernels
    ) -> None:
        super().__init__()
        self._rotary = theta, sizes.head_dim
        self.kernels = kernels
        self.embed_tokens = nn.Embedding(words, sizes.width)
        self.layers = nn.ModuleList(DecoderLayer(sizes, index, kernels) for index in range(layers))
        self.norm = nn.RMSNorm(sizes.width, sizes.eps)
        self.restore_frequencies()

    def restore_frequencies(self) -> None:
        """Compute the rotary frequencies, half a head wide, which no checkpoint stores: float32, on the CPU."""
        self.register_buffer("inv_freq", frequencies(*self._rotary), persistent=False)

    def join(self) -> None:
        """Make projections of one input one; call when the weights are in place."""
        for layer in self._layers():
            layer.self_attn.join()
            layer.mlp.join()

    def use(self, kernels: Kernels) -> None:
        """Take others from now on."""
        self.kernels = kernels
        for layer in self._layers():
            layer.self_attn.kernels = layer.mlp.kernels = kernels

    def shared(self, positions: Tensor, mask: Tensor, cache: CacheRows) -> Pass:
        """What all layers share of a forward at `positions` (rows, new)."""
        angles = positions[..., None, None].float() * self.inv_freq
        return Pass(positions, *turn_by(angles, self.table.dtype), mask, cache)

    @property
    def table(self) -> Tensor:
        """Embeddings, as wide as what `forward` takes."""
        return self.embed_tokens.weight

    def forward(self, embeds: Tensor, positions: Tensor, mask: Tensor, cache: CacheRows) -> Tensor:
        """`embeds` (rows, new, width), `positions` (rows, new), `mask` additive (rows, 1, new, all)."""
        shared = self.shared(positions, mask, cache)
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


def qwen3(config: ModelConfig, kernels: Kernels) -> Decoder:
    """The language model's body."""
    sizes = LayerSizes(
        width=config.hidden_size,
        fed=config.intermediate_size,
        query_heads=config.num_attention_heads,
        key_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        eps=config.rms_norm_eps,
        head_norms=True,
    )
    return Decoder(
        sizes,
        layers=config.num_hidden_layers,
        words=config.vocab_size,
        theta=config.rope_theta,
        kernels=kernels,
    )


def speech_llama(config: SpeechConfig, kernels: Kernels) -> Decoder:
    """The speech model's body: the library's defaults but for its sizes."""
    sizes = LayerSizes(
        width=config.hidden_size,
        fed=config.intermediate_size,
        query_heads=config.num_attention_heads,
        key_heads=config.num_key_value_heads,
        head_dim=config.hidden_size // config.num_attention_heads,
        eps=SPEECH_EPS,
        head_norms=False,
    )
    return Decoder(
        sizes,
        layers=config.num_hidden_layers,
        words=SPEECH_WORDS,
        theta=SPEECH_THETA,
        kernels=kernels,
    )


class LanguageModel(nn.Module):
    """`llm.*`: the body and its untied head."""

    def __init__(self, config: ModelConfig, kernels: Kernels) -> None:
        super().__init__()
        self.model = qwen3(config, kernels)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
