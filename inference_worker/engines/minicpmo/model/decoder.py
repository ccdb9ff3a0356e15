"""The causal transformers: Qwen3 for language, Llama for speech, one loop over their layers."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from transformers import LlamaConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3RMSNorm

from inference_worker.engines.minicpmo.config import ModelConfig, SpeechConfig
from inference_worker.engines.minicpmo.model.attention import LayerCache
from inference_worker.engines.minicpmo.model.decoder_attention import DecoderAttention
from inference_worker.engines.minicpmo.model.rotary import frequencies, turn_by

SPEECH_THETA = 10000.0


class Decoder(nn.Module):
    """Embeddings in, final hidden states out; the cache decides what each row remembers."""

    embed_tokens: nn.Embedding
    layers: nn.ModuleList
    norm: nn.Module
    inv_freq: Tensor

    def __init__(self, theta: float, head_dim: int) -> None:
        super().__init__()
        self._rotary = theta, head_dim
        self.restore_frequencies()

    def restore_frequencies(self) -> None:
        """Compute the rotary frequencies, half a head wide, which no checkpoint stores: float32, on the CPU."""
        self.register_buffer("inv_freq", frequencies(*self._rotary), persistent=False)

    @property
    def table(self) -> Tensor:
        """Embeddings, as wide as what `forward` takes."""
        return self.embed_tokens.weight

    def forward(
        self, embeds: Tensor, positions: Tensor, mask: Tensor, cache: LayerCache | None
    ) -> Tensor:
        """`embeds` (rows, new, width), `positions` (rows, new), `mask` additive (rows, 1, new, all)."""
        angles = positions[..., None, None].float() * self.inv_freq
        rotary = turn_by(angles, embeds.dtype)
        hidden = embeds
        for layer in self.layers:
            hidden = layer(
                hidden, attention_mask=mask, past_key_values=cache, position_embeddings=rotary
            )
        normed: Tensor = self.norm(hidden)
        return normed


class Qwen3(Decoder):
    """The language model's body."""

    def __init__(self, config: ModelConfig, attention: str) -> None:
        super().__init__(config.rope_theta, config.head_dim)
        inner = Qwen3Config(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            max_position_embeddings=config.max_position_embeddings,
            rms_norm_eps=config.rms_norm_eps,
        )
        inner._attn_implementation = attention  # noqa: SLF001  # the library's own way to choose
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            Qwen3DecoderLayer(inner, index) for index in range(config.num_hidden_layers)
        )
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        fuse(self.layers)


class SpeechLlama(Decoder):
    """The speech model's body: library defaults but for its sizes."""

    def __init__(self, config: SpeechConfig, attention: str) -> None:
        super().__init__(SPEECH_THETA, config.hidden_size // config.num_attention_heads)
        inner = LlamaConfig(
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_key_value_heads,
            max_position_embeddings=config.max_position_embeddings,
        )
        inner._attn_implementation = attention  # noqa: SLF001  # the library's own way to choose
        # Unused, but the checkpoint carries it: a word embedding of the library's default size.
        self.embed_tokens = nn.Embedding(inner.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            LlamaDecoderLayer(inner, index) for index in range(config.num_hidden_layers)
        )
        self.norm = nn.RMSNorm(config.hidden_size, eps=inner.rms_norm_eps)
        fuse(self.layers)


def fuse(layers: nn.ModuleList) -> None:
    """In the place of the library's attention and RMSNorm (eight kernels) put what is fewer on a GPU."""
    for layer in cast("list[Qwen3DecoderLayer | LlamaDecoderLayer]", layers):
        layer.self_attn = DecoderAttention(layer.self_attn)  # type: ignore[assignment]
        for module in (layer, layer.self_attn):
            for name, child in list(module.named_children()):
                if isinstance(child, Qwen3RMSNorm | LlamaRMSNorm):
                    setattr(module, name, nn.RMSNorm(len(child.weight), child.variance_epsilon))


class LanguageModel(nn.Module):
    """`llm.*`: the body and its untied head."""

    def __init__(self, config: ModelConfig, attention: str) -> None:
        super().__init__()
        self.model = Qwen3(config, attention)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
