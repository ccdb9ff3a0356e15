"""`vpm.*` and `resampler.*`: SigLIP over images of any aspect, padded into one batch, then 64 queries each."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import SiglipVisionConfig
from transformers.models.siglip.modeling_siglip import SiglipEncoder

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig, VisionConfig
from antiphon.inference_worker.engines.minicpmo.device import to_device
from antiphon.inference_worker.engines.minicpmo.model.attention import GROUPED_SDPA, additive_mask

Grid = tuple[int, int]
"""Rows and columns of patches."""


class _Embeddings(nn.Module):
    """Patch convolution and the table of positions."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.side = config.positions_per_side
        self.patch_embedding = nn.Conv2d(
            3, config.hidden_size, kernel_size=config.patch_size, stride=config.patch_size
        )
        self.position_embedding = nn.Embedding(self.side * self.side, config.hidden_size)

    def forward(self, pixels: Tensor, grid: Grid) -> Tensor:
        """(3, 14, 14 * patches) to (patches, width)."""
        patches = self.patch_embedding(pixels.unsqueeze(0))[0].flatten(1).T
        positions = to_device(grid_positions(grid, self.side), pixels.device)
        embedded: Tensor = patches + self.position_embedding(positions)
        return embedded


class VisionEncoder(nn.Module):
    """Patches to features, including the last layer and the final norm."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        inner = SiglipVisionConfig(
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_attention_heads=config.num_attention_heads,
            num_hidden_layers=config.num_hidden_layers,
            layer_norm_eps=config.layer_norm_eps,
        )
        inner._attn_implementation = GROUPED_SDPA  # noqa: SLF001  # the way the library offers to choose it
        self.embeddings = _Embeddings(config)
        self.encoder = SiglipEncoder(inner)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, pixels: list[Tensor], grids: list[Grid]) -> tuple[Tensor, Tensor]:
        """Features (images, max patches, width) and a mask of the patches that are not padding
        (images, max).
        """
        rows = [self.embeddings(part, grid) for part, grid in zip(pixels, grids, strict=True)]
        real = pad_sequence(
            [torch.ones(len(row), dtype=torch.bool, device=row.device) for row in rows], True
        )
        hidden = pad_sequence(rows, batch_first=True)
        mask = additive_mask(real[:, None, None, :], hidden.dtype)
        hidden = self.encoder(inputs_embeds=hidden, attention_mask=mask).last_hidden_state
        return self.post_layernorm(hidden), real


def grid_positions(grid: Grid, side: int) -> Tensor:
    """Row-major position ids of a grid that is spread over the square table.

    Coordinates are multiples of 1/n, computed in float32 like the reference: at exact ties the
    bucket, and so the embedding, depends on this rounding.
    """
    boundaries = torch.arange(1 / side, 1.0, 1 / side, device="cpu")
    rows, columns = (torch.bucketize(_fractions(n), boundaries, right=True) for n in grid)
    return (rows[:, None] * side + columns).flatten()


def _fractions(n: int) -> Tensor:
    step = (1 / torch.tensor(n, dtype=torch.float32)).item()
    return torch.arange(0, 1 - 1e-6, step, device="cpu")


HEAD_WIDTH = 128


class Resampler(nn.Module):
    """64 learned queries read the features of a grid: (images, 64, language width)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.width = width
        self.query = nn.Parameter(torch.empty(config.query_num, width))
        self.kv_proj = nn.Linear(config.vision_config.hidden_size, width, bias=False)
        self.attn = nn.MultiheadAttention(width, width // HEAD_WIDTH, batch_first=True)
        self.ln_q = nn.LayerNorm(width, eps=1e-6)
        self.ln_kv = nn.LayerNorm(width, eps=1e-6)
        self.ln_post = nn.LayerNorm(width, eps=1e-6)
        self.proj = nn.Parameter(torch.empty(width, width))

    def forward(self, features: Tensor, real: Tensor, grids: list[Grid]) -> Tensor:
        """`features` (images, patches, width); `real` marks the patches that are not padding."""
        values = self.ln_kv(self.kv_proj(features))
        tables = [sincos_table(grid, self.width, values.device) for grid in grids]
        positions = pad_sequence(tables, batch_first=True).to(values.dtype)
        queries = self.ln_q(self.query).expand(len(grids), -1, -1)
        mixed, _ = self.attn(
            queries, values + positions, values, key_padding_mask=~real, need_weights=False
        )
        resampled: Tensor = self.ln_post(mixed) @ self.proj
        return resampled


def sincos_table(grid: Grid, width: int, device: torch.device) -> Tensor:
    """Positions of a grid, (rows * columns, width): column in the first half, row in the second."""
    rows, columns = grid
    quarter = width // 4
    exponents = torch.arange(quarter, dtype=torch.float64, device=device) / quarter
    frequencies = 1.0 / 10000.0**exponents

    def encode(count: int) -> Tensor:
        angles = torch.arange(count, dtype=torch.float64, device=device)[:, None] * frequencies
        return torch.cat([angles.sin(), angles.cos()], dim=1).float()

    across = encode(columns)[None].expand(rows, -1, -1)
    down = encode(rows)[:, None].expand(-1, columns, -1)
    return torch.cat([across, down], dim=-1).flatten(0, 1)
