"""Capture and replay of graphs on a CPU; test_duplex.py runs whole sessions with them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from structlog.testing import capture_logs
from torch import Tensor
from torch.testing import assert_close

from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import ANSWER_SPEECH
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling import slotted_transformer
from antiphon.inference_worker.engines.minicpmo.scheduling.cuda_graphs import GraphPool
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import (
    CodeRow,
    Sampler,
    SamplingSettings,
    SpeechSettings,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import (
    CODES_PER_STEP,
    DecodeCodes,
    DecodeSpeech,
    EncodeImages,
    Feed,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import (
    RecentTokens,
    TokenRow,
)
from antiphon.inference_worker.engines.types import EngineError
from support.minicpmo.cpu_graphs import CpuGraph, NoStream, use_cpu_graphs
from support.minicpmo.golden_set import CLOSE
from support.minicpmo.network_parts import runner_of

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _cpu_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    use_cpu_graphs(monkeypatch)


def inputs(value: float) -> tuple[Tensor, Tensor, Tensor]:
    return torch.full((2,), value), torch.zeros(2), torch.zeros(2)


def test_a_replay_uses_its_inputs_and_no_host_values() -> None:
    factor, pool = 2.0, GraphPool(CPU, enabled=True)

    def forward(embeds: Tensor, _positions: Tensor, _writes: Tensor) -> Tensor:
        return embeds * factor

    pool.capture("shape", inputs(1.0), forward)
    first = pool.run("shape", inputs(3.0), forward)
    factor = 10.0
    second = pool.run("shape", inputs(4.0), forward)
    assert (first.tolist(), second.tolist()) == ([6.0] * 2, [8.0] * 2)
    assert pool.run("another", inputs(4.0), forward).tolist() == [40.0] * 2
    assert (pool.replayed, pool.eager) == (2, 1)


@pytest.mark.parametrize(
    "forward",
    [
        lambda embeds, *_: torch.rand_like(embeds),
        lambda embeds, *_: embeds * embeds.sum().item(),
        lambda embeds, *_: embeds[embeds > 0],
    ],
    ids=["draws", "read by the host", "any shape"],
)
def test_uncapturable_operations_are_refused(forward: object) -> None:
    with pytest.raises(AssertionError):
        GraphPool(CPU, enabled=True).capture("shape", inputs(1.0), forward)  # type: ignore[arg-type]


def test_a_refused_capture_leaves_its_stream_and_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch's context does neither if the end of the capture raises."""

    @contextmanager
    def refused(_graph: object, **_: object) -> Iterator[None]:
        yield
        raise RuntimeError("operation not permitted when stream is capturing")

    left = list[object]()
    monkeypatch.setattr(torch.cuda, "graph", refused)
    monkeypatch.setattr(torch.cuda, "set_stream", left.append)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", lambda *of: left.append(of))
    pool = GraphPool(CPU, enabled=True)
    with pytest.raises(RuntimeError, match="not permitted"):
        pool.capture("shape", inputs(1.0), lambda embeds, *_: embeds)
    assert [type(each) for each in left] == [NoStream, tuple]
    assert left[1] == (0, pool._memory)
    assert "shape" not in pool


def test_every_step_of_a_unit_is_captured(network: MiniCPMO, tokenizer: Tokenizer) -> None:
    """One, two and sixteen text tokens, a second of audio, codes; at 1, 2 and 3 rows."""
    sampler = Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")
    runner = ModelRunner(
        network,
        sampler,
        slots=3,
        context=512,
        speech_context=300,
        invariant=False,
        cuda_graphs=True,
    )
    rows, text_lengths, speech_lengths, sound_lengths = 3, 2, 2, 4
    expected = rows * (3 * text_lengths + speech_lengths + sound_lengths)
    choices = 2 * 3  # duplex units and written answers, with 1, 2 and 3 rows
    convolutions = first_codes = 3  # with 1, 2 and 4 rows
    assert runner.capture_graphs() == expected + choices + convolutions + first_codes
    for cache in (runner.text_cache, runner.speech_cache, runner.audio_cache):
        for tensor in (*cache.keys, *cache.values):
            assert not tensor[:, : cache.positions].any()


