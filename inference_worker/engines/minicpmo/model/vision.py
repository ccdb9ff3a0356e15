"""`vpm.*` and `resampler.*`: SigLIP over images of any aspect, padded into one batch, then 64 queries each."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from transformers import SiglipVisionConfig
from transformers.models.siglip.modeling_siglip import SiglipEncoder

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig, VisionConfig
from antiphon.inference_worker.engines.minicpmo.model.attention import GROUPED_SDPA, additive_mask

Grid = tuple[int, int]
"""Rows and columns of patches."""


class Slices(NamedTuple):
    """Slices of images as one batch, padded to the same number of patches.

    `pixels` (slices, 3, 14, 14 * patches); `places` (4, slices, patches): the position id, the row and the
    column of each patch, and 1, or 0 for padding. `axis` (sides, width / 2) are the positions of rows and
    columns for the resampler.
    """

    pixels: Tensor
    places: Tensor
    axis: Tensor


class _Embeddings(nn.Module):
    """Patch convolution and the table of positions."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.side = config.positions_per_side
        self.patch_embedding = nn.Conv2d(
            3, config.hidden_size, kernel_size=config.patch_size, stride=config.patch_size
        )
        self.position_embedding = nn.Embedding(self.side * self.side, config.hidden_size)

    def forward(self, pixels: Tensor, positions: Tensor) -> Tensor:
        """(slices, 3, 14, 14 * patches) to (slices, patches, width)."""
        patches = self.patch_embedding(pixels)[:, :, 0].transpose(1, 2)
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

    def forward(self, slices: Slices) -> Tensor:
        """Features (slices, patches, width). Those of padding have no meaning."""
        positions, _, _, real = slices.places.unbind()
        hidden = self.embeddings(slices.pixels, positions)
        mask = additive_mask((real > 0)[:, None, None, :], hidden.dtype)
        hidden = self.encoder(inputs_embeds=hidden, attention_mask=mask).last_hidden_state
        normed: Tensor = self.post_layernorm(hidden)
        return normed


def place_slices(
    pixels: Sequence[Tensor], grids: Sequence[Grid], side: int, patches: int
) -> Tensor:
    """The `places` of Slices on the CPU, padded to `patches`; `side` is that of the table of positions."""
    places = torch.zeros(4, len(pixels), patches, dtype=torch.long, device="cpu")
    for n, grid in enumerate(grids):
        known = _grid_places(grid, side)
        places[:, n, : known.shape[1]] = known
    return places


def _grid_places(grid: Grid, side: int) -> Tensor:
    rows, columns = grid
    at = torch.arange(rows * columns, device="cpu")
    return torch.stack(
        [grid_positions(grid, side), at // columns, at % columns, at.new_ones(len(at))]
    )


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

    def forward(self, features: Tensor, slices: Slices) -> Tensor:
        """`features` (slices, patches, width)."""
        _, rows, columns, real = slices.places.unbind()
        values = self.ln_kv(self.kv_proj(features))
        # The column is in the first half, the row in the second.
        positions = torch.cat(
            [embedding(columns, slices.axis), embedding(rows, slices.axis)], dim=-1
        )
        positions = positions.to(values.dtype)
        queries = self.ln_q(self.query).expand(len(features), -1, -1)
        mixed, _ = self.attn(
            queries, values + positions, values, key_padding_mask=real == 0, need_weights=False
        )
        resampled: Tensor = self.ln_post(mixed) @ self.proj
        return resampled


def axis_positions(count: int, width: int, device: torch.device) -> Tensor:
    """Positions of the first `count` rows or columns, (count, width / 2)."""
    quarter = width // 4
    exponents = torch.arange(quarter, dtype=torch.float64, device=device) / quarter
    frequencies = 1.0 / 10000.0**exponents
    angles = torch.arange(count, dtype=torch.float64, device=device)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()
