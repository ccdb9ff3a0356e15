"""Estimates the memory of an engine and checks that the device has it."""

from __future__ import annotations

import psutil
import torch

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, ModelConfig
from antiphon.inference_worker.engines.minicpmo.model.load import build_on_meta
from antiphon.inference_worker.engines.types import EngineLoadError

GIB = 2**30
HEADROOM = 1.15
"""Factor for activations and the slack of the allocator."""

TOKEN2WAV_BYTES = 2 * GIB
"""The weights of the vocoder, and the noise table that all its streams share."""

VOICE_FRAMES = 750
"""Frames of the longest voice: 15 s, 50 frames each."""

TURN_FRAMES = VOICE_FRAMES + 100
"""Frames that the vocoder keeps during a turn: those of the voice, and two seconds."""

CHUNK_FRAMES = 2 * 28
"""Maximum number of frames that one batch adds to a turn."""


def slot_bytes(config: ModelConfig, options: EngineOptions, width: int) -> int:
    """Bytes of the caches of one slot, for values of `width` bytes."""
    audio, speech = config.audio_config, config.tts_config
    text_entries = config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    audio_entries = audio.encoder_layers * audio.d_model
    speech_entries = speech.num_hidden_layers * speech.num_key_value_heads * speech.head_dim
    entries = (
        text_entries * (options.context_tokens + 1)
        + audio_entries * (audio.max_source_positions + 1)
        + speech_entries * (options.speech_tokens + 1)
    )
    return 2 * width * entries


def voice_bytes(options: EngineOptions) -> int:
    """Maximum bytes of one cloned voice: its initial state, and the state of the current turn."""
    return (VOICE_FRAMES + TURN_FRAMES) * sum(_frame_bytes(options))


def chunk_bytes(options: EngineOptions) -> int:
    """Maximum bytes of one voice in a batch: its retained entries, padded to the longest and with
    the new frames, for one solver step; plus the new frames of all steps.
    """
    solver, encoder = _frame_bytes(options)
    grown = TURN_FRAMES + CHUNK_FRAMES
    return grown * (solver // options.vocoder_steps + encoder) + CHUNK_FRAMES * solver


def _frame_bytes(options: EngineOptions) -> tuple[int, int]:
    """Bytes of the keys and values of one frame: in the solver, over all its steps, and in the encoder."""
    entry, blocks, guided = 2 * 8 * 64 * 4, 16, 2
    layers_at_50, layers_at_25 = 4, 6
    solver = options.vocoder_steps * blocks * guided * entry
    return solver, (layers_at_50 + layers_at_25 // 2) * entry


def needed_bytes(config: ModelConfig, options: EngineOptions, width: int, *, voices: bool) -> int:
    """Bytes for weights, all slots and headroom; with `voices` also for the vocoder."""
    weights = sum(p.numel() for p in build_on_meta(config).parameters()) * width
    slots = options.slots * slot_bytes(config, options, width)
    speech = speech_bytes(options) if voices else 0
    return int(HEADROOM * (weights + slots + speech))


def speech_bytes(options: EngineOptions) -> int:
    """Bytes for the vocoder, the voices of all slots and the largest batch.

    One more voice is counted, because a voice exists twice while it is cloned or advanced.
    """
    slots = options.slots
    return TOKEN2WAV_BYTES + (slots + 1) * voice_bytes(options) + slots * chunk_bytes(options)


def free_bytes(device: torch.device) -> int:
    """Bytes that are free on `device`."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def _check_lengths(config: ModelConfig, options: EngineOptions) -> None:
    """Raise EngineLoadError if a slot is longer than the positions of the model."""
    for name, asked, most in (
        ("context_tokens", options.context_tokens, config.max_position_embeddings),
        ("speech_tokens", options.speech_tokens, config.tts_config.max_position_embeddings),
    ):
        if asked > most:
            raise EngineLoadError(f"{name} is {asked}, but this model's positions end at {most}")


def check_memory(
    config: ModelConfig, options: EngineOptions, device: torch.device, *, voices: bool
) -> None:
    """Raise EngineLoadError, naming what to lower, if the slots fit neither model nor device."""
    _check_lengths(config, options)
    width = 4 if device.type == "cpu" else 2
    needed, free = needed_bytes(config, options, width, voices=voices), free_bytes(device)
    if needed > free:
        per_slot = slot_bytes(config, options, width)
        per_voice = voice_bytes(options) + chunk_bytes(options)
        voice = f", its voice up to {per_voice / GIB:.2f} GiB" if voices else ""
        raise EngineLoadError(
            f"{options.slots} slots need {needed / GIB:.1f} GiB on {device}, "
            f"{free / GIB:.1f} GiB are free; a slot of {options.context_tokens} tokens takes "
            f"{per_slot / GIB:.2f} GiB{voice}: lower slots or context_tokens"
        )
