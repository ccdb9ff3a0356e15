"""The whole network. Its modules are named as in the checkpoint."""

from collections.abc import Sequence

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
from antiphon.inference_worker.engines.minicpmo.model.vision import (
    Grid,
    Resampler,
    Slices,
    VisionEncoder,
    axis_positions,
    place_slices,
)

STEPS_PER_SECOND = 50

USUAL_SIDE = 128
"""Rows and columns of usual grids. A square slice has 32 of each."""


class MiniCPMO(nn.Module):
    """Everything in the checkpoint; the vocoder is separate. `fused`: decoders run Triton programs."""

    def __init__(self, config: ModelConfig, *, fused: bool = False) -> None:
        super().__init__()
        self.config = config
        kernels = fused_kernels() if fused else TorchKernels()
        self.llm = Qwen3LanguageModel(config, kernels)
        self.vpm = VisionEncoder(config.used_vision_config)
        self.resampler = Resampler(config)
        self.apm = AudioEncoder(config.audio_config)
        self.audio_projection_layer = AudioProjector(config)
        self.tts = SpeechModel(config.tts_config, kernels)
        self._usual_axis: Tensor | None = None

    @property
    def device(self) -> torch.device:
        return self.resampler.query.device

    @property
    def dtype(self) -> torch.dtype:
        return self.resampler.query.dtype

    def place_images(
        self, pixels: Sequence[Tensor], grids: Sequence[Grid], patches: int = 0
    ) -> Slices:
        """Slices of images as a batch on the device, padded to the largest one or to `patches`."""
        patches = max(patches, *(rows * columns for rows, columns in grids))
        batch = torch.zeros(
            len(pixels),
            *pixels[0].shape[:2],
            pixels[0].shape[1] * patches,
            dtype=self.dtype,
            device=self.device,
        )
        for row, part in zip(batch, pixels, strict=True):
            row[..., : part.shape[2]] = to_device(part.to(self.dtype), self.device)
        places = place_slices(pixels, grids, self.vpm.embeddings.side, patches)
        axis = self._axis(max(max(grid) for grid in grids))
        return Slices(batch, to_device(places, self.device), axis)

    def _axis(self, side: int) -> Tensor:
        """Positions of rows and columns. Those of usual grids are computed once."""
        if side > USUAL_SIDE:
            return axis_positions(side, self.resampler.width, self.device)
        if self._usual_axis is None:
            self._usual_axis = axis_positions(USUAL_SIDE, self.resampler.width, self.device)
        return self._usual_axis

    def encode_slices(self, pixels: Tensor, places: Tensor, axis: Tensor) -> Tensor:
        """Embeddings of Slices, (slices, 64, language width)."""
        slices = Slices(pixels, places, axis)
        seen: Tensor = self.resampler(self.vpm(slices), slices)
        return seen

    def encode_images(self, pixels: Sequence[Tensor], grids: Sequence[Grid]) -> Tensor:
        """Embeddings of image slices, (slices, 64, language width)."""
        return self.encode_slices(*self.place_images(pixels, grids))

    def encode_clips(
        self, mels: Sequence[Tensor], frames: int = 0, *, full_attention: bool = False
    ) -> list[Tensor]:
        """Embeddings of whole clips, ten per second, each (n, language width). See `audio.encode_clips`."""
        block = -1 if full_attention else int(self.config.audio_chunk_length * STEPS_PER_SECOND)
        placed = [to_device(mel.to(self.dtype), self.device) for mel in mels]
        longest = max(frames, *(mel.shape[1] for mel in mels))
        return encode_clips(self.apm, self.audio_projection_layer, placed, longest, block)


def fused_kernels() -> TorchKernels:
    """Those that run Triton programs."""
    # Imported here because CPU builds of torch do not include Triton.
    from antiphon.inference_worker.engines.minicpmo.model.fused_kernels import FusedKernels

    return FusedKernels()
