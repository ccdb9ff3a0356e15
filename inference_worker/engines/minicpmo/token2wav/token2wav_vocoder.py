"""The Token2wav vocoder of a worker: clones voices, and batches the synthesis of all sessions."""

from __future__ import annotations

import importlib
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.device import exit_device_lost, is_device_lost
from antiphon.inference_worker.engines.minicpmo.token2wav.checkpoint_guard import (
    check_yaml,
    weights_only,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.chunk_graphs import ChunkGraphs
from antiphon.inference_worker.engines.minicpmo.token2wav.flow import Flow, longest_past
from antiphon.inference_worker.engines.minicpmo.token2wav.solver import RETAINED
from antiphon.inference_worker.engines.minicpmo.token2wav.streams import (
    CodeChunk,
    MicroBatcher,
    StreamBatcher,
    Synthesis,
    VoiceStream,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import (
    CHUNK_CODES,
    SILENT_PREFIX,
    VoiceState,
    next_pieces,
    whole_second,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder_families import (
    CausalVocoder,
    CrossfadeVocoder,
)
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

MAX_WARMUP_STREAMS = 32
"""Largest batch in the warm-up."""

MAX_MEL_ERROR = 0.005
"""Relative to the range of the mel; on a CPU the error is below 1e-6."""


class Token2WavVocoder:
    """Serves the session threads in batches, from one thread.

    On a GPU, synthesis and the cloning of voices have a CUDA stream each, so that neither waits for
    the other, and the engine thread for none of them.
    `voice_seconds` of a reference are used. Streams retain keys and values in the type `retained`.
    The warm-up captures CUDA graphs for whole chunks of `graph_sizes` streams.
    """

    def __init__(
        self,
        inner: Any,
        device: torch.device,
        *,
        voice_seconds: float,
        retained: torch.dtype = RETAINED,
        graph_sizes: tuple[int, ...] = (),
    ) -> None:
        self._reference_samples = round(voice_seconds * INPUT_RATE)
        self._inner = inner
        self._device = device
        self._cloning = threading.Lock()
        on_gpu = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
        self._cloning_stream = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
        with _on_stream(self._stream):
            self.graphs = ChunkGraphs(device, past=longest_past(voice_seconds), sizes=graph_sizes)
            family = (
                CausalVocoder(inner, self.graphs)
                if hasattr(inner, "bounded_vocoder")
                else CrossfadeVocoder(inner)
            )
            self._flow = Flow(
                inner.flow, inner.n_timesteps, family.retained_codes, retained, self.graphs
            )
        if self._stream is not None:
            self._stream.synchronize()  # cloning uses the tables of the flow
        self._streams = StreamBatcher(self._flow, family)
        self._batcher = MicroBatcher[CodeChunk, Samples](self._run_batch)

    def clone(self, reference: Samples) -> VoiceState:
        """A voice from the first `voice_seconds` of float32 mono 16 kHz reference audio."""
        with (
            self._cloning,
            _on_stream(self._cloning_stream),
            tempfile.TemporaryDirectory() as folder,
        ):
            path = str(Path(folder) / "voice.wav")
            soundfile.write(path, reference[: self._reference_samples], INPUT_RATE)
            base = self._streams.open(self._inner._prepare_prompt(path))  # noqa: SLF001
            self._hand_over(base)
        voice = VoiceState(base)
        self.reset(voice)
        return voice

    def _hand_over(self, base: VoiceStream) -> None:
        """Make a voice usable by synthesis. Only the thread of its session waits."""
        if self._stream is None or self._cloning_stream is None:
            return
        for tensor in tensors_of(base):
            # When the voice is freed, synthesis may still read it.
            tensor.record_stream(self._stream)
        self._cloning_stream.synchronize()

    def synthesize(self, voice: VoiceState, codes: list[int], *, last: bool) -> Samples:
        """Audio of the next codes of a turn. `last` flushes what is held back and ends the turn."""
        unknown = [code for code in codes if not 0 <= code < self._flow.codes]
        if unknown:
            raise EngineError(f"the vocoder knows codes below {self._flow.codes}, not {unknown[0]}")
        voice.waiting += codes
        whole = voice.whole_chunks
        pieces = next_pieces(voice.waiting, self._flow.lookahead, last=last, whole=whole)
        sound = [self._batcher.run(CodeChunk(voice.stream, piece, ends)) for piece, ends in pieces]
        if last:
            self.reset(voice)
        return whole_second(sound, last=last or whole)

    def reset(self, voice: VoiceState) -> None:
        base: VoiceStream = voice.base
        voice.stream = base.copy()
        voice.waiting = list(SILENT_PREFIX)

    def check(self) -> None:
        """Compare with the loop of the package, while its buffers exist. Raises EngineLoadError."""
        with _on_stream(self._stream):
            check_parity(self._inner.flow, self._flow, self._inner.n_timesteps)

    def warm_up(self, sessions: int) -> None:
        """Clone two voices and synthesize with up to `sessions` at once. Raises EngineLoadError.

        A convolution has a plan for each number of streams and each length; the first two chunks of
        a turn have special lengths. The CUDA graphs are captured afterwards, the largest first.
        """
        noise = np.random.default_rng(0).normal(0, 0.01, 2 * INPUT_RATE).astype(np.float32)
        whole = (list(SILENT_PREFIX) * CHUNK_CODES)[: CHUNK_CODES + self._flow.lookahead]
        try:
            voices = [self.clone(noise), self.clone(noise[:INPUT_RATE])]
            for count in range(1, min(sessions, MAX_WARMUP_STREAMS) + 1):
                streams = [voices[n % 2].base.copy() for n in range(count)]
                for codes, ends in [(whole, False)] * 3 + [(whole[:CHUNK_CODES], True)]:
                    self._batcher.run_batch([CodeChunk(stream, codes, ends) for stream in streams])
            with self.graphs.capturing():
                for count in reversed(self.graphs.sizes):
                    streams = [voices[n % 2].base.copy() for n in range(count)]
                    for _ in range(3):
                        self._batcher.run_batch(
                            [CodeChunk(each, whole, ends=False) for each in streams]
                        )
        except Exception as error:
            raise EngineLoadError(f"the vocoder cannot speak: {error}") from error

    def close(self) -> None:
        self._batcher.close()

    def _run_batch(self, chunks: list[CodeChunk]) -> list[Synthesis]:
        with _on_stream(self._stream):
            results = self._streams.run(chunks)
        if any(isinstance(each, Exception) for each in results) and is_device_lost(self._device):
            exit_device_lost()
        return results


@contextmanager
def _on_stream(stream: torch.cuda.Stream | None) -> Iterator[None]:
    with torch.cuda.stream(stream), torch.inference_mode():
        yield


def tensors_of(state: Any) -> Iterator[Tensor]:
    """The tensors of a state: of its fields, or of its elements."""
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, tuple):
        for part in state:
            yield from tensors_of(part)
    elif is_dataclass(state):
        for each in fields(state):
            yield from tensors_of(getattr(state, each.name))


def load_token2wav(folder: Path, options: EngineOptions, device: torch.device) -> Token2WavVocoder:
    """Load the vocoder of the package `minicpmo-utils`. Raises EngineLoadError with the remedy."""
    if device.type != "cuda":
        raise EngineLoadError(
            f"the vocoder runs on a GPU, not on {device}: vocoder=none serves text"
        )
    check_yaml(folder)
    try:
        package = importlib.import_module("stepaudio2")
    except (ImportError, OSError) as error:
        raise EngineLoadError(
            "the vocoder needs the package minicpmo-utils (pip install --no-deps minicpmo-utils==1.0.7, and "
            f"the extra token2wav; or serve text only with vocoder=none): {error}"
        ) from error
    try:
        with torch.cuda.device(device), weights_only():
            inner = package.Token2wav(str(folder), n_timesteps=options.vocoder_steps)
            # Loaded on this thread's CUDA stream, but used on another one, which does not wait for it.
            torch.cuda.synchronize()
            vocoder = Token2WavVocoder(
                inner,
                device,
                voice_seconds=options.voice_seconds,
                graph_sizes=options.vocoder_graph_sizes,
            )
            vocoder.check()
            # Counts for the whole process, but the network multiplies in bfloat16 on a GPU.
            torch.backends.cuda.matmul.allow_tf32 = options.vocoder_tf32
            free_unused_buffers(inner)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    except EngineLoadError:
        raise
    except Exception as error:
        raise EngineLoadError(f"no vocoder in {folder}: {error}") from error
    return vocoder


def free_unused_buffers(inner: Any) -> None:
    """Free the buffers of the package's single stream (2.2 GB), and fold weight norms."""
    for module in (inner.flow.decoder, inner.flow.decoder.estimator):
        module.att_cache_buffer = module.cnn_cache_buffer = None
    _fold_weight_norms(inner.hift)


def _fold_weight_norms(network: nn.Module) -> None:
    """A parametrized weight costs a launch in every call."""
    for module in network.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")


def check_parity(package: Any, flow: Flow, steps: int) -> None:
    """Compute a voice and a chunk of mel with both. Raises EngineLoadError if they differ."""
    weight: Tensor = package.encoder_proj.weight
    codes = torch.arange(28, device=weight.device)[None]
    speaker = torch.linspace(-1, 1, package.spk_embed_affine_layer.in_features).to(weight)[None]
    mel = torch.linspace(-8, 0, 50 * weight.shape[0]).to(weight).view(1, 50, -1)
    # Convolutions in TF32 would differ; and since 1.0.7 the package would compile its networks.
    exact = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
    with exact, torch.compiler.set_stance("force_eager"):
        cache = package.setup_cache(codes, mel, speaker, n_timesteps=steps)
        theirs, _ = package.inference_chunk(codes, speaker, cache, n_timesteps=steps)
        ours = flow.advance(codes.tolist(), [flow.start(codes, speaker, mel)], ends=False).mel
    apart = float((ours - theirs).abs().max() / theirs.abs().max())
    if not apart < MAX_MEL_ERROR:
        raise EngineLoadError(
            f"this release of minicpmo-utils computes another mel than expected ({apart:.1e} of "
            "its range): install 1.0.7, or a release since 1.0.2"
        )
