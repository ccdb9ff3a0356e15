"""The real sizes on a GPU that keeps no numbers: devices, types, memory, and what a step launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
import torch
from minicpmo import golden_set
from minicpmo.fake_gpu import GPU, FakeGpu, fake_gpu, network_on
from torch._subclasses.fake_tensor import DataDependentOutputException

from inference_worker.engines.minicpmo.config import EngineOptions, ModelConfig
from inference_worker.engines.minicpmo.memory import GIB, needed_bytes
from inference_worker.engines.minicpmo.runner import Runner
from inference_worker.engines.minicpmo.sampler import Row, Sampler, SamplingSettings
from inference_worker.engines.minicpmo.speech_sampler import CodeRow, SpeechSettings
from inference_worker.engines.minicpmo.steps import (
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
from inference_worker.engines.minicpmo.tokenizer import Tokenizer

SLOTS, CONTEXT, SPEECH = 16, 8192, 4096
CODE = CodeRow(SpeechSettings(), (3, 3, 4), may_end=False, draw=0.4)
PATCHES = 1024

Card = tuple[FakeGpu, Runner]


@pytest.fixture(scope="module")
def config() -> ModelConfig:
    return ModelConfig.model_validate(golden_set.facts("real_param_shapes")["config"])


@pytest.fixture(scope="module")
def card(config: ModelConfig, tokenizer: Tokenizer) -> Iterator[Card]:
    sampler = Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")
    assert torch.backends.cuda.cudnn_sdp_enabled()
    with fake_gpu() as gpu:
        runner = Runner(
            network_on(config),
            sampler,
            slots=SLOTS,
            context=CONTEXT,
            speech_context=SPEECH,
            invariant=False,
        )
        yield gpu, runner
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


def test_attention_makes_no_plans(card: Card) -> None:
    """The runner of a GPU has settled the process: cuDNN, torch's first choice there, is out of it."""
    assert card
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.get_num_threads() == 1


def test_every_step_stays_on_the_gpu_in_bfloat16(card: Card) -> None:
    gpu, runner = card
    for name, steps in kinds_of_step().items():
        gpu.clear()
        answers = runner.run(steps)
        assert len(answers) == len(steps), name
        assert gpu.launched > 0, name
        assert gpu.product_types <= {torch.bfloat16}, name
        assert "waiting" not in gpu.copies, name
        assert gpu.reads == (name in {"choose", "write", "speak", "utter"}), name


def test_what_is_admitted_fits(card: Card, config: ModelConfig) -> None:
    """Weights, caches and the largest step's values; what else the check allows for is room for graphs."""
    gpu, runner = card
    options = EngineOptions(slots=SLOTS, context_tokens=CONTEXT, speech_tokens=SPEECH)
    admitted = needed_bytes(config, options, 2, voices=False)
    resting, most = gpu.held, 0
    for steps in kinds_of_step().values():
        gpu.clear()
        runner.run(steps)
        most = max(most, gpu.peak - resting)
    caches = sum(c.bytes for c in (runner.text_cache, runner.audio_cache, runner.speech_cache))
    assert resting == pytest.approx(admitted / 1.15, rel=1e-3)
    assert resting - caches == pytest.approx(17.47 * GIB, rel=1e-3)
    assert most < 1.5 * GIB
    assert resting + most + 3 * GIB < admitted


def test_a_token_is_few_launches(card: Card) -> None:
    """Each is some microseconds, in a graph or not: 36, 20 and 24 layers of about 20."""
    gpu, runner = card
    counted = {}
    for name in ("decode", "utter", "choose", "hear"):
        steps = kinds_of_step()[name]
        gpu.clear()
        runner.run(steps[:1])
        counted[name] = gpu.launched
    assert counted["decode"] <= 36 * 23 + 30
    assert counted["utter"] <= 20 * 20 + 60
    assert counted["choose"] <= 70
    assert counted["hear"] <= 24 * 18 + 30


def test_company_costs_no_launches(card: Card) -> None:
    gpu, runner = card
    for name in ("decode", "unit", "choose", "utter"):
        steps, counts = kinds_of_step()[name], []
        for many in (1, 4, SLOTS):
            gpu.clear()
            runner.run(steps[:many])
            counts.append(gpu.launched)
        assert all(after - before <= 2 * SLOTS for before, after in pairwise(counts)), name


def test_the_fake_sees_what_it_is_for(card: Card) -> None:
    gpu, _ = card
    gpu.clear()
    here, there = torch.zeros(3), torch.zeros(3, device=GPU)
    with pytest.raises(RuntimeError, match="device"):
        here + there
    with pytest.raises(DataDependentOutputException):
        there.sum().item()
    with pytest.raises(RuntimeError):
        there[there > 0]
    here.to(GPU)
    assert gpu.copies == ["waiting"]
    there.float() @ there
    assert gpu.product_types == {torch.float32}
    held = gpu.held
    more = torch.zeros(1000, device=GPU)
    assert gpu.held == held + 4000
    del more
    assert gpu.held == held
