"""Computes how many slots of the engine `minicpmo` fit on a card. No GPU is used.

    python bench/memory_table.py

Prints Markdown. The estimate is that of the check when the engine loads.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, QuantizationConfig
from antiphon.inference_worker.engines.minicpmo.model.memory import GIB, estimate
from random_model import config_of

FREE: Mapping[int, float] = {12: 11.5, 16: 15.5, 24: 23.5, 40: 39.0, 80: 79.0, 141: 139.0}
"""By GB of a card: the GiB that are assumed to be free without a display."""

WEIGHTS = ("bfloat16", "int8", "4 bits")

CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {"context_tokens": 4096},
    {"vocoder": "none"},
    {"context_tokens": 4096, "vocoder": "none"},
)
"""The numbers of a cell: with a voice and 8192 or 4096 tokens of context, then text only."""


def table() -> Iterator[str]:
    yield f"| card, GiB free | {' | '.join(WEIGHTS)} |"
    yield "|---" * (1 + len(WEIGHTS)) + "|"
    for card, free in FREE.items():
        cells = ("{}, {} / {}, {}".format(*counts(free, weights)) for weights in WEIGHTS)
        yield f"| {card} GB, {free:g} | {' | '.join(cells)} |"


def counts(free: float, weights: str) -> list[int]:
    return [slots(free, weights, options) for options in CHOICES]


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
