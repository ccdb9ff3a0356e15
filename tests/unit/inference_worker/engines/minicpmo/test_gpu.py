"""Tests that need a GPU; skipped without one."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, KernelChoice
from antiphon.inference_worker.engines.minicpmo.model.load import load_network
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.processor import MiniCPMOProcessor
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import SamplingSettings
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import Feed, SampleToken
from antiphon.inference_worker.engines.minicpmo.scheduling.token_choice import (
    RecentTokens,
    TokenRow,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.streams import CodeChunk
from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import (
    Token2WavVocoder,
    free_unused_buffers,
    set_crossfade,
)
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import DuplexConfig
from support.minicpmo import golden_set, stepaudio_package
from support.minicpmo.golden_set import CHECKPOINT
from support.minicpmo.network_parts import (
    PARTS,
    Answer,
    largest_error,
    runner_of,
    speaks_beside_another,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
GREEDY = DuplexConfig(generate_audio=False, temperature=0.0, force_listen_count=0)


KERNELS: list[KernelChoice] = ["torch", "triton"]


def conversation(kernels: KernelChoice, *, cuda_graphs: bool) -> list[tuple[bool, str, int]]:
    options = EngineOptions(
        slots=2,
        context_tokens=512,
        speech_tokens=256,
        device="cuda",
        cuda_graphs=cuda_graphs,
        kernels=kernels,
    )
    engine = MiniCPMOProcessor(CHECKPOINT, options)
    engine.load(lambda _line: None)
    view, wave = engine.set_duplex_mode(), golden_set.waves()["w_duplex_audio"]
    view.prepare(golden_set.system_prompt("d_duplex_audio"), GREEDY)
    said = []
    for n in range(6):
        view.prefill(wave[n * 16000 : (n + 1) * 16000])
        result = view.generate()
        view.finalize()
        said.append((result.is_listen, result.text, view.kv_cache_length))
    view.cleanup()
    assert engine._parts is not None
    assert engine.memory().used > 0
    graphs = engine._parts.engine._runner.graphs
    assert (graphs.replayed > 0) == cuda_graphs
    assert graphs.eager == 0
    engine.close()
    return said


@pytest.mark.parametrize("kernels", KERNELS)
def test_graphs_change_nothing(kernels: KernelChoice) -> None:
    assert conversation(kernels, cuda_graphs=True) == conversation(kernels, cuda_graphs=False)


def test_feeding_does_not_wait_for_the_device() -> None:
    """The counterpart of test_host_waits.py, by the device's own report."""
    options = EngineOptions(slots=2, context_tokens=512, speech_tokens=256, device="cuda")
    engine = MiniCPMOProcessor(CHECKPOINT, options)
    engine.load(lambda _line: None)
    assert engine._parts is not None
    runner = engine._parts.engine._runner
    torch.cuda.set_sync_debug_mode("error")
    try:
        for tokens in (1, 2, 5, 11):
            runner.run([Feed(slot, 3, ((7,) * tokens,)) for slot in range(2)])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    engine.close()


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("cuda_graphs", [False, True])
@pytest.mark.parametrize("does", PARTS)
def test_each_part_is_close_to_the_cpu(
    network: MiniCPMO,
    tokenizer: Tokenizer,
    does: Callable[[ModelRunner], Answer],
    kernels: KernelChoice,
    *,
    cuda_graphs: bool,
) -> None:
    """The counterpart of test_bfloat16.py: other kernels, the same bound."""
    options = EngineOptions(device="cuda", kernels=kernels)
    on_gpu = load_network(CHECKPOINT, options, lambda _line: None)
    exact = does(runner_of(network, tokenizer))
    assert largest_error(exact, does(runner_of(on_gpu, tokenizer, cuda_graphs=cuda_graphs))) < 0.03


