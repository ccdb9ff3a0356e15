"""The causal transformers: Qwen3 for language, Llama for speech, one loop over their layers."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import LlamaConfig, Qwen3Config
from transformers.models.llama.modeling_llama import (
    LlamaDecoderLayer,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)
from transformers.models.qwen3.modeling_qwen3 import (
    Qwen3DecoderLayer,
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
)

from inference_worker.engines.minicpmo.config import ModelConfig, SpeechConfig
from inference_worker.engines.minicpmo.model.attention import LayerCache


class Decoder(nn.Module):
    """Embeddings in, final hidden states out; the cache decides what each row remembers."""

    embed_tokens: nn.Embedding
    layers: nn.ModuleList
    norm: nn.Module
    rotary_emb: Qwen3RotaryEmbedding | LlamaRotaryEmbedding

    @property
    def inv_freq(self) -> Tensor:
        """Rotary frequencies, half a head wide."""
        frequencies: Tensor = self.rotary_emb.inv_freq
        return frequencies

    def forward(
        self, embeds: Tensor, positions: Tensor, mask: Tensor, cache: LayerCache | None
    ) -> Tensor:
        """`embeds` (rows, new, width), `positions` (rows, new), `mask` as causal_mask makes it."""
        rotary = self.rotary_emb(embeds, positions)
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
        super().__init__()
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
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
        )
        inner._attn_implementation = attention  # noqa: SLF001  # the library's own way to choose
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            Qwen3DecoderLayer(inner, index) for index in range(config.num_hidden_layers)
        )
        self.norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = Qwen3RotaryEmbedding(inner)


class SpeechLlama(Decoder):
    """The speech model's body: library defaults but for its sizes."""

    def __init__(self, config: SpeechConfig, attention: str) -> None:
        super().__init__()
        inner = LlamaConfig(
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            num_key_value_heads=config.num_key_value_heads,
            max_position_embeddings=config.max_position_embeddings,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        )
        inner._attn_implementation = attention  # noqa: SLF001  # the library's own way to choose
        # Unused, but the checkpoint carries it: a word embedding of the library's default size.
        self.embed_tokens = nn.Embedding(inner.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            LlamaDecoderLayer(inner, index) for index in range(config.num_hidden_layers)
        )
        self.norm = LlamaRMSNorm(config.hidden_size, eps=inner.rms_norm_eps)
        self.rotary_emb = LlamaRotaryEmbedding(inner)


class LanguageModel(nn.Module):
    """`llm.*`: the body and its untied head."""

    def __init__(self, config: ModelConfig, attention: str) -> None:
        super().__init__()
        self.model = Qwen3(config, attention)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
