"""`apm.*` and `audio_projection_layer.*`: Whisper's encoder, whole clips or a second at a time."""

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, gelu, pad
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoderLayer

from antiphon.inference_worker.engines.minicpmo.config import AudioConfig, ModelConfig
from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.model.attention import GROUPED_SDPA, additive_mask
from antiphon.inference_worker.engines.minicpmo.model.kv_cache import CacheWindow


class AudioEncoder(nn.Module):
    """Convolutions to 50 steps per second, learned positions, pre-norm layers."""

    def __init__(self, config: AudioConfig) -> None:
        super().__init__()
        inner = WhisperConfig(
            d_model=config.d_model,
            encoder_layers=config.encoder_layers,
            encoder_attention_heads=config.encoder_attention_heads,
            encoder_ffn_dim=config.encoder_ffn_dim,
            num_mel_bins=config.num_mel_bins,
            max_source_positions=config.max_source_positions,
        )
        inner._attn_implementation = GROUPED_SDPA  # noqa: SLF001  # the way the library offers to choose it
        self.conv1 = nn.Conv1d(config.num_mel_bins, config.d_model, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(config.d_model, config.d_model, kernel_size=3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(config.max_source_positions, config.d_model)
        self.layers = nn.ModuleList(
            _cached_layer(inner, index) for index in range(config.encoder_layers)
        )
        self.layer_norm = nn.LayerNorm(config.d_model)
        heads = config.encoder_attention_heads
        self.cache_sizes = config.encoder_layers, heads, config.d_model // heads
        """Layers, heads, and values of a head."""

    @property
    def table(self) -> Tensor:
        """Embeddings of positions; `forward` takes input of the same width."""
        return self.embed_positions.weight

    def convolve(self, mel: Tensor) -> Tensor:
        """(rows, 80, frames) to (rows, ceil(frames / 2), width)."""
        return gelu(self.conv2(gelu(self.conv1(mel)))).transpose(1, 2)

    def forward(
        self, steps: Tensor, positions: Tensor, mask: Tensor | None, cache: CacheWindow | None
    ) -> Tensor:
        """Encode convolved `steps` (rows, n, width) at `positions` (rows, n) of the table."""
        hidden = steps + self.embed_positions(positions)
        for layer in self.layers:
            hidden = layer(hidden, attention_mask=mask, past_key_values=cache)
        normed: Tensor = self.layer_norm(hidden)
        return normed


def _cached_layer(config: WhisperConfig, index: int) -> WhisperEncoderLayer:
    """An encoder layer whose attention may use a cache, for which it needs its layer index."""
    layer = WhisperEncoderLayer(config)
    layer.self_attn.layer_idx = index
    return layer


class AudioProjector(nn.Module):
    """Encoder width to language width."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.linear1 = nn.Linear(config.audio_config.encoder_ffn_dim // 4, config.hidden_size)
        self.linear2 = nn.Linear(config.hidden_size, config.hidden_size)
        self.pool = config.audio_pool_step

    def forward(self, encoded: Tensor) -> Tensor:
        """(rows, n, width) to (rows, n // 5, language width): 10 embeddings per second."""
        projected = self.linear2(torch.relu(self.linear1(encoded)))
        return avg_pool1d(projected.transpose(1, 2), self.pool, self.pool).transpose(1, 2)


def trim_redundant(steps: Tensor, *, leading_frames: int, trailing_frames: int) -> Tensor:
    """Drop the steps that came from redundant mel frames (half as many, rounded up)."""
    return steps[:, -(-leading_frames // 2) : steps.shape[1] - -(-trailing_frames // 2)]


def block_mask(steps: int, block: int, device: torch.device) -> Tensor | None:
    """Each step sees its block and all blocks before it, (1, 1, steps, steps); None (all) for block < 1."""
    if block < 1:
        return None
    index = torch.arange(steps, device=device)
    return (index // block <= (index // block).unsqueeze(1))[None, None]


def encode_clips(
    encoder: AudioEncoder, projector: AudioProjector, mels: list[Tensor], longest: int, block: int
) -> list[Tensor]:
    """Embeddings of whole clips, encoded as one batch of `longest` frames: each (frames // 2 // 5, width).

    The padding mask of the reference compares steps with mel frames (twice as many). The last block
    of a shorter clip therefore also sees padding as long as itself. This is reproduced because the
    weights were trained with it.
    """
    batch = torch.stack([pad(mel, (0, longest - mel.shape[1])) for mel in mels])
    steps = encoder.convolve(batch)
    count = steps.shape[1]
    index = torch.arange(count, device=steps.device)
    frames = device_tensor([mel.shape[1] for mel in mels], steps.device)
    mask = (index < frames.unsqueeze(1))[:, None, None, :]
    causal = block_mask(count, block, steps.device)
    seen = additive_mask(mask if causal is None else mask & causal, steps.dtype)
    encoded = encoder(steps, index.expand(len(mels), -1), seen, None)
    pooled = projector(encoded)
    return [
        row[: clip_embedding_count(mel.shape[1])] for row, mel in zip(pooled, mels, strict=True)
    ]


def clip_embedding_count(frames: int) -> int:
    """Number of embeddings of a clip with `frames` mel frames."""
    return ((frames - 1) // 2 + 1 - 5) // 5 + 1
