"""Weights of 8 or 4 bits per value, multiplied with activations of 16 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import Quantization

INT8_GROUP = 128
"""Inputs that share a scale if int8 is made at load."""

MAX_TILE = 128
"""Inputs that a program multiplies at once."""

FP8_MAX = 448.0
"""The largest value of e4m3."""

ROWS_AT_ONCE = 8192
"""Outputs that are quantised together: the float32 values of the largest weight would not fit."""


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """A weight (outputs, inputs), each value of which is (stored - zero) * scale.

    `values` of 8 bits are int8 or fp8, e4m3 (outputs, inputs). Those of 4 bits are uint8 (outputs, inputs / 2):
    byte n of a group has value n in its low bits and value n + group / 2 in its high ones, so
    neither half is interleaved. `scales` and `zeros` are (outputs, groups); 8 bits have no zeros.
    With an `order` (inputs,), stored input n is input `order[n]`.
    """

    values: Tensor
    scales: Tensor
    zeros: Tensor | None
    order: Tensor | None = None

    @property
    def bits(self) -> int:
        return 8 if self.zeros is None else 4

    @property
    def inputs(self) -> int:
        return self.values.shape[1] * 8 // self.bits

    @property
    def group(self) -> int:
        """Inputs that share a scale."""
        return self.inputs // self.scales.shape[1]

    @property
    def tile(self) -> int:
        """Inputs with a common scale that a program multiplies at once."""
        return math.gcd(self.group, MAX_TILE)

    def ordered(self, given: Tensor) -> Tensor:
        """Activations (..., inputs) in the order of the stored inputs."""
        return given if self.order is None else given.index_select(-1, self.order)


Weight = Tensor | QuantizedWeight


def quantize_int8(weight: Tensor) -> QuantizedWeight:
    """Symmetric int8 in groups of inputs, rounded to nearest. Scales are bfloat16."""
    pieces = [_int8(rows) for rows in torch.split(weight, ROWS_AT_ONCE)]
    return join_quantized(pieces)


def quantize_fp8(weight: Tensor) -> QuantizedWeight:
    """e4m3 with one float32 scale for each output, rounded to nearest."""
    return join_quantized([_fp8(rows) for rows in torch.split(weight, ROWS_AT_ONCE)])


def _fp8(weight: Tensor) -> QuantizedWeight:
    wide = weight.float()
    scales = (wide.abs().amax(1, keepdim=True) / FP8_MAX).clamp_(min=1e-12)
    return QuantizedWeight((wide / scales).to(torch.float8_e4m3fn), scales, None)


def _int8(weight: Tensor) -> QuantizedWeight:
    group = math.gcd(weight.shape[1], INT8_GROUP)
    grouped = weight.float().view(len(weight), -1, group)
    # Rounded first, so that rounding the scale costs no accuracy. A group of zeros has a scale too.
    scales = (grouped.abs().amax(2) / 127).clamp_(min=1e-12).to(torch.bfloat16)
    values = (grouped / scales.float()[..., None]).round_().clamp_(-127, 127)
    return QuantizedWeight(values.to(torch.int8).flatten(1), scales, None)


def pack_int4(
    values: Tensor, scales: Tensor, zeros: Tensor, order: Tensor | None = None
) -> QuantizedWeight:
    """From one value of 0 to 15 per byte (outputs, inputs); `scales`, `zeros` (outputs, groups)."""
    halves = values.to(torch.uint8).reshape(*scales.shape, 2, -1)
    packed = halves[:, :, 0] | halves[:, :, 1] << 4
    return QuantizedWeight(
        packed.flatten(1), scales.contiguous(), zeros.to(torch.uint8).contiguous(), order
    )


def dequantize(weight: QuantizedWeight, dtype: torch.dtype) -> Tensor:
    """The weight (outputs, stored inputs)."""
    grouped = weight.values.view(*weight.scales.shape, -1)
    if weight.zeros is not None:
        unpacked = torch.cat([grouped & 15, grouped >> 4], dim=2)
        grouped = unpacked.to(torch.int8) - weight.zeros.to(torch.int8)[..., None]
    scaled: Tensor = grouped.to(dtype) * weight.scales.to(dtype)[..., None]
    return scaled.flatten(1)


def join_quantized(parts: Sequence[QuantizedWeight]) -> QuantizedWeight:
    """Weights with common inputs as one, the outputs of each after those of the one before."""
    zeros = [part.zeros for part in parts if part.zeros is not None]
    return QuantizedWeight(
        torch.cat([part.values for part in parts]),
        torch.cat([part.scales for part in parts]),
        torch.cat(zeros) if zeros else None,
        parts[0].order,
    )


QUANTIZERS: Mapping[Quantization, Callable[[Tensor], QuantizedWeight]] = {
    "int8": quantize_int8,
    "fp8": quantize_fp8,
}
"""What the option `quantize` does to a weight at load."""
