"""The real sizes on a GPU without numbers: devices, types, memory, and launches per step."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, ModelConfig
from antiphon.inference_worker.engines.minicpmo.model.memory import (
    GIB,
    GRAPH_BYTES,
    RESERVE_BYTES,
    STEP_BYTES,
    estimate,
)
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import PICTURE_COUNTS
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import SamplingSettings
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_PER_STEP,
    MAX_PICTURES,
    PICTURE_PATCHES,
    Feed,
    ShiftCache,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import (
    RecentTokens,
    TokenRow,
    settings_table,
)
from support.minicpmo import golden_set
from support.minicpmo.fake_gpu import GPU
from support.minicpmo.fake_serving import (
    CONTEXT,
    SLOTS,
    SPEECH,
    Card,
    kinds_of_step,
    pictures,
    serving,
    with_layers,
)

TEXT_LAYERS, SPEECH_LAYERS, AUDIO_LAYERS = 6, 4, 4
"""Of 36, 20 and 24: every layer launches the same, and values of a layer are freed before the next."""

ANY_KERNELS = pytest.mark.parametrize("card", ["torch"], indirect=True)
"""For what the kernels of a decoder layer do not change."""


@pytest.fixture(scope="module")
def real() -> ModelConfig:
    return ModelConfig.model_validate(golden_set.facts("real_param_shapes")["config"])


@pytest.fixture(scope="module")
def config(real: ModelConfig) -> ModelConfig:
    """The real sizes with fewer layers."""
    return with_layers(real, text=TEXT_LAYERS, speech=SPEECH_LAYERS, audio=AUDIO_LAYERS, vision=3)


def admitted(config: ModelConfig) -> float:
    """Bytes of weights and caches that the engine counts."""
    options = EngineOptions(slots=SLOTS, context_tokens=CONTEXT, speech_tokens=SPEECH)
    counted = estimate(config, options, "cuda", voices=False)
    return counted.of(SLOTS) - 2 * STEP_BYTES - GRAPH_BYTES - RESERVE_BYTES


def test_all_layers_hold_what_is_counted(real: ModelConfig, tokenizer: Tokenizer) -> None:
    """The only test with all layers. It is the first, since a card switches cuDNN's attention off."""
    with serving(real, tokenizer, fused=False) as card:
        runner, held = card.runner, card.gpu.held
        caches = sum(c.bytes for c in (runner.text_cache, runner.audio_cache, runner.speech_cache))
        assert held == pytest.approx(admitted(real), rel=1e-3)
        assert held - caches == pytest.approx(17.47 * GIB, rel=1e-3)


@pytest.fixture(scope="module", params=["torch", "triton"])
def card(
    request: pytest.FixtureRequest,
    config: ModelConfig,
    tokenizer: Tokenizer,
    compiler_cache: Path,
) -> Iterator[Card]:
    with serving(config, tokenizer, fused=request.param == "triton") as card:
        yield card


@ANY_KERNELS
def test_cudnn_attention_is_off(card: Card) -> None:
    """The runner of a GPU switches off cuDNN's attention, torch's first choice."""
    assert card
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.get_num_threads() == 1


@dataclass(frozen=True)
class StepCost:
    """What a full batch of one type of step did; `most` is its largest memory in bytes."""

    steps: int
    answers: int
    launched: int
    product_types: frozenset[torch.dtype]
    copies: tuple[str, ...]
    reads: int
    most: int


@pytest.fixture(scope="module")
def resting(card: Card) -> int:
    """Bytes that are held between steps."""
    return card.gpu.held


@pytest.fixture(scope="module")
def costs(card: Card, resting: int) -> dict[str, StepCost]:
    """Of each type of step."""
    gpu, costs = card.gpu, dict[str, StepCost]()
    for name, steps in kinds_of_step().items():
        gpu.clear()
        answers = card.runner.run(steps)
        costs[name] = StepCost(
            len(steps),
            len(answers),
            gpu.launched,
            frozenset(gpu.product_types),
            tuple(gpu.copies),
            gpu.reads,
            gpu.peak - resting,
        )
    return costs


def test_every_step_stays_on_the_gpu_in_bfloat16(costs: dict[str, StepCost]) -> None:
    for name, cost in costs.items():
        assert cost.answers == cost.steps, name
        assert cost.launched > 0, name
        assert cost.product_types <= {torch.bfloat16}, name
        assert "waiting" not in cost.copies, name
        waits = name in {"choose", "continue", "write", "speak", "code", "codes", "answer"}
        assert cost.reads == waits, name


def test_an_admitted_configuration_fits(
    card: Card, config: ModelConfig, resting: int, costs: dict[str, StepCost]
) -> None:
    """Weights, caches, the values of the largest step, and the tensors of graphs are counted."""
    most = max(cost.most for cost in costs.values())
    assert resting == pytest.approx(admitted(config), rel=1e-3)
    assert 1.4 * STEP_BYTES < most < 2 * STEP_BYTES
    assert _graph_bytes(card) < GRAPH_BYTES - GIB // 4


