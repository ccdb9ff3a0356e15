"""Small tables from the host to the device, without waiting for what runs there."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def placed(
    values: Sequence[object], device: torch.device, dtype: torch.dtype = torch.long
) -> Tensor:
    """`values` as a tensor on `device`."""
    # Named, since a caller may have made another device the default: made there, it would be waited for.
    return carried(torch.tensor(values, dtype=dtype, device="cpu"), device)


def carried(tensor: Tensor, device: torch.device) -> Tensor:
    """`tensor` on `device`. A plain `to` would wait until the device has nothing left to do."""
    return tensor.to(device, non_blocking=True)
