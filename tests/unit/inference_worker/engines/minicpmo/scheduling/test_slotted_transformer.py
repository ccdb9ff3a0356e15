"""Every shape that short steps can take while serving is known at load."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.slotted_transformer import (
    BatchShape,
    SlotInput,
    SlottedTransformer,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import EncodeAudio
from support.minicpmo.golden_set import CLOSE
from support.minicpmo.network_parts import runner_of

CONTEXT = 700


@pytest.fixture(scope="module", params=[1, 6, 8])
def runner(request: pytest.FixtureRequest, network: MiniCPMO, tokenizer: Tokenizer) -> ModelRunner:
    slots: int = request.param
    return runner_of(network, tokenizer, slots=slots, context=CONTEXT, speech_context=300)


@pytest.mark.parametrize("tokens", [1, 2, 5, 32])
def test_no_session_uses_a_new_shape(runner: ModelRunner, tokens: int) -> None:
    body = runner._text
    known = set(body._shapes(1 << (tokens - 1).bit_length()))
    met = {
        body._shape([SlotInput(slot, end - tokens, tokens, ()), SlotInput(0, 0, 1, ())])
        for slot in range(runner.slots)
        for end in range(tokens, CONTEXT + 1)
    }
    assert met == known


def test_warm_up_does_not_change_the_caches(runner: ModelRunner) -> None:
    lengths, rows = 3, {1: 1, 6: 4, 8: 4}[runner.slots]
    assert runner.warm_up() == 6 * rows * (lengths + 2)
    for cache in (runner.text_cache, runner.speech_cache):
        for tensor in (*cache.keys, *cache.values):
            assert not tensor[:, : cache.positions].any()


@pytest.mark.parametrize("slots", [[5], [5, 2, 0]])
def test_audio_is_encoded_for_the_sessions_in_the_batch_only(
    network: MiniCPMO, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, slots: list[int]
) -> None:
    """A row for each, padded to a power of two, and what each session would get alone."""
    runner, alone = (
        runner_of(network, tokenizer, slots=6, context=64, speech_context=64) for _ in range(2)
    )
    noise, met = torch.Generator().manual_seed(0), list[BatchShape]()
    run = SlottedTransformer._run

    def noted(self: SlottedTransformer, shape: BatchShape, inputs: tuple[Tensor, Tensor]) -> Tensor:
        met.append(shape)
        return run(self, shape, inputs)

    for start in (0, 50):
        steps = [
            EncodeAudio(slot, start, torch.randn(80, 102, generator=noise), 0, 2) for slot in slots
        ]
        want = [alone.run([step])[0] for step in steps]
        with monkeypatch.context() as patched:
            patched.setattr(SlottedTransformer, "_run", noted)
            got = runner.run(steps)
        for one, other in zip(got, want, strict=True):
            assert_close(one, other, **CLOSE)
    rows = {1: 1, 3: 4}[len(slots)]
    assert met == [BatchShape(0, rows, 50, 256, gathered=True)] * 2
    for keys in runner.audio_cache.keys:
        used = [slot for slot in range(6) if keys[slot, : keys.shape[1] - 1].any()]
        assert used == sorted(slots)
