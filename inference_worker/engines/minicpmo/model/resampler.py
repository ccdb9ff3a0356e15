"""`resampler.*`: 64 learned queries read a picture's features."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig
from antiphon.inference_worker.engines.minicpmo.model.vision import Grid

HEAD_WIDTH = 128


class Resampler(nn.Module):
    """Features of any grid to (pictures, 64, language width)."""

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
        """`features` (pictures, patches, width) of which `real` are no padding."""
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
