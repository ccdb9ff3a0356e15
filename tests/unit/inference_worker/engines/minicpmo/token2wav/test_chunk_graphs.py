"""CUDA graphs of the vocoder on a CPU: a replay runs the recorded operations on the recorded memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import structlog
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.scheduling import cuda_graphs
from antiphon.inference_worker.engines.minicpmo.token2wav.streams import CodeChunk, VoiceStream
from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import (
    Token2WavVocoder,
    free_unused_buffers,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import ChunkGraphs
from antiphon.shared_schemas.audio import INPUT_RATE
from support.minicpmo import stepaudio_package
from support.minicpmo.cpu_graphs import CpuGraph, use_cpu_graphs
from support.minicpmo.stepaudio_package import CODES, EARLIER, LATER

CPU = torch.device("cpu")
NEAR = 1e-5
STREAMS = 3
STAGES = {EARLIER: 1 + 2, LATER: 1 + 2 + 1}
"""Graphs that run for one chunk: the encoder, two solver steps, and since 1.0.7 the audio."""

DRAW = np.random.default_rng(2)
WAVES = [
    DRAW.normal(0, 0.1, int(seconds * INPUT_RATE)).astype(np.float32) for seconds in (1.0, 1.6, 2.6)
]
TURN = [([DRAW.integers(0, CODES, 28).tolist() for _ in WAVES], False) for _ in range(3)]
TURN += [([DRAW.integers(0, CODES, 14).tolist() for _ in WAVES], True)]
"""Three whole chunks of each stream, and one that ends the turn."""


@pytest.fixture(params=[EARLIER, LATER])
def release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    use_cpu_graphs(monkeypatch)
    with stepaudio_package.still_noise(), torch.compiler.set_stance("force_eager"):
        yield request.param


def vocoder_of(release: str, *sizes: int) -> Token2WavVocoder:
    inner = stepaudio_package.token2wav(release, channels=16)
    free_unused_buffers(inner)
    return Token2WavVocoder(inner, CPU, voice_seconds=3, retained=torch.float32, graph_sizes=sizes)


def spoken(vocoder: Token2WavVocoder, streams: list[VoiceStream], turn: Any = TURN) -> list[Any]:
    """The audio of all chunks of a turn."""
    sounds = []
    for codes, ends in turn:
        batch = [CodeChunk(s, own, ends) for s, own in zip(streams, codes, strict=False)]
        sounds += vocoder._run_batch(batch)
    assert not [sound for sound in sounds if isinstance(sound, Exception)], sounds
    return sounds


def test_replays_equal_the_same_work_without_graphs(release: str) -> None:
    """Voices of three lengths; batches that fill a graph, one that is padded, one that is too large."""
    eager, graphed = vocoder_of(release), vocoder_of(release, 1, STREAMS)
    graphed.warm_up(1)
    assert graphed.graphs.sizes == (1, STREAMS)
    voices = [[vocoder.clone(wave).base for wave in WAVES] for vocoder in (eager, graphed)]
    for count in (2, STREAMS):
        want = spoken(eager, [base.copy() for base in voices[0][:count]])
        before = graphed.graphs.replayed
        got = spoken(graphed, [base.copy() for base in voices[1][:count]])
        assert graphed.graphs.replayed - before == 3 * STAGES[release]
        for one, other in zip(want, got, strict=True):
            assert one.shape == other.shape
            assert np.abs(one - other).max(initial=0) < NEAR
    assert max(np.abs(sound).max(initial=0) for sound in want) > 0.05
    graphed.graphs.sizes = (1,)
    before = graphed.graphs.replayed
    spoken(graphed, [base.copy() for base in voices[1]], TURN[:1])
    assert graphed.graphs.replayed == before
    for vocoder in (eager, graphed):
        vocoder.close()


@pytest.mark.parametrize("release", [LATER], indirect=True)
def test_a_stream_that_failed_leaves_nothing_in_the_buffers(release: str) -> None:
    vocoder = vocoder_of(release, 1)
    vocoder.warm_up(1)
    base = vocoder.clone(WAVES[2]).base
    want = spoken(vocoder, [base.copy()])
    with torch.inference_mode():
        vocoder.graphs.buffers["room"].fill_(float("nan"))
    got = spoken(vocoder, [vocoder.clone(WAVES[0]).base.copy()])
    assert all(np.isfinite(sound).all() for sound in got)
    again = spoken(vocoder, [base.copy()])
    assert all(np.array_equal(a, b) for a, b in zip(want, again, strict=True))
    vocoder.close()


@pytest.mark.parametrize("release", [LATER], indirect=True)
@pytest.mark.parametrize("fails", ["capture", "result"])
def test_a_failed_capture_turns_graphs_off(
    release: str, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vocoder speaks without them, and the log has the reason."""
    if fails == "capture":

        def refuse(_graph: CpuGraph) -> CpuGraph:
            raise RuntimeError("operation not permitted when stream is capturing")

        monkeypatch.setattr(CpuGraph, "__enter__", refuse)
        reason = "operation not permitted when stream is capturing"
    else:
        monkeypatch.setattr(cuda_graphs, "MAX_REPLAY_ERROR", -1.0)
        reason = "computes another result"
    vocoder = vocoder_of(release, 1, 2)
    with structlog.testing.capture_logs() as logs:
        vocoder.warm_up(1)
    [entry] = [entry for entry in logs if entry["event"] == "vocoder_graphs_off"]
    assert reason in entry["reason"]
    assert vocoder.graphs.sizes == ()
    assert not vocoder.graphs.buffers
    assert len(spoken(vocoder, [vocoder.clone(WAVES[0]).base.copy()], TURN[:1])) == 1
    assert vocoder.graphs.replayed <= 1
    vocoder.close()


def test_a_batch_without_a_graph_is_logged_once_for_each_reason() -> None:
    graphs = ChunkGraphs(CPU, past=250, sizes=())
    with structlog.testing.capture_logs() as logs:
        assert graphs.rows(9, 24, 251) is None
    assert not logs
    graphs.sizes = (1, 2, 4)
    with structlog.testing.capture_logs() as logs:
        assert [graphs.rows(streams, 25, 250) for streams in (1, 2, 3, 4)] == [1, 2, 4, 4]
    assert not logs
    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            assert graphs.rows(5, 25, 250) is None
            assert graphs.rows(4, 24, 250) is None
            assert graphs.rows(4, 25, 252) is None
    assert [entry["reason"] for entry in logs] == [
        "the largest graph has 4 streams",
        "graphs have 25 codes",
        "a stream retains 252 frames, and graphs have 250",
    ]


def test_options_select_the_sizes() -> None:
    def sizes(**options: Any) -> tuple[int, ...]:
        return EngineOptions(**options).vocoder_graph_sizes

    assert sizes(slots=1) == (1,)
    assert sizes(slots=5) == (1, 2, 3, 4, 5)
    assert sizes(slots=64) == (1, 2, 3, 4, 6, 8)
    assert sizes(slots=64, vocoder_graphs=16) == (1, 2, 3, 4, 6, 8, 12, 16)
    assert sizes(slots=64, vocoder_graphs=0) == ()
    assert sizes(slots=64, cuda_graphs=False) == ()
