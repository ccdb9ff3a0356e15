"""Computes how many slots of the engine `minicpmo` fit on a card. No GPU is used.

    python bench/memory_table.py

Prints Markdown. The estimate is that of the check when the engine loads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, QuantizationConfig
from antiphon.inference_worker.engines.minicpmo.model.memory import GIB, estimate
from random_model import config_of

FREE: Mapping[int, float] = {12: 11.5, 16: 15.5, 24: 23.5, 40: 39.0, 80: 79.0, 141: 139.0}
"""By GB of a card: the GiB that are assumed to be free without a display."""

WEIGHTS = ("bfloat16", "int8", "4 bits")

COLUMNS: Mapping[str, dict[str, Any]] = {
    "voice, 8192 tokens": {},
    "voice, 4096": {"context_tokens": 4096},
    "text, 8192": {"vocoder": "none"},
    "text, 4096": {"context_tokens": 4096, "vocoder": "none"},
}


def table() -> Iterator[str]:
    yield f"| card | free | weights | {' | '.join(COLUMNS)} |"
    yield "|---" * (3 + len(COLUMNS)) + "|"
    for card, free in FREE.items():
        for weights in WEIGHTS:
            counts = (str(slots(free, weights, options)) for options in COLUMNS.values())
            yield f"| {card} GB | {free} GiB | {weights} | {' | '.join(counts)} |"


def slots(free: float, weights: str, options: dict[str, Any]) -> int:
    """Sessions with these options that fit into `free` GiB."""
    config, chosen = config_of("real"), EngineOptions(**options)
    if weights == "int8":
        chosen = chosen.model_copy(update={"quantize": "int8"})
    if weights == "4 bits":
        packed = QuantizationConfig(quant_method="awq", group_size=128)
        config = config.model_copy(update={"quantization_config": packed})
    counted = estimate(config, chosen, "cuda", voices=chosen.vocoder != "none")
    return counted.fitting(int(free * GIB))


if __name__ == "__main__":
    print("\n".join(table()))
