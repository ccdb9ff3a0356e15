"""Writes the tiny checkpoint as AutoAWQ, GPTQ and compressed-tensors pack it: with plain loops, from the
descriptions of the formats, not with the engine's code.
"""

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from support.minicpmo.golden_set import CHECKPOINT


def _group() -> int:
    """At most 64, and a divisor of the width of every linear module of the tiny network."""
    config = json.loads((CHECKPOINT / "config.json").read_bytes())
    heads = config["num_attention_heads"] * config["head_dim"]
    return math.gcd(64, config["hidden_size"], heads, config["intermediate_size"])


GROUP = _group()

LAYER = "llm.model.layers.1"

FORMATS = ("awq", "gptq", "gptq_act_order", "gptq_v2", "compressed", "compressed_asymmetric")

CONFIGS: dict[str, dict[str, Any]] = {
    "awq": {
        "quant_method": "awq",
        "bits": 4,
        "group_size": GROUP,
        "version": "gemm",
        "zero_point": True,
    },
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False},
    "gptq_v2": {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": GROUP,
        "checkpoint_format": "gptq_v2",
    },
    "compressed": {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "strategy": "group", "group_size": GROUP},
                "input_activations": None,
            }
        },
    },
}
CONFIGS["gptq_act_order"] = CONFIGS["gptq"] | {"desc_act": True}
CONFIGS["compressed_asymmetric"] = CONFIGS["compressed"]

Grid = list[list[int]]


def quantized(weight: Tensor, *, symmetric: bool) -> tuple[Grid, Tensor, Grid]:
    """Values of 0 to 15 (outputs, inputs), float16 scales and integer zeros (outputs, groups)."""
    grouped = weight.float().unflatten(1, (-1, GROUP))
    low, high = grouped.amin(2).clamp(max=0), grouped.amax(2).clamp(min=0)
    if symmetric:
        high = torch.maximum(high, -low)
        low = -high
    scales = ((high - low) / 15 + 1e-6).half()
    zeros = torch.full_like(low, 8) if symmetric else (-low / scales).round().clamp(0, 15)
    values = (grouped / scales.float()[..., None] + zeros[..., None]).round().clamp(0, 15)
    return values.int().flatten(1).tolist(), scales, zeros.int().tolist()


def exact(values: Grid, scales: Tensor, zeros: Grid) -> Tensor:
    """The weight (outputs, inputs) that these mean, by the definition."""
    return torch.tensor(
        [
            [(value - zero[k // GROUP]) * scale[k // GROUP] for k, value in enumerate(row)]
            for row, scale, zero in zip(values, scales.tolist(), zeros, strict=True)
        ]
    )


def word(eight: Sequence[int]) -> int:
    """Eight values as a signed 32-bit integer, the first in the lowest bits."""
    total = 0
    for place, value in enumerate(eight):
        total |= value << 4 * place
    return total - 2**32 if total >= 2**31 else total


def words(rows: Grid, order: Sequence[int] = range(8)) -> Tensor:
    """Each eight neighbours of a row as one word, in this order."""
    packed = [
        [word([row[start + k] for k in order]) for start in range(0, len(row), 8)] for row in rows
    ]
    return torch.tensor(packed, dtype=torch.int32)


def turned(rows: Grid) -> Grid:
    return [list(column) for column in zip(*rows, strict=True)]


def packed(weight: Tensor, form: str) -> tuple[dict[str, Tensor], Tensor]:
    """The tensors of a linear module in the format, and the weight that they mean."""
    # Activation order: groups are made of the inputs in another order, and stored in their own.
    order, place = list(range(weight.shape[1])), list(range(weight.shape[1]))
    if form == "gptq_act_order":
        order = torch.randperm(len(order), generator=torch.Generator().manual_seed(6)).tolist()
        place = sorted(place, key=order.__getitem__)
    values, scales, zeros = quantized(weight[:, order], symmetric=form == "compressed")
    meant = exact(values, scales, zeros)[:, place]
    values = [[row[k] for k in place] for row in values]
    if form == "awq":
        order = [0, 2, 4, 6, 1, 3, 5, 7]
        return {
            "qweight": words(turned(values), order),
            "qzeros": words(turned(zeros), order),
            "scales": scales.T.contiguous(),
        }, meant
    if form.startswith("gptq"):
        less = 0 if form == "gptq_v2" else 1
        stored = [[(zero - less) % 16 for zero in row] for row in turned(zeros)]
        return {
            "qweight": words(values).T.contiguous(),
            "qzeros": words(stored),
            "scales": scales.T.contiguous(),
            "g_idx": torch.tensor([k // GROUP for k in place], dtype=torch.int32),
        }, meant
    parts = {
        "weight_packed": words(values),
        "weight_scale": scales.bfloat16(),
        "weight_shape": torch.tensor(weight.shape),
    }
    if form == "compressed_asymmetric":
        parts["weight_zero_point"] = words(turned(zeros)).T.contiguous()
    return parts, exact(values, scales.bfloat16(), zeros)


def write_folder(folder: Path, form: str) -> dict[str, Tensor]:
    """The tiny checkpoint with a layer in the format; returns the weights that the packed tensors mean.

    Plain loops need a second for each layer, and other programs leave some modules plain too.
    """
    shutil.copy(CHECKPOINT / "tokenizer.json", folder)
    config = json.loads((CHECKPOINT / "config.json").read_bytes())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": CONFIGS[form]}))
    stored, meant = load_file(CHECKPOINT / "model.safetensors"), dict[str, Tensor]()
    for name in list(stored):
        module = name.removesuffix(".weight")
        if module.startswith(f"{LAYER}.") and module.endswith("_proj"):
            parts, meant[name] = packed(stored.pop(name), form)
            stored |= {f"{module}.{leaf}": tensor for leaf, tensor in parts.items()}
    save_file(stored, folder / "model.safetensors")
    return meant
