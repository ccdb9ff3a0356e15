"""How many slots of the engine `minicpmo` fit cards, by arithmetic: no GPU is used or measured.

    python bench/memory_table.py

Prints Markdown. The estimate is the one of the check at load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.model.memory import GIB, estimate
from random_model import config_of

FREE: Mapping[int, float] = {12: 11.5, 16: 15.5, 24: 23.5, 40: 39.0, 80: 79.0, 141: 139.0}
"""GiB that a card of so many GB is assumed to have free without a display."""

COLUMNS: Mapping[str, tuple[int, bool]] = {
    "voice, 8192 tokens": (8192, True),
    "voice, 4096": (4096, True),
    "text, 8192": (8192, False),
    "text, 4096": (4096, False),
}


def table() -> Iterator[str]:
    """The lines of the table."""
    yield f"| card | free | weights | {' | '.join(COLUMNS)} |"
    yield "|---" * (3 + len(COLUMNS)) + "|"
    for card, free in FREE.items():
        counts = (slots(free, *column) for column in COLUMNS.values())
        yield f"| {card} GB | {free} GiB | bfloat16 | {' | '.join(map(str, counts))} |"


def slots(free: float, context: int, voices: bool) -> int:
    """Sessions of `context` tokens that fit into `free` GiB."""
    options = EngineOptions(context_tokens=context)
    counted = estimate(config_of("real"), options, "cuda", voices=voices)
    return counted.fitting(int(free * GIB))


if __name__ == "__main__":
    print("\n".join(table()))
