"""bfloat16 on the CPU: every part accepts the types of a GPU, with nearly the same results."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.config import SliceConfig
from antiphon.inference_worker.engines.minicpmo.model.load import compute_buffers
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.images import slice_image
from antiphon.inference_worker.engines.minicpmo.preprocess.mel import clip_mels
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from support.minicpmo import golden_set
from support.minicpmo.network_parts import PARTS, Answer, largest_error, runner_of
from support.minicpmo.step_recorder import Recorder, new_session


@pytest.fixture(scope="module")
def runner(network: MiniCPMO, tokenizer: Tokenizer) -> ModelRunner:
    halved = deepcopy(network).to(torch.bfloat16)
    compute_buffers(halved, torch.device("cpu"))  # as after loading: frequencies stay float32
    return runner_of(halved, tokenizer)


@pytest.mark.parametrize("does", PARTS)
def test_each_part_is_close_to_float32(
    network: MiniCPMO,
    tokenizer: Tokenizer,
    runner: ModelRunner,
    does: Callable[[ModelRunner], Answer],
) -> None:
    assert 0 < largest_error(does(runner_of(network, tokenizer)), does(runner)) < 0.03


def test_a_session_in_bfloat16(
    network: MiniCPMO, tokenizer: Tokenizer, runner: ModelRunner
) -> None:
    spec = golden_set.facts("d_duplex_omni")["spec"]
    session, recorder = new_session(network, tokenizer, spec), Recorder(runner)
    waves = golden_set.waves()
    prefix, suffix = spec["prefix_system_prompt"], spec["suffix_system_prompt"]
    recorder.run(session.prepare(prefix, suffix, clip_mels(waves["w_ref"])))
    spoken = 0
    for n in range(4):
        mel = session.audio_input.push(waves["w_omni"][n * 16000 : (n + 1) * 16000])
        recorder.run(session.prefill(mel, [slice_image(golden_set.image("a"), SliceConfig(), 1)]))
        spoken += len(recorder.run(session.generate()).codes)
        recorder.run(session.finalize())
    assert spoken > 0
    assert runner.text_cache.keys[0].dtype == torch.bfloat16
    assert runner.text_cache.keys[-1][1, : session.length].isfinite().all()
