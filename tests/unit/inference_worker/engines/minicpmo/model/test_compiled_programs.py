"""The Triton programs, compiled for a Hopper GPU like by a worker at the real sizes."""

from pathlib import Path

import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import DecodeSpeech, Feed
from support.minicpmo import golden_set
from support.minicpmo.fake_gpu import GPU
from support.minicpmo.fake_serving import CODE, CONTEXT, kinds_of_step, serving
from support.minicpmo.offline_triton import stack_bytes

LONGEST = 40960
"""Maximum tokens of a slot."""

PROGRAMS = {"add_norm", "rotate_and_store", "attend_split", "combine_splits", "gate"}


@pytest.fixture
def shallow() -> ModelConfig:
    """The real sizes with one layer each: all layers run the same programs."""
    config = ModelConfig.model_validate(golden_set.facts("real_param_shapes")["config"])
    speech = config.tts_config.model_copy(update={"num_hidden_layers": 1})
    return config.model_copy(update={"num_hidden_layers": 1, "tts_config": speech})


def test_nothing_is_compiled_while_serving(
    shallow: ModelConfig,
    tokenizer: Tokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The warm-up compiles every specialisation that a session can need; all fit a multiprocessor.

    The smallest cards with bfloat16 give a program 99 KiB of shared memory.
    """
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with serving(shallow, tokenizer, fused=True, context=LONGEST) as card:
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
