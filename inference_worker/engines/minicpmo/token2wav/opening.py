"""Opens the package and takes from it what many streams do not need."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from antiphon.inference_worker.engines.minicpmo.token2wav.speaking import Token2WavVocoder
from antiphon.inference_worker.engines.types import EngineLoadError


def open_token2wav(folder: Path, steps: int, device: torch.device) -> Token2WavVocoder:
    """The vocoder of the package `minicpmo-utils`. Raises EngineLoadError with the remedy."""
    if device.type != "cuda":
        raise EngineLoadError(
            f"the vocoder runs on a GPU, not on {device}: vocoder=none serves text"
        )
    try:
        package = importlib.import_module("stepaudio2")
    except (ImportError, OSError) as error:
        raise EngineLoadError(
            "the vocoder needs the package minicpmo-utils (pip install --no-deps minicpmo-utils, and "
            f"the extra token2wav; or serve text only with vocoder=none): {error}"
        ) from error
    try:
        with torch.cuda.device(device):
            inner = package.Token2wav(str(folder), n_timesteps=steps)
            # Loaded on this thread's stream, used on another, which does not wait for it.
            torch.cuda.synchronize()
            vocoder = Token2WavVocoder(inner, device)
            vocoder.check()
            lighten(inner)
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    except EngineLoadError:
        raise
    except Exception as error:
        raise EngineLoadError(f"no vocoder in {folder}: {error}") from error
    return vocoder


def lighten(inner: Any) -> None:
    """Let go of the buffers for the package's own single stream (2.2 GB), and norm weights once."""
    for module in (inner.flow.decoder, inner.flow.decoder.estimator):
        module.att_cache_buffer = module.cnn_cache_buffer = None
    _norm_weights(inner.hift)


def _norm_weights(network: nn.Module) -> None:
    """A weight that is normed anew in every call costs a launch each time."""
    for module in network.modules():
        if parametrize.is_parametrized(module, "weight"):
            parametrize.remove_parametrizations(module, "weight")
