"""The whole network. Its modules are named as in the checkpoint."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.inference_worker.engines.minicpmo.config import ModelConfig
from antiphon.inference_worker.engines.minicpmo.device import to_device
from antiphon.inference_worker.engines.minicpmo.model.audio import (
    AudioEncoder,
    AudioProjector,
    encode_clips,
)
from antiphon.inference_worker.engines.minicpmo.model.decoder import Qwen3LanguageModel, SpeechModel
from antiphon.inference_worker.engines.minicpmo.model.layer import TorchKernels
from antiphon.inference_worker.engines.minicpmo.model.vision import Grid, Resampler, VisionEncoder

STEPS_PER_SECOND = 50


class MiniCPMO(nn.Module):
    """Everything in the checkpoint; the vocoder is separate. `fused`: decoders run Triton programs."""

    def __init__(self, config: ModelConfig, *, fused: bool = False) -> None:
        super().__init__()
        self.config = config
        kernels = _fused_kernels() if fused else TorchKernels()
        self.llm = Qwen3LanguageModel(config, kernels)
        self.vpm = VisionEncoder(config.used_vision_config)
        self.resampler = Resampler(config)
        self.apm = AudioEncoder(config.audio_config)
        self.audio_projection_layer = AudioProjector(config)
        self.tts = SpeechModel(config.tts_config, kernels)

    @property
    def device(self) -> torch.device:
        return self.resampler.query.device

    @property
    def dtype(self) -> torch.dtype:
        return self.resampler.query.dtype

    def encode_images(self, pixels: list[Tensor], grids: list[Grid]) -> Tensor:
        """Embeddings of image slices, (slices, 64, language width)."""
        placed = [to_device(part.to(self.dtype), self.device) for part in pixels]
        features, real = self.vpm(placed, grids)
        seen: Tensor = self.resampler(features, real, grids)
        return seen

    def encode_clips(self, mels: list[Tensor], *, full_attention: bool = False) -> list[Tensor]:
        """Embeddings of whole clips, ten per second, each (n, language width)."""
        block = -1 if full_attention else int(self.config.audio_chunk_length * STEPS_PER_SECOND)
        placed = [to_device(mel.to(self.dtype), self.device) for mel in mels]
        return encode_clips(self.apm, self.audio_projection_layer, placed, block)


def _fused_kernels() -> TorchKernels:
    # Imported here because CPU builds of torch do not include Triton.
    from antiphon.inference_worker.engines.minicpmo.model.fused_kernels import FusedKernels

    return FusedKernels()
