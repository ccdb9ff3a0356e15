"""MiniCPM-o 4.5 with random weights, at its real sizes or tiny, so that a bench needs no checkpoint."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from antiphon.inference_worker.engines.minicpmo.config import (
    KernelChoice,
    ModelConfig,
    Quantization,
)
from antiphon.inference_worker.engines.minicpmo.model.kernel_check import use_triton
from antiphon.inference_worker.engines.minicpmo.model.layer import set_quantized
from antiphon.inference_worker.engines.minicpmo.model.load import (
    build_on_meta,
    compute_buffers,
    quantizable,
)
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import QUANTIZERS

TINY = Path(__file__).parents[1] / "tests" / "support" / "minicpmo" / "golden" / "ckpt"
REAL: dict[str, Any] = {
    "model_type": "minicpmo",
    "vocab_size": 151748,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "drop_vision_last_layer": False,
    "vision_config": {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
    },
    "audio_config": {
        "d_model": 1024,
        "encoder_layers": 24,
        "encoder_attention_heads": 16,
        "encoder_ffn_dim": 4096,
    },
    "tts_config": {
        "llm_dim": 4096,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "num_key_value_heads": 12,
        "num_hidden_layers": 20,
        "num_audio_tokens": 6562,
        "num_text_tokens": 152064,
        "audio_bos_token_id": 151687,
        "text_eos_token_id": 151692,
    },
}
WORD = 64
"""A token of one letter: 18 of them fit into the character limit of a unit."""


def config_of(sizes: str) -> ModelConfig:
    """The configuration of the `real` sizes or the `tiny` ones."""
    if sizes == "real":
        return ModelConfig.model_validate(REAL)
    return ModelConfig.model_validate_json((TINY / "config.json").read_bytes())


def random_network(
    config: ModelConfig,
    device: torch.device,
    kernels: KernelChoice,
    quantize: Quantization = "none",
) -> MiniCPMO:
    """The network with small random weights, in the state after loading."""
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    network = (
        build_on_meta(config, fused=use_triton(kernels, device)).to(dtype).to_empty(device=device)
    )
    generator = torch.Generator(device).manual_seed(0)
    for name, parameter in network.named_parameters():
        if name.endswith(("norm.weight", "layer_norm.weight", "layernorm.weight")):
            parameter.data.fill_(1.0)
        else:
            parameter.data.normal_(0.0, 0.02, generator=generator)
    if quantizer := QUANTIZERS.get(quantize):
        for linear in quantizable(network).values():
            set_quantized(linear, quantizer(linear.weight))
    compute_buffers(network, device)
    return network.eval().requires_grad_(False)


def noise_picture() -> bytes:
    """A 448 x 448 JPEG."""
    pixels = np.random.default_rng(0).integers(0, 255, (448, 448, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG")
    return out.getvalue()
