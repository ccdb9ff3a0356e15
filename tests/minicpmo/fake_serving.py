"""A runner of the real sizes on a GPU that keeps no numbers, and every kind of step for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig
from antiphon.inference_worker.engines.minicpmo.runner import Runner
from antiphon.inference_worker.engines.minicpmo.sampler import Row, Sampler, SamplingSettings
from antiphon.inference_worker.engines.minicpmo.speech_sampler import CodeRow, SpeechSettings
from antiphon.inference_worker.engines.minicpmo.steps import (
    Choose,
    ChooseWord,
    Clear,
    Condition,
    Feed,
    Hear,
    HearClips,
    Reread,
    See,
    Shift,
    Step,
    Utter,
)
from antiphon.inference_worker.engines.minicpmo.tokenizer import Tokenizer
from minicpmo.fake_gpu import GPU, FakeGpu, fake_gpu, network_on
from minicpmo.offline_triton import Compiled, compiled_offline

SLOTS, CONTEXT, SPEECH = 16, 8192, 4096
CODE = CodeRow(SpeechSettings(), (3, 3, 4), may_end=False, draw=0.4)
PATCHES = 1024


@dataclass(frozen=True)
class Card:
    gpu: FakeGpu
    runner: Runner
    compiled: Compiled
    fused: bool

    def launched(self, name: str, steps: int) -> int:
        """How often something is launched for the first so many steps of a kind."""
        chosen = kinds_of_step()[name][:steps]
        self.gpu.clear()
        self.runner.run(chosen)
        return self.gpu.launched


@contextmanager
def serving(
    config: ModelConfig, tokenizer: Tokenizer, *, fused: bool, context: int = CONTEXT
) -> Iterator[Card]:
    """A runner of this network on a fake GPU."""
    sampler = Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")
    assert torch.backends.cuda.cudnn_sdp_enabled()
    with fake_gpu() as gpu, compiled_offline(gpu) as compiled:
        runner = Runner(
            network_on(config, fused=fused),
            sampler,
            slots=SLOTS,
            context=context,
            speech_context=SPEECH,
            invariant=False,
        )
        yield Card(gpu, runner, compiled, fused=fused)
    torch.backends.cuda.enable_cudnn_sdp(True)


def states(count: int) -> torch.Tensor:
    return torch.zeros(count, 4096, dtype=torch.bfloat16, device=GPU)


def logits() -> torch.Tensor:
    return torch.zeros(151748, device=GPU)


def pictures(parts: int) -> See:
    return See([torch.zeros(3, 14, 14 * PATCHES)] * parts, [(32, 32)] * parts)


def kinds_of_step() -> dict[str, Sequence[Step]]:
    """Every kind of step, as full as it comes; call within `fake_gpu`."""
    rows = [Row(SamplingSettings(listen_top_k=2), [5, 5, 9], (0.3, 0.6)) for _ in range(SLOTS)]
    every, condition = range(SLOTS), torch.zeros(19, 768, dtype=torch.bfloat16, device=GPU)
    return {
        "decode": [Feed(slot, CONTEXT - 1, ((7,),)) for slot in every],
        "unit": [Feed(slot, 4000, ((7,), states(10))) for slot in every],
        "prompt": [Feed(3, CONTEXT - 1024, ((7,) * 1024,))],
        "reread": [Reread(3, 4000, ((7,) * 512,))],
        "choose": [Choose(logits(), row) for row in rows],
        "write": [ChooseWord(logits(), row) for row in rows],
        "hear": [Hear(slot, 1400, torch.zeros(80, 104), 2, 2) for slot in every],
        "clips": [HearClips([torch.zeros(80, 3000)] * 4)],
        "see": [pictures(16)],
        "condition": [Condition([5] * 18, list(states(18)))],
        "speak": [Utter(slot, 0, condition, CODE) for slot in every],
        "utter": [Utter(slot, SPEECH - 1, 7, CODE) for slot in every],
        "shift": [Shift(3, 500, 100, 3500)],
        "clear": [Clear(3)],
    }
