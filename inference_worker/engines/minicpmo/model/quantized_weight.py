"""Weights of 8 or 4 bits per value, multiplied with activations of 16 bits.

Those of 4 bits are read from the checkpoints of three programs: AutoAWQ (gemm), GPTQ and compressed-tensors
(pack-quantized). All pack eight values into an int32, the first in its lowest bits.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import (
    ModelConfig,
    Quantization,
    QuantizationConfig,
)
from antiphon.inference_worker.engines.types import EngineLoadError

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


AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Which of the eight values of an int32 is output n: AutoAWQ stores outputs 0, 2, 4, 6, 1, 3, 5, 7."""

MIN_GROUP = 32
"""A product on tensor cores needs 16 values, and the halves of a group are multiplied separately."""

Parts = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class PackedFormat:
    """Names of the tensors in place of `weight`; `repack` makes a weight of them."""

    required: frozenset[str]
    optional: frozenset[str]
    repack: Callable[[Parts], QuantizedWeight]

    def names(self, module: str, found: Collection[str]) -> set[str]:
        """The tensors of `module` that the checkpoint must have."""
        optional = {f"{module}.{part}" for part in self.optional}
        return {f"{module}.{part}" for part in self.required} | (optional & set(found))


def packed_format(config: ModelConfig) -> PackedFormat | None:
    """The format of the checkpoint; None if its weights are not quantised.

    Raises EngineLoadError for a format that the engine does not read.
    """
    given = config.quantization_config
    if given is None:
        return None
    make = {"awq": _awq, "gptq": _gptq, "compressed-tensors": _compressed_tensors}.get(
        given.quant_method
    )
    if make is None:
        raise _unread(given, f"quant_method {given.quant_method}")
    return make(given)


def _awq(given: QuantizationConfig) -> PackedFormat:
    if given.bits != 4 or given.version.lower() != "gemm":
        raise _unread(given, f"AWQ of {given.bits} bits, version {given.version}")
    return PackedFormat(frozenset({"qweight", "qzeros", "scales"}), frozenset(), _repack_awq)


def _gptq(given: QuantizationConfig) -> PackedFormat:
    if given.bits != 4:
        raise _unread(given, f"GPTQ of {given.bits} bits")
    # The first version stores each zero less one.
    less = 0 if given.checkpoint_format == "gptq_v2" else 1

    def repack(parts: Parts) -> QuantizedWeight:
        return _repack_gptq(parts, less)

    names = frozenset({"qweight", "qzeros", "scales"})
    return PackedFormat(names, frozenset({"g_idx"}), repack)


def _compressed_tensors(given: QuantizationConfig) -> PackedFormat:
    schemes = [group.weights for group in given.config_groups.values()]
    if given.format != "pack-quantized" or any(s is None or s.num_bits != 4 for s in schemes):
        raise _unread(given, f"compressed-tensors {given.format} of other than 4 bits")
    return PackedFormat(
        frozenset({"weight_packed", "weight_scale", "weight_shape"}),
        frozenset({"weight_zero_point", "weight_g_idx"}),
        _repack_compressed,
    )


def _unread(given: QuantizationConfig, what: str) -> EngineLoadError:
    return EngineLoadError(
        f"the checkpoint is quantised as {what}, which this engine does not read; it reads 4 bits of "
        "AWQ (gemm), GPTQ and compressed-tensors (pack-quantized), or quantises the official "
        f"checkpoint itself with the option quantize=int8 or fp8; config.json says {given.quant_method}"
    )


def _repack_awq(parts: Parts) -> QuantizedWeight:
    """`qweight` (inputs, outputs / 8), `qzeros` (groups, outputs / 8), `scales` (groups, outputs)."""
    values, zeros = (
        _unpacked(parts[name], 1).view(len(parts[name]), -1, 8)[..., AWQ_ORDER].flatten(1)
        for name in ("qweight", "qzeros")
    )
    return _grouped(values.T, parts["scales"].T, zeros.T)


def _repack_gptq(parts: Parts, less: int) -> QuantizedWeight:
    """`qweight` (inputs / 8, outputs), `qzeros` (groups, outputs / 8), `scales` (groups, outputs)."""
    values, scales = _unpacked(parts["qweight"], 0).T, parts["scales"].T
    order = _order(parts.get("g_idx"), scales.shape[1])
    return _grouped(values, scales, _unpacked(parts["qzeros"], 1).T + less, order)


def _repack_compressed(parts: Parts) -> QuantizedWeight:
    """`weight_packed` (outputs, inputs / 8) and `weight_zero_point` (outputs / 8, groups), both stored
    with 8 added; `weight_scale` (outputs, groups), where one group is the whole row.
    """
    outputs, inputs = parts["weight_shape"].tolist()
    values, scales = _unpacked(parts["weight_packed"], 1)[:, :inputs], parts["weight_scale"]
    order = _order(parts.get("weight_g_idx"), scales.shape[1])
    zeros = torch.full_like(scales, 8, dtype=torch.uint8)
    if (packed := parts.get("weight_zero_point")) is not None:
        zeros = _unpacked(packed, 0)[:outputs]
    return _grouped(values, scales, zeros, order)


def _unpacked(packed: Tensor, dim: int) -> Tensor:
    """The eight values of 0 to 15 of each int32, along `dim`: one per byte."""
    values = [(packed >> shift & 15).to(torch.uint8) for shift in range(0, 32, 4)]
    return torch.stack(values, dim + 1).flatten(dim, dim + 1)


def _order(groups: Tensor | None, count: int) -> Tensor | None:
    """The inputs sorted by their group, if they are not (activation order). Raises EngineLoadError if
    the `count` groups are not of one size.
    """
    if groups is None:
        return None
    found, order = groups.long().sort(stable=True)
    size = len(found) // count
    if not torch.equal(found, torch.arange(len(found), device=found.device) // size):
        raise EngineLoadError("the checkpoint's g_idx has groups of several sizes")
    return None if torch.equal(groups.long(), found) else order


def _grouped(
    values: Tensor, scales: Tensor, zeros: Tensor, order: Tensor | None = None
) -> QuantizedWeight:
    """With groups that the Triton program can multiply: a row of one group is split into many."""
    inputs, group = values.shape[1], values.shape[1] // scales.shape[1]
    size = next((size for size in (128, 64, 32) if group % size == 0), 0)
    if not size or inputs % scales.shape[1]:
        raise EngineLoadError(
            f"the checkpoint has groups of {group} weights; this engine reads multiples of {MIN_GROUP}"
        )
    scales, zeros = (each.repeat_interleave(group // size, dim=1) for each in (scales, zeros))
    if order is not None:
        values = values[:, order]
    return pack_int4(values, scales, zeros, order)