def _graph_bytes(card: Card) -> int:
    """Bytes of tensors that captured graphs hold: the values of the largest one of each pool, and all
    inputs and outputs.
    """
    gpu, resting, most, kept = card.gpu, card.gpu.held, 0, 0
    for transformer in (card.runner._text, card.runner._speech, card.runner._audio):
        shapes = [shape for new in transformer._graphed for shape in transformer._shapes(new)]
        if not shapes:
            continue
        for shape in shapes:
            embeds, tokens = transformer._discarded_inputs(shape)
            kept += 2 * embeds.nbytes + tokens.nbytes  # the output is as large as the embeddings
        largest = max(shapes, key=lambda shape: shape.tokens * shape.length)
        inputs = transformer._discarded_inputs(largest)
        gpu.clear()
        transformer.forward_of(largest)(*inputs)
        most = max(most, gpu.peak - resting)
        del inputs
    return max(most, _draw_bytes(card), _picture_bytes(card)) + _code_bytes(card) + kept


def _picture_bytes(card: Card) -> int:
    """The values of the largest graph of pictures, and the inputs and outputs of all of them."""
    network, gpu = card.runner.network, card.gpu
    pixels, grids = [torch.zeros(3, 14, 14)] * MAX_PICTURES, [(1, 1)] * MAX_PICTURES
    slices = network.place_images(pixels, grids, PICTURE_PATCHES)
    resting = gpu.held
    gpu.clear()
    seen = network.encode_slices(*slices)
    each = sum(part.nbytes for part in slices) + seen.nbytes
    return gpu.peak - resting + sum(each * count // MAX_PICTURES for count in PICTURE_COUNTS)


def _draw_bytes(card: Card) -> int:
    """The values of the largest draw of tokens, without its inputs."""
    gpu, most = card.gpu, 0
    rows = [TokenRow(SamplingSettings(), RecentTokens())] * SLOTS
    for choice in card.runner._choices.values():
        logits = torch.zeros(SLOTS, choice._vocabulary, device=GPU)
        inputs = settings_table(rows, GPU), choice._history.changes([], SLOTS)
        resting = gpu.held
        gpu.clear()
        choice._choose(logits, *inputs)
        most = max(most, gpu.peak - resting)
    return most


def _code_bytes(card: Card) -> int:
    """The same for a graph of codes. Its inputs and outputs are a few numbers for each row."""
    decoder, speech, resting = card.runner._codes, card.runner._speech, card.gpu.held
    largest = max(speech.token_shapes(SLOTS), key=lambda shape: shape.tokens * shape.length)
    inputs = decoder.discarded_inputs(largest)
    card.gpu.clear()
    decoder._forward_of(largest, CODES_PER_STEP, decoder._usual_candidates)(*inputs)
    return card.gpu.peak - resting


def test_a_token_is_few_launches(card: Card) -> None:
    """Each launch takes microseconds, also in a graph: of each layer so many, and of the rest."""
    text, speech = ((10, 19), (10, 52)) if card.fused else ((20, 24), (17, 57))
    assert card.launched("decode", 1) <= TEXT_LAYERS * text[0] + text[1]
    assert card.launched("code", 1) <= SPEECH_LAYERS * speech[0] + speech[1]
    assert card.launched("answer", 1) <= card.launched("code", 1) + 27
    assert card.launched("choose", 1) <= 70
    assert card.launched("hear", 1) <= AUDIO_LAYERS * 19 + 21


def test_more_sessions_need_no_more_launches(card: Card) -> None:
    for name in ("decode", "unit", "choose", "code", "condition"):
        counts = [card.launched(name, many) for many in (1, 4, SLOTS)]
        assert all(after - before <= 2 * SLOTS for before, after in pairwise(counts)), name


@pytest.mark.parametrize("tokens", [32, 128, 512])
def test_attention_has_a_bounded_number_of_programs(card: Card, tokens: int) -> None:
    """Of all sessions, at the longest context: a program for each tile, key head and share of the cache."""
    each = tokens // 4
    card.compiled.launched.clear()
    card.runner.run([Feed(slot, CONTEXT - each, ((7,) * each,)) for slot in range(4)])
    tiles = min(tokens, tokens // (4 if tokens <= 32 else 16) + SLOTS + 1)
    assert set(card.compiled.launched["attend_split"]) == (
        {tiles * 8 * 16} if card.fused else set()
    )


@ANY_KERNELS
def test_a_window_slides_in_few_launches(card: Card) -> None:
    """Several layers together: full contexts leave room for two, and those of a minute for all."""
    for count, batches in ((CONTEXT // 2, TEXT_LAYERS // 2), (500, 1)):
        card.gpu.clear()
        card.runner.run([ShiftCache(3, 100, 50, count)])
        assert card.gpu.launched <= 8 + 9 * batches


@ANY_KERNELS
def test_pictures_of_several_sessions_are_few_launches(card: Card) -> None:
    """Nearly as many as those of one session: each slice is copied alone."""
    card.gpu.clear()
    card.runner.run([pictures(1)])
    alone = card.gpu.launched
    card.gpu.clear()
    card.runner.run([pictures(1) for _ in range(MAX_PICTURES)])
    assert card.gpu.launched <= alone + 3 * MAX_PICTURES


@ANY_KERNELS
def test_the_fake_gpu_detects_mistakes(card: Card) -> None:
    gpu = card.gpu
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