def test_ragged_batches_are_captured(
    network: MiniCPMO, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Feeds of one, two and eleven tokens in one replay equal those that run alone."""
    monkeypatch.setattr(slotted_transformer, "RAGGED_COUNTS", (1, 2, 16))
    sampler = Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")
    sizes = {"slots": 3, "context": 256, "speech_context": 256, "invariant": False}
    eager = ModelRunner(network, sampler, **sizes)  # type: ignore[arg-type]
    ragged = ModelRunner(network, sampler, **sizes, cuda_graphs=True, ragged=True)  # type: ignore[arg-type]
    # text, speech, audio, codes, choices, convolutions, first codes
    assert ragged.capture_graphs() == 3 + 3 + 3 * 4 + 3 + 6 + 3 + 3
    feeds = [Feed(2, 0, ((5,) * 11,)), Feed(0, 0, ((6, 7),)), Feed(1, 0, ((8,),))]
    for steps in (feeds, [Feed(0, 2, ((9,),)), Feed(2, 11, ((9,),))]):
        together = ragged.run(steps)
        for step, fed in zip(steps, together, strict=True):
            [alone] = eager.run([step])
            assert_close(fed.logits, alone.logits, **CLOSE)
    assert (ragged.graphs.replayed, ragged.graphs.eager) == (2, 0)


@pytest.mark.parametrize("ragged", [True, False])
def test_codes_are_drawn_in_a_graph(
    network: MiniCPMO, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, *, ragged: bool
) -> None:
    """A unit and a written answer draw the codes that each would draw alone, one by one."""
    monkeypatch.setattr(slotted_transformer, "RAGGED_COUNTS", (1, 2, 16))
    sampler = Sampler(tokenizer.ids, tokenizer.forbidden, "upstream")
    sizes = {"slots": 3, "context": 256, "speech_context": 256, "invariant": False}
    one_by_one = ModelRunner(network, sampler, **sizes)  # type: ignore[arg-type]
    graphed = ModelRunner(network, sampler, **sizes, cuda_graphs=True, ragged=ragged)  # type: ignore[arg-type]
    graphed.capture_graphs()
    draws = {0: (0.2, 0.7, 0.9, 0.01, 0.5, 0.6), 2: (0.1, 0.99, 0.3, 0.4, 0.8, 0.35)}
    held, settings = 3, {0: SpeechSettings(), 2: ANSWER_SPEECH}
    alone: dict[int, list[int]] = {slot: [9 + slot] for slot in draws}
    for slot, uniforms in draws.items():
        for n, draw in enumerate(uniforms):
            row = CodeRow(settings[slot], tuple(alone[slot]), n >= held, draw)
            embedded = network.tts.embed_codes(torch.tensor(alone[slot][-1:]))
            step = DecodeSpeech(slot, 250 + n, embedded, row)
            alone[slot] += one_by_one.run([step])
    together: dict[int, list[int]] = {slot: [9 + slot] for slot in draws}
    for n in range(0, 6, CODES_PER_STEP):
        steps = [
            DecodeCodes(
                slot,
                250 + n,
                together[slot][-1],
                CodeRow(settings[slot], tuple(together[slot]), may_end=True),
                uniforms[n : n + CODES_PER_STEP],
                max(0, held - n),
            )
            for slot, uniforms in draws.items()
        ]
        for step, codes in zip(steps, graphed.run(steps), strict=True):
            together[step.slot] += codes
    assert together == alone
    assert (graphed.graphs.replayed, graphed.graphs.eager) == (6 // CODES_PER_STEP, 0)
    for layers in zip(one_by_one.speech_cache.keys, graphed.speech_cache.keys, strict=True):
        assert_close(*(keys[[0, 2], 250:256] for keys in layers), **CLOSE)


def drawn_in_turn(runner: ModelRunner, settings: SamplingSettings) -> list[list[int]]:
    """Tokens that three sessions draw, of which one starts later and one writes an answer."""
    uniforms = random.Random(5)
    said = {slot: RecentTokens(limit=4) for slot in range(3)}
    tokens: dict[int, list[int]] = {slot: [] for slot in said}
    for n in range(8):
        slots = [0, 1, 2] if n > 2 else [0, 2]
        feeds = []
        for slot in slots:
            draws = (uniforms.random(), uniforms.random())
            row = TokenRow(settings, said[slot], slot, draws, written=slot == 2)
            token = tokens[slot][-1] if tokens[slot] else 40 + slot
            feeds.append(Feed(slot, len(tokens[slot]), ((token,),), draw=row))
        for slot, fed in zip(slots, runner.run(feeds), strict=True):
            tokens[slot].append(fed.drawn.token)
            if fed.drawn.recorded:
                said[slot].append(fed.drawn.token)
    return list(tokens.values())


@pytest.mark.parametrize("greedy", [True, False])
def test_tokens_are_drawn_in_a_graph(
    network: MiniCPMO, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, *, greedy: bool
) -> None:
    """The tokens that are drawn without graphs. Without top-k they are drawn without a graph."""
    monkeypatch.setattr(slotted_transformer, "RAGGED_COUNTS", (1, 2, 4))
    eager, graphed = (
        runner_of(network, tokenizer, slots=3, cuda_graphs=on) for on in (False, True)
    )
    settings = SamplingSettings(greedy=greedy, temperature=3.0, top_p=0.95, listen_top_k=1)
    before = graphed.graphs.replayed
    assert drawn_in_turn(graphed, settings) == drawn_in_turn(eager, settings)
    # Eight feeds, and a draw of duplex units and one of written answers in each.
    assert graphed.graphs.replayed - before == 8 * 3
    assert graphed.graphs.eager == 0
    without = SamplingSettings(greedy=greedy, temperature=3.0, top_k=0)
    assert drawn_in_turn(graphed, without) == drawn_in_turn(eager, without)
    assert graphed.graphs.eager == 0


def test_tokens_are_drawn_without_a_graph_if_the_capture_fails(
    network: MiniCPMO, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the reason, and all other graphs remain."""
    settings = SamplingSettings(temperature=3.0)
    want = drawn_in_turn(runner_of(network, tokenizer, slots=3), settings)
    choose = Sampler.choose

    def uncapturable(self: Sampler, logits: Tensor, *rest: Any) -> Tensor:
        table = choose(self, logits, *rest)
        if isinstance(torch.utils._python_dispatch._get_current_dispatch_mode(), CpuGraph):
            table.sum().item()
        return table

    monkeypatch.setattr(Sampler, "choose", uncapturable)
    with capture_logs() as logs:
        runner = runner_of(network, tokenizer, slots=3, cuda_graphs=True)
    assert [entry["event"] for entry in logs] == ["token_graphs_off"] * 2
    assert all("read by the host" in entry["reason"] for entry in logs)
    assert drawn_in_turn(runner, settings) == want
    assert runner.graphs.replayed == 8
    assert runner.graphs.eager == 16


def test_codes_past_the_end_of_the_cache_are_not_stored(
    network: MiniCPMO, tokenizer: Tokenizer
) -> None:
    runner = runner_of(network, tokenizer)
    last = runner.speech_cache.positions - 1
    row = CodeRow(SpeechSettings(), (7,), may_end=True)
    [codes] = runner.run([DecodeCodes(1, last, 7, row, (0.5,) * 4)])
    assert len(codes) == 4
    for keys in runner.speech_cache.keys:
        assert keys[1, last].any()
        assert not keys[1, :last].any()


def test_a_row_whose_codes_are_not_finite_fails_alone(
    network: MiniCPMO, tokenizer: Tokenizer
) -> None:
    runner = runner_of(network, tokenizer)
    for keys in runner.speech_cache.keys:
        keys[0, :3] = float("nan")
    row = CodeRow(SpeechSettings(), (7,), may_end=True)
    failed, codes = runner.run([DecodeCodes(slot, 3, 7, row, (0.5, 0.5)) for slot in (0, 1)])
    assert isinstance(failed, EngineError)
    assert len(codes) == 2


def test_pictures_of_several_sessions_share_a_graph(
    network: MiniCPMO, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of different grids. What a step of more slices, or a very long one, gets without a graph, is the same."""
    monkeypatch.setattr(
        "antiphon.inference_worker.engines.minicpmo.scheduling.model_runner.PICTURE_COUNTS", (2,)
    )
    runner = runner_of(network, tokenizer, cuda_graphs=True)
    noise = torch.Generator().manual_seed(0)

    def step(*grids: tuple[int, int]) -> EncodeImages:
        pixels = [
            torch.randn(3, 14, 14 * rows * columns, generator=noise) for rows, columns in grids
        ]
        return EncodeImages(pixels, list(grids))

    steps = [step((28, 37)), step((33, 31))]
    got = runner.run(steps)
    assert (runner.graphs.replayed, runner.graphs.eager) == (1, 0)
    for each, seen in zip(steps, got, strict=True):
        assert_close(seen, network.encode_images(each.pixels, each.grids), **CLOSE)
    others = [step((2, 2), (3, 3), (2, 3)), step((2, 130))]
    for each in others:
        [seen] = runner.run([each])
        assert_close(seen, network.encode_images(each.pixels, each.grids), **CLOSE)
    assert runner.graphs.replayed == 1
