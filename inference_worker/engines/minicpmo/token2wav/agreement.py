"""Whether our loops compute what the package's own do, with its weights and on this device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.token2wav.flow import Flow
from antiphon.inference_worker.engines.types import EngineLoadError

LARGEST = 0.005
"""Of the mel's range; on a CPU it is below 1e-6."""


def check_agreement(package: Any, flow: Flow, steps: int) -> None:
    """Make a voice and a chunk of mel with both. Raises EngineLoadError where they differ."""
    weight: Tensor = package.encoder_proj.weight
    codes = torch.arange(28, device=weight.device)[None]
    speaker = torch.linspace(-1, 1, package.spk_embed_affine_layer.in_features).to(weight)[None]
    mel = torch.linspace(-8, 0, 50 * weight.shape[0]).to(weight).view(1, 50, -1)
    # Convolutions that round to TF32 would differ by themselves; and since 1.0.7 it would compile.
    exact = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
    with exact, torch.compiler.set_stance("force_eager"):
        cache = package.setup_cache(codes, mel, speaker, n_timesteps=steps)
        theirs, _ = package.inference_chunk(codes, speaker, cache, n_timesteps=steps)
        ours = flow.advance(codes.tolist(), [flow.begin(codes, speaker, mel)], ends=False).mel
    apart = float((ours - theirs).abs().max() / theirs.abs().max())
    if not apart < LARGEST:
        raise EngineLoadError(
            f"this release of minicpmo-utils makes other mel than those that are known ({apart:.1e} of "
            "its range apart): install 1.0.7, or one from 1.0.2 on"
        )
