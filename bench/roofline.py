"""What a SPEAK unit must take at least: its bytes and FLOPs over the card's ceilings."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from inference_worker.engines.minicpmo.model.network import MiniCPMO


@dataclass(frozen=True)
class Card:
    """Ceilings of the device: memory bandwidth in TB/s, dense bfloat16 in TFLOP/s."""

    tbps: float
    tflops: float


def roofline(network: MiniCPMO, card: Card, *, sessions: int, context: int) -> list[str]:
    """A table of each stage's bound in milliseconds, for a batch of `sessions` at `context` tokens."""
    width, config = network.dtype.itemsize, network.config
    llm = _size(network.llm) - _size(network.llm.model.embed_tokens)
    tts = _size(network.tts.model.layers)
    per_token = config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    kv = 2 * width * per_token * context * sessions
    rows = [
        ("audio encoder", _size(network.apm), 1, 50, 0),
        ("prefill", llm, 1, 11, kv),
        ("decode", llm, 19, 19, 19 * kv),
        ("speech", tts, 26, 44, 0),
    ]
    lines = ["| stage | GB | TFLOP | bound, ms |", "|---|---|---|---|"]
    total = 0.0
    for name, parameters, passes, tokens, cache in rows:
        moved = (parameters * width * passes + cache) / 1e12
        work = 2 * parameters * tokens * sessions / 1e12
        bound = max(moved / card.tbps, work / card.tflops) * 1000
        total += bound
        lines.append(f"| {name} | {moved * 1000:.2f} | {work:.3f} | {bound:.2f} |")
    return [*lines, f"| all | | | {total:.2f} |"]


def _size(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
