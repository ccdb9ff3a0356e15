"""Token2wav with random weights: the package's networks, at their real sizes or small.

Uses the package that `make test` installs, or an installed one. The audio is noise, which costs as much as
speech.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions
from antiphon.inference_worker.engines.minicpmo.token2wav.token2wav_vocoder import (
    Token2WavVocoder,
    free_unused_buffers,
    set_crossfade,
)
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import VoiceState
from antiphon.inference_worker.engines.minicpmo.token2wav.voice_files import VoiceKind
from antiphon.shared_schemas.audio import INPUT_RATE

TESTS = Path(__file__).parents[1] / "tests"
REAL: dict[str, Any] = {
    "steps": EngineOptions().vocoder_steps,
    "blocks": 16,
    "layers": None,
    "channels": 512,
}
SMALL: dict[str, Any] = {"steps": 1, "blocks": 1, "layers": 1, "channels": 32}


def random_vocoder(
    sizes: str,
    device: torch.device,
    voice_seconds: float,
    graph_sizes: tuple[int, ...] = (),
    *,
    kind: VoiceKind = VoiceKind.CROSSFADE,
) -> Token2WavVocoder | None:
    """A vocoder of the `real` or `tiny` sizes on `device`; None if the package is missing.

    The published checkpoint has the vocoder of `CROSSFADE`.
    On a GPU, its warm-up captures CUDA graphs for batches of `graph_sizes` streams.
    """
    sys.path.insert(0, str(TESTS))
    stepaudio = import_module("support.minicpmo.stepaudio_package")
    try:
        release = stepaudio.LATER if kind is VoiceKind.CAUSAL else stepaudio.EARLIER
        inner = stepaudio.token2wav(release, **(REAL if sizes == "real" else SMALL))
    except FileNotFoundError:
        return None
    finally:
        sys.path.remove(str(TESTS))
    free_unused_buffers(inner)
    inner.flow.to(device)
    inner.hift.to(device)
    if kind is VoiceKind.CROSSFADE:
        set_crossfade(inner, device)
    if device.type == "cuda":
        torch.cuda.synchronize()  # the vocoder uses another CUDA stream
    prompt = inner._prepare_prompt  # noqa: SLF001  # random: the weights for voices are not available
    inner._prepare_prompt = lambda path: [part.to(device) for part in prompt(path)]  # noqa: SLF001
    sizes_on_device = graph_sizes if device.type == "cuda" else ()
    return Token2WavVocoder(inner, device, voice_seconds=voice_seconds, graph_sizes=sizes_on_device)


def random_voice(vocoder: Token2WavVocoder, seconds: int) -> VoiceState:
    """A voice cloned from some seconds of noise."""
    noise = np.random.default_rng(seconds).normal(0, 0.05, seconds * INPUT_RATE)
    return vocoder.clone(noise.astype(np.float32))
