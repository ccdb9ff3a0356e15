"""How much memory an engine will take, and whether the device has it."""

from __future__ import annotations

import psutil
import torch

from inference_worker.engines.minicpmo.config import EngineOptions, ModelConfig
from inference_worker.engines.minicpmo.load import build_on_meta
from inference_worker.engines.types import EngineLoadError

GIB = 2**30
HEADROOM = 1.15
"""Activations and the allocator's slack, as a factor."""

TOKEN2WAV_BYTES = 3 * GIB
"""The vocoder's weights and the buffers that all its streams share."""

VOICE_FRAMES = 2 * 750 + 100
"""Kept for the longest voice (15 s, 50 frames each): where a turn begins, and where it stands."""


def slot_bytes(config: ModelConfig, options: EngineOptions, width: int) -> int:
    """Bytes that one slot's caches take, for values of `width` bytes."""
    audio, speech = config.audio_config, config.tts_config
    text = config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    heard = audio.encoder_layers * audio.d_model
    speech_head = speech.hidden_size // speech.num_attention_heads
    spoken = speech.num_hidden_layers * speech.num_key_value_heads * speech_head
    entries = (
        text * (options.context_tokens + 1)
        + heard * (audio.max_source_positions + 1)
        + spoken * (options.speech_tokens + 1)
    )
    return 2 * width * entries


def voice_bytes(options: EngineOptions) -> int:
    """Bytes that one cloned voice may take: 16 layers' keys and values at each of the solver's steps."""
    layers, guided, heads, width, value = 16, 2, 8, 128, 4
    return options.vocoder_steps * layers * guided * heads * width * value * VOICE_FRAMES


def needed_bytes(config: ModelConfig, options: EngineOptions, width: int, *, voices: bool) -> int:
    """Bytes for weights, all slots and headroom; with `voices` for the vocoder's too."""
    weights = sum(p.numel() for p in build_on_meta(config).parameters()) * width
    slots = options.slots * slot_bytes(config, options, width)
    speech = TOKEN2WAV_BYTES + options.slots * voice_bytes(options) if voices else 0
    return int(HEADROOM * (weights + slots + speech))


def free_bytes(device: torch.device) -> int:
    """Bytes that may still be taken on `device`."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def check_lengths(config: ModelConfig, options: EngineOptions) -> None:
    """Raise EngineLoadError when a slot is longer than the model has positions."""
    for name, asked, most in (
        ("context_tokens", options.context_tokens, config.max_position_embeddings),
        ("speech_tokens", options.speech_tokens, config.tts_config.max_position_embeddings),
    ):
        if asked > most:
            raise EngineLoadError(f"{name} is {asked}, but this model's positions end at {most}")


def check_memory(
    config: ModelConfig, options: EngineOptions, device: torch.device, *, voices: bool
) -> None:
    """Raise EngineLoadError, with what to lower, when the device is too small."""
    width = 4 if device.type == "cpu" else 2
    needed, free = needed_bytes(config, options, width, voices=voices), free_bytes(device)
    if needed > free:
        per_slot = slot_bytes(config, options, width)
        voice = f", its voice up to {voice_bytes(options) / GIB:.2f} GiB" if voices else ""
        raise EngineLoadError(
            f"{options.slots} slots need {needed / GIB:.1f} GiB on {device}, "
            f"{free / GIB:.1f} GiB are free; a slot of {options.context_tokens} tokens takes "
            f"{per_slot / GIB:.2f} GiB{voice}: lower slots or context_tokens"
        )
