"""How often the host waits for the device: a step of decoding or speech reads its draws and nothing else.

On a CPU nothing waits, so the test counts what would wait on a GPU: values read by the host, tables
sent by a blocking copy, and indices that are Python lists.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    CodeRow,
    SamplingSettings,
    SpeechSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    DecodeCodes,
    DecodeSpeech,
    EngineStep,
    Feed,
    RankTokens,
    SampleToken,
    SpeechCondition,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import (
    RecentTokens,
    TokenRow,
)
from support.minicpmo.network_parts import runner_of

READS = {Tensor.tolist, Tensor.item, Tensor.__bool__, Tensor.__int__, Tensor.__float__, Tensor.cpu}
INDEXING = {Tensor.__getitem__, Tensor.__setitem__}


class Waits(TorchFunctionMode):
    """Records what the host would wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.copies: list[str] = []

    def __torch_function__(
        self, func: Callable[..., Any], _types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func in READS:
            self.reads.append(func.__name__)
        elif (
            func is Tensor.to and not given.get("non_blocking") and torch.device in map(type, args)
        ):
            self.copies.append("to")
        elif func is torch.tensor and given.get("device") not in (None, "cpu"):
            self.copies.append("tensor")
        elif func in INDEXING and has_list(args[1]):
            self.copies.append("index")
        return func(*args, **given)


def has_list(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, list) for part in parts)


@pytest.fixture(scope="module")
def runner(network: MiniCPMO, tokenizer: Tokenizer) -> ModelRunner:
    return runner_of(network, tokenizer, slots=4, speech_context=128)


def ran(runner: ModelRunner, steps: list[EngineStep]) -> tuple[Waits, Any]:
    with Waits() as waits:
        answers = runner.run(steps)
    return waits, answers


@pytest.mark.parametrize("tokens", [1, 5])
def test_feeding_does_not_wait_for_the_device(runner: ModelRunner, tokens: int) -> None:
    waits, fed = ran(runner, [Feed(slot, 3, ((7,) * tokens,)) for slot in range(3)])
    assert len(fed) == 3
    assert (waits.reads, waits.copies) == ([], [])


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("written", [False, True])
def test_sampling_reads_once(runner: ModelRunner, *, written: bool, greedy: bool) -> None:
    settings = SamplingSettings(greedy=greedy, listen_top_k=2)
    logits = torch.randn(
        runner.network.config.vocab_size, generator=torch.Generator().manual_seed(0)
    )
    rows = [
        TokenRow(settings, RecentTokens(said), slot, (0.3, 0.6), written)
        for slot, said in enumerate(((), (5, 5, 9)))
    ]
    waits, _ = ran(runner, [SampleToken(logits, row) for row in rows])
    assert (waits.reads, waits.copies) == (["tolist"], [])
    feeds = [Feed(row.slot, 3, ((7,),), draw=row) for row in rows]
    waits, fed = ran(runner, [*feeds, Feed(2, 3, ((7, 8),))])
    assert (waits.reads, waits.copies) == (["tolist"], [])
    assert [each.drawn is not None for each in fed] == [True, True, False]


@pytest.mark.parametrize("greedy", [True, False])
def test_a_step_of_a_beam_search_reads_once(runner: ModelRunner, *, greedy: bool) -> None:
    logits = [torch.randn(runner.network.config.vocab_size) for _ in range(3)]
    settings = SamplingSettings(greedy=greedy, top_k=100)
    waits, [(scores, tokens)] = ran(runner, [RankTokens(logits, [[1, 2], [1], [3]], settings)])
    assert len(waits.reads) == 1
    assert waits.copies == []
    assert scores.shape == tokens.shape


def test_a_step_of_speech_reads_once(runner: ModelRunner) -> None:
    states = list(torch.ones(2, runner.network.config.hidden_size))
    waits, [condition] = ran(runner, [SpeechCondition([5, 6], states)])
    assert (waits.reads, waits.copies) == ([], [])
    row = CodeRow(SpeechSettings(), (3, 3, 4), may_end=False, draw=0.4)
    waits, codes = ran(runner, [DecodeSpeech(slot, 0, condition, row) for slot in range(3)])
    assert len(codes) == 3
    assert (waits.reads, waits.copies) == (["tolist"], [])
    said = CodeRow(SpeechSettings(), (3, 3, 7), may_end=True)
    waits, codes = ran(runner, [DecodeCodes(slot, 4, 7, said, (0.3,) * 5) for slot in range(3)])
    assert [len(drawn) for drawn in codes] == [5, 5, 5]
    assert (waits.reads, waits.copies) == (["tolist"], [])


def test_the_counter_detects_waits() -> None:
    table = torch.zeros(2, 3)
    with Waits() as waits:
        table[:, [0, 1]] = 1.0
        table.to(torch.device("cpu"))
        torch.tensor([1], device=table.device)
        assert table.sum() > 0
        table.sum().item()
    assert waits.copies == ["index", "to", "tensor"]
    assert waits.reads == ["__bool__", "item"]
