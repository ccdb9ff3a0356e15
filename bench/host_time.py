"""Measures the CPU time of the engine thread for SPEAK units of many sessions in step, without a GPU.

    python bench/host_time.py --sessions 32

Sessions, engine and tables are the real ones, with the small vocabulary of the tests. The transformers and
the draws, which are CUDA graphs on a GPU, return constants. The rest is Python and the calls of torch, which
the host executes while a GPU computes. The sessions have a history of `--history` different tokens. Other
programs change the figures little, because they are CPU times. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import ForwardFunction
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import Engine, EngineJob
from antiphon.inference_worker.engines.minicpmo.scheduling.runner import Runner
from antiphon.inference_worker.engines.minicpmo.scheduling.slotted_transformer import BatchShape
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    EngineStep,
    SpeechSettings,
    Steps,
)
from antiphon.inference_worker.engines.minicpmo.sessions.context import AudioInput
from antiphon.inference_worker.engines.minicpmo.sessions.duplex import DuplexConversation
from antiphon.inference_worker.engines.minicpmo.sessions.speech_output import SpeechContext
from antiphon.shared_schemas.config import DuplexConfig
from random_model import TINY, WordySampler, config_of, random_network


class HostRunner(Runner):
    """A runner whose transformers return zeros; `spent` is CPU time by type of step, in ms."""

    def __init__(self, sessions: int) -> None:
        tokenizer = Tokenizer(TINY)
        super().__init__(
            random_network(config_of("tiny"), torch.device("cpu"), "torch"),
            WordySampler(tokenizer.ids, tokenizer.forbidden, "upstream"),
            slots=sessions,
            context=2048,
            speech_context=1024,
            invariant=False,
            ragged=True,
        )
        self.spent: dict[str, list[float]] = defaultdict(list)
        for transformer in (self._text, self._speech, self._audio):
            transformer._run = _zeros  # type: ignore[method-assign]  # noqa: SLF001
        # Graphs on a GPU: draws of tokens, and codes with their draws.
        for choice in self._choices.values():
            choice._choose = _no_tokens  # type: ignore[method-assign,assignment]  # noqa: SLF001
        self._codes._forward_of = _no_codes  # type: ignore[method-assign]  # noqa: SLF001

    def run(self, steps: Sequence[EngineStep]) -> Sequence[Any]:
        began = time.thread_time()
        answers = super().run(steps)
        self.spent[type(steps[0]).__name__].append((time.thread_time() - began) * 1000)
        return answers


def _zeros(shape: BatchShape, inputs: tuple[Tensor, Tensor]) -> Tensor:
    assert inputs[0].shape[:2] == (shape.rows, shape.new)
    return torch.zeros_like(inputs[0])


def _no_tokens(logits: Tensor, _settings: Tensor, _changes: Tensor) -> Tensor:
    return torch.ones(4, len(logits), dtype=torch.long)


def _no_codes(shape: BatchShape, count: int, *, restricted: bool) -> ForwardFunction:
    assert not restricted
    return lambda *_inputs: torch.zeros(shape.rows, count, dtype=torch.long)


def measure(sessions: int, units: int, history: int) -> tuple[float, dict[str, list[float]]]:
    """CPU time of the engine thread for a unit of all sessions, and by type of step, in ms."""
    runner = HostRunner(sessions)
    tokenizer, engine = Tokenizer(TINY), Engine(runner)
    noise = np.random.default_rng(0).normal(0, 0.05, 16000).astype(np.float32)

    def conversation(slot: int) -> DuplexConversation:
        made = DuplexConversation(
            slot,
            tokenizer,
            AudioInput(slot=slot, capacity=1500),
            SpeechContext(slot=slot, capacity=1024, end_code=-1, settings=SpeechSettings()),
            config=DuplexConfig(force_listen_count=0),
            options=EngineOptions(context_tokens=2048),
        )
        made.history.extend(range(history))
        return made

    def unit(one: DuplexConversation, mel: Tensor | None) -> Steps[None]:
        yield from one.prefill(mel)
        yield from one.generate()
        yield from one.finalize()

    def now() -> Steps[float]:
        return time.thread_time()
        yield

    crowd = [conversation(slot) for slot in range(sessions)]
    try:
        began = 0.0
        for n in range(units + 1):
            if n == 1:
                began = engine.run(now())
                runner.spent.clear()
            mels = [one.audio_input.push(noise) for one in crowd]
            jobs = [EngineJob(unit(*pair)) for pair in zip(crowd, mels, strict=True)]
            for future in [engine.submit(job) for job in jobs]:
                future.result()
        return (engine.run(now()) - began) * 1000 / units, runner.spent
    finally:
        engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--units", type=int, default=3)
    parser.add_argument("--history", type=int, default=460, help="different tokens said before")
    args = parser.parse_args()
    torch.set_num_threads(1)
    total, spent = measure(args.sessions, args.units, args.history)
    print(f"A SPEAK unit of {args.sessions} sessions, {args.history} tokens of history:")
    print(f"{total:.0f} ms of the engine thread\n")
    print("| step | batches | ms each | ms in a unit |\n|---|---|---|---|")
    for name, times in sorted(spent.items(), key=lambda item: -sum(item[1])):
        count, whole = len(times) / args.units, sum(times) / args.units
        print(f"| {name} | {count:.0f} | {np.median(times):.2f} | {whole:.0f} |")
    others = total - sum(map(sum, spent.values())) / args.units
    print(f"| sessions and scheduler | | | {others:.0f} |")


if __name__ == "__main__":
    main()
