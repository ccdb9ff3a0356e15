"""The Token2wav vocoder of a worker: clones voices, and batches the synthesis of all sessions."""

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
    ChunkGraphs,
    VoiceState,
    cut_reference,
    next_pieces,
    whole_second,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder_families import (
    HOP,
    CausalVocoder,
    CrossfadeVocoder,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import (
    INSTALL,
    TEXT_ONLY,
    VoiceKind,
    check_package,
    check_voice,
)
from antiphon.inference_worker.engines.types import EngineError, EngineLoadError, InputRefused
from antiphon.shared_schemas.audio import INPUT_RATE, Samples

MAX_WARMUP_STREAMS = 32
"""Largest batch in the warm-up."""

LEAST_REFERENCE_S = 0.2
"""The package's networks fail with a tenth of a second."""

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
        self._voice_seconds = voice_seconds
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
        """A voice from at most the first `voice_seconds` of float32 mono 16 kHz reference audio.

        Raises InputRefused if it is too short.
        """
        if len(reference) < LEAST_REFERENCE_S * INPUT_RATE:
            raise InputRefused(f"a reference voice needs at least {LEAST_REFERENCE_S:g} s of sound")
        with (
            _as_engine_error("take the reference voice"),
            self._cloning,
            _on_stream(self._cloning_stream),
            tempfile.TemporaryDirectory() as folder,
        ):
            path = str(Path(folder) / "voice.wav")
            soundfile.write(path, cut_reference(reference, self._voice_seconds), INPUT_RATE)
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
        try:
            with _as_engine_error("speak"):
                sound = [
                    self._batcher.run(CodeChunk(voice.stream, piece, ends))
                    for piece, ends in pieces
                ]
        finally:
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
            with self.graphs.capture_chunks():
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
def _as_engine_error(task: str) -> Iterator[None]:
    """A failure ends what the session does now, and not the session."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        raise EngineError(f"the vocoder cannot {task}: {error}") from error


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
    kind = check_voice(folder)
    check_yaml(folder)
    check_package()
    try:
        package = importlib.import_module("stepaudio2.token2wav")
    except (ImportError, OSError) as error:
        raise EngineLoadError(
            f"the vocoder needs {error}: {INSTALL}, and the libraries of FFmpeg; {TEXT_ONLY}"
        ) from error
    try:
        with torch.cuda.device(device), weights_only():
            inner = build_token2wav(package, kind, folder, options.vocoder_steps, device)
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


def build_token2wav(
    package: Any, kind: VoiceKind, folder: Path, steps: int, device: torch.device
) -> Any:
    """The package's object for the kind of `folder`.

    The constructor of release 1.0.7 reads its own kind only. For the other one, this does what the
    constructor of 1.0.6 does, with the networks of 1.0.7: both releases have the same.
    """
    if kind is VoiceKind.CAUSAL:
        return package.Token2wav(str(folder), n_timesteps=steps)
    inner = package.Token2wav.__new__(package.Token2wav)
    inner.float16, inner.n_timesteps, inner.device = False, steps, device
    codes = package.s3tokenizer.load_model(str(folder / "speech_tokenizer_v2_25hz.onnx"))
    inner.audio_tokenizer = codes.to(device).eval()
    settings = package.onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    inner.spk_model = package.onnxruntime.InferenceSession(
        str(folder / "campplus.onnx"), sess_options=settings, providers=["CPUExecutionProvider"]
    )
    inner.flow = package._load_config(folder / "flow.yaml")["flow"]  # noqa: SLF001
    inner.flow.load_state_dict(_weights(folder / "flow.pt"))
    inner.flow.to(device).eval()
    inner.hift = package.HiFTGenerator()
    found = _weights(folder / "hift.pt").items()
    inner.hift.load_state_dict({name.removeprefix("generator."): part for name, part in found})
    inner.hift.to(device).eval()
    set_crossfade(inner, device)
    return inner


def set_crossfade(inner: Any, device: torch.device) -> None:
    """The overlap of two chunks: 160 ms."""
    inner.mel_cache_len, inner.source_cache_len = 8, 8 * HOP
    inner.speech_window = torch.from_numpy(np.hamming(2 * inner.source_cache_len)).to(device)


def _weights(path: Path) -> dict[str, Tensor]:
    found: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return found


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
            "its range): install 1.0.7"
        )
