"""Every shape that short steps can take while serving is known at load."""

import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.runner import Runner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import Sampler
from antiphon.inference_worker.engines.minicpmo.scheduling.slotted_transformer import SlotInput

CONTEXT = 700


@pytest.fixture(scope="module", params=[1, 6, 8])
def runner(request: pytest.FixtureRequest, network: MiniCPMO, tokenizer: Tokenizer) -> Runner:
    sampler = Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")
    slots: int = request.param
    return Runner(
        network, sampler, slots=slots, context=CONTEXT, speech_context=300, invariant=False
    )


@pytest.mark.parametrize("tokens", [1, 2, 5, 32])
def test_no_session_uses_a_new_shape(runner: Runner, tokens: int) -> None:
    body = runner._text
    piece = torch.zeros(tokens, runner.network.config.hidden_size)
    known = set(body._shapes(1 << (tokens - 1).bit_length()))
    met = {
        body._shape([SlotInput(slot, end - tokens, piece), SlotInput(0, 0, piece[:1])])
        for slot in range(runner.slots)
        for end in range(tokens, CONTEXT + 1)
    }
    assert met == known


def test_warm_up_does_not_change_the_caches(runner: Runner) -> None:
    lengths, rows = 3, {1: 1, 6: 4, 8: 4}[runner.slots]
    assert runner.warm_up() == 6 * rows * (lengths + 2)
    for cache in (runner.text_cache, runner.speech_cache):
        for tensor in (*cache.keys, *cache.values):
            assert not tensor[:, : cache.positions].any()
