"""The Triton programs, compiled for a Hopper GPU like by a worker at the real sizes."""

import re
from itertools import product
from pathlib import Path

import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig
from antiphon.inference_worker.engines.minicpmo.model.fused_kernels import FusedKernels
from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import (
    QUANTIZERS,
    pack_int4,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import DecodeSpeech, Feed
from support.minicpmo import golden_set
from support.minicpmo.fake_gpu import GPU, fake_gpu
from support.minicpmo.fake_serving import CODE, CONTEXT, kinds_of_step, serving, with_layers
from support.minicpmo.offline_triton import compiled_offline, stack_bytes

# The compiler takes seconds of CPU time per program, which a busy machine stretches.

pytestmark = pytest.mark.usefixtures("compiler_cache")

LONGEST = 40960
"""Maximum tokens of a slot."""

PROGRAMS = {
    "add_norm",
    "rotate_and_store",
    "attend_split",
    "combine_splits",
    "gate",
    "multiply_packed",
    "unpack",
}


@pytest.fixture
def shallow() -> ModelConfig:
    """The real sizes with one layer each: all layers run the same programs."""
    config = ModelConfig.model_validate(golden_set.facts("real_param_shapes")["config"])
    return with_layers(config, text=1, speech=1, audio=1, vision=2)  # the last of vision is unused


@pytest.mark.parametrize(
    ("form", "capability"), [*product(("int8", "int4"), (80, 90)), *product(("fp8",), (89, 90))]
)
def test_products_with_quantised_weights_fit_a_multiprocessor(
    form: str, capability: int, tmp_path: Path
) -> None:
    """For Ampere, Ada and Hopper: nothing spills, and all numbers of tokens use four programs."""
    with fake_gpu() as gpu, compiled_offline(gpu, capability) as compiled:
        full = torch.zeros(64, 12288, dtype=torch.bfloat16, device=GPU)
        scales = full.new_zeros(64, 96)
        made = QUANTIZERS.get(form)  # type: ignore[call-overload]
        weight = made(full) if made else pack_int4(full, scales, scales)
        for tokens in (1, 16, 17, 33, 64, 65, 256, 257, 512):
            FusedKernels().multiply(full.new_zeros(tokens, 1, 12288), weight)
    assert {name: len(ways) for name, ways in compiled.programs.items()} == {
        "multiply_packed": 3,
        "unpack": 1,
    }
    for name, ways in compiled.programs.items():
        for program in ways.values():
            assert program.metadata.shared <= 99 * 1024, name
            assert stack_bytes(program, tmp_path) == 0, name
    # Copies that may still be under way when one is waited for. Programs of 64 tokens have no room for more.
    depths = [
        max(map(int, re.findall(r"cp\.async\.wait_group\s+(\d+)", program.asm["ptx"])))
        for program in compiled.programs["multiply_packed"].values()
    ]
    assert sorted(depths)[1] >= 8


def test_nothing_is_compiled_while_serving(
    shallow: ModelConfig,
    tokenizer: Tokenizer,
    tmp_path: Path,
) -> None:
    """The warm-up compiles every specialisation that a session can need; all fit a multiprocessor.

    Weights of 4 bits run the programs of plain ones and their own.
    The smallest cards with bfloat16 give a program 99 KiB of shared memory.
    """
    with serving(shallow, tokenizer, fused=True, context=LONGEST, weights="packed") as card:
        card.runner.warm_up()
        known = card.compiled.count
        for tokens in (1, 2, 3, 5, 11, 16, 17, 32, 33, 40, 600):
            for start in (0, 7, CONTEXT - 600):
                card.runner.run([Feed(5, start, ((7,) * tokens,))])
        for codes in (1, 19, 45):
            piece = torch.zeros(codes, 768, dtype=torch.bfloat16, device=GPU)
            card.runner.run([DecodeSpeech(2, 5, piece, CODE)])
        for steps in kinds_of_step().values():
            card.runner.run(steps)
        assert card.compiled.count == known
        assert set(card.compiled.programs) == PROGRAMS
        for name, ways in card.compiled.programs.items():
            for program in ways.values():
                assert program.metadata.shared <= 99 * 1024, name
                assert stack_bytes(program, tmp_path) == 0, name