def drawn_tokens(network: MiniCPMO, tokenizer: Tokenizer, *, cuda_graphs: bool) -> list[list[int]]:
    """Tokens of two sessions, drawn from the same states with and without graphs."""
    runner = runner_of(network, tokenizer, slots=2, cuda_graphs=cuda_graphs)
    settings = SamplingSettings(temperature=3.0, top_p=0.95)
    width, states = network.config.hidden_size, torch.Generator().manual_seed(0)
    said = [RecentTokens(limit=4) for _ in range(2)]
    drawn: list[list[int]] = []
    for n in range(12):
        rows = [
            TokenRow(settings, said[slot], slot, (1.0, 0.07 * n + 0.1 * slot), written=slot == 1)
            for slot in range(2)
        ]
        state = torch.randn(2, width, generator=states).to(network.device, network.dtype)
        logits = network.llm.logits(state).float()
        steps = [SampleToken(each, row) for each, row in zip(logits, rows, strict=True)]
        drawn.append([token.token for token in runner.run(steps)])
        for recent, token in zip(said, drawn[-1], strict=True):
            recent.append(token)
    assert (runner.graphs.replayed, runner.graphs.eager) == ((24, 0) if cuda_graphs else (0, 0))
    return drawn


@torch.inference_mode()
def test_tokens_are_the_same_in_a_graph(tokenizer: Tokenizer) -> None:
    """Fails if CUDA refuses the capture: then the draws run without graphs."""
    network = load_network(CHECKPOINT, EngineOptions(device="cuda"), lambda _line: None)
    eager, graphed = (drawn_tokens(network, tokenizer, cuda_graphs=on) for on in (False, True))
    assert eager == graphed


def test_codes_are_the_same_on_one_stream_and_on_two(tokenizer: Tokenizer) -> None:
    network = load_network(CHECKPOINT, EngineOptions(device="cuda"), lambda _line: None)
    answers = []
    for speech_stream in (False, True):
        runner = runner_of(
            network, tokenizer, slots=3, cuda_graphs=True, speech_stream=speech_stream
        )
        answers.append(speaks_beside_another(runner))
    assert answers[0] == answers[1]


def audio_of_turns(release: str, graph_sizes: tuple[int, ...]) -> list[Samples]:
    """Four chunks of turns of two, then of three sessions, whose voices have three lengths."""
    card = torch.device("cuda")
    inner = stepaudio_package.token2wav(release)
    free_unused_buffers(inner)
    for network in (inner.flow, inner.hift):
        network.to(card)
    if release == stepaudio_package.EARLIER:
        set_crossfade(inner, card)
    prompt = inner._prepare_prompt
    inner._prepare_prompt = lambda path: [part.to(card) for part in prompt(path)]
    torch.cuda.synchronize()
    vocoder = Token2WavVocoder(inner, card, voice_seconds=3, graph_sizes=graph_sizes)
    vocoder.warm_up(3)
    assert vocoder.graphs.sizes == graph_sizes, "a capture failed; the log has the reason"
    draw = np.random.default_rng(2)
    waves = [draw.normal(0, 0.1, seconds * INPUT_RATE).astype(np.float32) for seconds in (1, 2, 3)]
    voices = [vocoder.clone(wave).base for wave in waves]
    captured, sounds = vocoder.graphs.replayed, []
    for count in (2, 3):
        streams = [voice.copy() for voice in voices[:count]]
        for ends in (False, False, False, True):
            codes = draw.integers(0, stepaudio_package.CODES, (count, 28)).tolist()
            chunks = [CodeChunk(*each, ends) for each in zip(streams, codes, strict=True)]
            sounds += vocoder._run_batch(chunks)
    assert (vocoder.graphs.replayed > captured) == bool(graph_sizes)
    vocoder.close()
    assert all(isinstance(sound, np.ndarray) for sound in sounds), sounds
    return sounds  # type: ignore[return-value]


@pytest.mark.parametrize("release", [stepaudio_package.EARLIER, stepaudio_package.LATER])
def test_graphs_of_the_vocoder_change_nothing(release: str) -> None:
    """As `test_chunk_graphs.py`, with real graphs. Padding selects other kernels, hence the bound."""
    with (
        torch.backends.cudnn.flags(enabled=True, allow_tf32=False),
        stepaudio_package.still_noise(),
    ):
        eager, graphed = audio_of_turns(release, ()), audio_of_turns(release, (1, 3))
    for one, other in zip(eager, graphed, strict=True):
        assert one.shape == other.shape
        assert np.abs(one - other).max(initial=0) < 0.01
    assert max(np.abs(sound).max(initial=0) for sound in eager) > 0.05
