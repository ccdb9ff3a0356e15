"""Token2wav at the real sizes on a GPU without numbers: launches, waits and memory of many streams."""

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.model.memory import (
    DRIVER_BYTES,
    TOKEN2WAV_BYTES,
    chunk_bytes,
    chunk_graph_bytes,
    voice_bytes,
)
from antiphon.inference_worker.engines.minicpmo.scheduling import cuda_graphs
from antiphon.inference_worker.engines.minicpmo.token2wav.streams import CodeChunk, VoiceStream
from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import (
    Token2WavVocoder,
    free_unused_buffers,
)
from support.minicpmo import stepaudio_package
from support.minicpmo.cpu_graphs import EmptyGraph, use_cpu_graphs
from support.minicpmo.fake_gpu import GPU, FakeGpu, fake_gpu
from support.minicpmo.stepaudio_package import EARLIER, LATER

SLOTS = 8
OPTIONS = EngineOptions(slots=SLOTS, vocoder_steps=2)
CODES_OF_VOICES = (150, 125)
"""Voices of 6 s, the longest by default, and of 5 s."""

TOKENIZER_BYTES = 496e6
"""A file of the vocoder's folder that is not built here."""

Card = tuple[FakeGpu, Token2WavVocoder, str]


@pytest.fixture(scope="module", params=[(EARLIER, 16, None), (LATER, 2, 1)], ids=[EARLIER, LATER])
def card(request: pytest.FixtureRequest) -> Iterator[Card]:
    release, blocks, layers = request.param
    with torch.device("meta"):
        inner = stepaudio_package.token2wav(
            release,
            steps=OPTIONS.vocoder_steps,
            blocks=blocks,
            layers=layers,
            channels=512,
            width=512,
        )
    free_unused_buffers(inner)
    with fake_gpu() as gpu, patch.object(FakeTensor, "numpy", lambda sound: sounds(gpu, sound)):
        for network in (inner.flow, inner.hift):
            to_gpu(network)
        if release == EARLIER:
            inner.speech_window = torch.zeros(7680, dtype=torch.float64, device=GPU)
        # Not as "cuda", which would create a stream on a real one.
        cpu = torch.device("cpu")
        yield gpu, Token2WavVocoder(inner, cpu, voice_seconds=OPTIONS.voice_seconds), release


def sounds(gpu: FakeGpu, sound: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    gpu.reads += 1
    return np.zeros(sound.shape, dtype=np.float32)


def to_gpu(network: nn.Module) -> None:
    """Move weights and buffers; everything else stays on the host, as after the package's `cuda`."""
    for module in network.modules():
        for table, place in ((module._parameters, GPU), (module._buffers, GPU)):
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = torch.zeros(tensor.shape, dtype=tensor.dtype, device=place)  # type: ignore[assignment]
        for name, value in list(vars(module).items()):
            if isinstance(value, Tensor):
                setattr(module, name, torch.zeros(value.shape, dtype=value.dtype))


def prompt(codes: int) -> list[Tensor]:
    shapes = [(1, codes), (1,), (1, 192), (1, 2 * codes, 80), (1,)]
    types = [torch.int32, torch.int32, torch.float32, torch.float32, torch.int32]
    return [
        torch.zeros(shape, dtype=kind, device=GPU)
        for shape, kind in zip(shapes, types, strict=True)
    ]


def served(card: Card, streams: list[VoiceStream], chunks: int = 3) -> int:
    """Launches of the last of so many chunks of each stream; the third is in the middle of a turn."""
    gpu, vocoder, _ = card
    for _ in range(chunks):
        gpu.clear()
        answers = vocoder._run_batch(
            [CodeChunk(stream, [7] * 28, ends=False) for stream in streams]
        )
        assert [type(answer) for answer in answers] == [np.ndarray] * len(streams)
    return gpu.launched


def test_many_streams_cost_the_launches_of_one_and_the_memory_that_is_counted(card: Card) -> None:
    gpu, vocoder, release = card
    weights = gpu.held
    with torch.inference_mode():
        voices = [vocoder._streams.open(prompt(codes)) for codes in CODES_OF_VOICES]
    streams = [voices[n % 2].copy() for n in range(SLOTS)]
    together = served(card, streams)
    assert gpu.reads == 1
    own_waits = {
        EARLIER: ["waiting"],
        LATER: [],
    }  # a table of harmonics that the package copies again
    assert [copy for copy in gpu.copies if copy == "waiting"] == own_waits[release]
    peak, held = gpu.peak, gpu.held
    alone = served(card, streams[:1], chunks=1)
    assert alone < together < (1.1 if release == LATER else 1.2) * alone
    if release == LATER:
        return  # fewer blocks and layers than real: memory is checked with the published kind
    batch = peak - held
    assert batch < SLOTS * chunk_bytes(OPTIONS) + voice_bytes(OPTIONS)
    own = [tensor for part in (voices[0], streams[0]) for tensor in memory_of(part)]
    assert 0.97 < sum(t.nbytes for t in own) / voice_bytes(OPTIONS) < 1.01
    assert weights + TOKENIZER_BYTES < TOKEN2WAV_BYTES
    one = voice_bytes(OPTIONS)
    assert peak < TOKEN2WAV_BYTES + one + SLOTS * (one + chunk_bytes(OPTIONS))


def test_graphs_leave_few_launches_and_hold_the_memory_that_is_counted(
    card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graphs for one number of streams; values of a stage are the most that a capture made."""
    gpu, vocoder, release = card
    values = 0

    class Counted(EmptyGraph):
        def __enter__(self) -> None:
            gpu.peak = self.before = gpu.held

        def __exit__(self, *_error: object) -> None:
            nonlocal values
            values = max(values, gpu.peak - self.before)

    use_cpu_graphs(monkeypatch, Counted)
    monkeypatch.setattr(cuda_graphs, "_apart", lambda _got, _want: 0.0)
    monkeypatch.setattr(cuda_graphs, "WARM_UP_RUNS", 0)
    graphed = Token2WavVocoder(
        vocoder._inner,
        torch.device("cpu"),
        voice_seconds=OPTIONS.voice_seconds,
        graph_sizes=(SLOTS,),
    )
    with torch.inference_mode():
        voice = graphed._streams.open(prompt(CODES_OF_VOICES[0]))
    before = gpu.held
    with graphed.graphs.capture_chunks():
        served((gpu, graphed, release), [voice.copy() for _ in range(SLOTS)])
    held = gpu.held - before
    captured = graphed.graphs.replayed
    launched = served((gpu, graphed, release), [voice.copy() for _ in range(5)])
    assert launched < (900 if release == EARLIER else 160)
    stages = 1 + OPTIONS.vocoder_steps + (release == LATER)
    assert graphed.graphs.replayed - captured == 3 * stages
    if release == LATER:
        return  # fewer blocks and layers than real
    counted = chunk_graph_bytes(OPTIONS, (SLOTS,)) - DRIVER_BYTES
    assert 0.9 < (held + values) / counted < 1


def memory_of(stream: VoiceStream) -> list[Tensor]:
    flow = stream.flow
    return [*flow.solver, flow.encoder.codes, flow.encoder.frames, flow.encoder.convs]
