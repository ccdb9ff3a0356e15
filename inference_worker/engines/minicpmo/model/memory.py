"""Estimates the memory of an engine and checks that the device has it."""

import math
from dataclasses import dataclass
from functools import cache

import psutil
import structlog
import torch

from antiphon.inference_worker.engines.minicpmo.config import (
    MAX_SLOTS,
    EngineOptions,
    ModelConfig,
    Quantization,
)
from antiphon.inference_worker.engines.minicpmo.model.load import build_on_meta, quantizable
from antiphon.inference_worker.engines.minicpmo.model.quantized_weight import INT8_GROUP
from antiphon.inference_worker.engines.types import EngineLoadError

log = structlog.get_logger()

GIB = 2**30

STEP_BYTES = GIB // 8
"""Values of the largest step for each byte of a value, counted on the fake GPU: four clips of 30 s. Prompts
and pictures are encoded in smaller portions.
"""

GRAPH_BYTES = GIB * 3 // 4
"""CUDA graphs: 0.5 GiB of tensors, counted on the fake GPU, and 0.25 GiB that the driver is assumed
to hold.
"""

RESERVE_BYTES = GIB * 7 // 10
"""For what is not counted: workspaces of cuBLAS for each stream, and modules that CUDA loads at first use."""

SCORE_TABLES = 4
"""Tables of four bytes for each slot and token: the counts and the scores of draws in duplex units,
and those in written answers. What a draw computes shares the memory of the other graphs.
"""

TOKEN2WAV_BYTES = 2 * GIB
"""The weights of the vocoder, and the noise table that all its streams share."""

FRAMES_PER_SECOND = 50

CONV_BYTES = 16 * 2 * 1024 * 2 * 4
"""State of the solver's convolutions for one step."""

CHUNK_FRAMES = 2 * 28
"""Maximum number of frames that one batch adds to a turn."""

STAGE_BYTES = 2**20
"""Inputs and outputs of the vocoder's graphs for one stream, without the encoder's entries."""

STAGE_VALUES_BYTES = 22 * 2**20
"""Values of one stream in the largest stage of the vocoder, counted on the fake GPU."""

DRIVER_BYTES = 16 * 2**20
"""Assumed to be held by the driver for the vocoder's graphs of one number of streams."""

SHORTEST_CONTEXT = 2048
"""The smallest `context_tokens` that an error recommends: about three minutes of audio."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes on the device: `fixed` for weights and the largest steps, `slot` for each session, and
    `chunk_graphs` for the vocoder's CUDA graphs with 1, 2, ... slots; with more slots as the last.
    """

    fixed: int
    slot: int
    chunk_graphs: tuple[int, ...] = ()

    def of(self, slots: int) -> int:
        graphs = self.chunk_graphs[:slots][-1:]
        return self.fixed + slots * self.slot + sum(graphs)

    def fitting(self, free: int) -> int:
        """How many slots fit into `free` bytes, at most `MAX_SLOTS`."""
        return next((slots for slots in range(MAX_SLOTS, 0, -1) if self.of(slots) <= free), 0)


def estimate(
    config: ModelConfig, options: EngineOptions, device: str, *, voices: bool
) -> MemoryEstimate:
    """The estimate for a `device` of this type; with `voices` it includes the vocoder.

    One more voice is counted, because a voice exists twice while it is cloned or advanced.
    """
    width = 4 if device == "cpu" else 2
    fixed = weight_bytes(config, width, options.quantize) + STEP_BYTES * width
    if device != "cpu":
        fixed += RESERVE_BYTES
    if options.cuda_graphs and device != "cpu":
        fixed += GRAPH_BYTES
        if options.quantize != "none" or config.quantization_config is not None:
            # The largest weight, unpacked, which a graph of many tokens holds.
            fixed += 2 * config.intermediate_size * config.hidden_size * width
    slot = cache_bytes(config, options, width) + SCORE_TABLES * 4 * config.vocab_size
    if not voices:
        return MemoryEstimate(fixed, slot)
    fixed += TOKEN2WAV_BYTES + voice_bytes(options)
    slot += voice_bytes(options) + chunk_bytes(options)
    counts = range(1, options.vocoder_graphs + 1 if device != "cpu" else 1)
    sizes = (options.model_copy(update={"slots": n}).vocoder_graph_sizes for n in counts)
    return MemoryEstimate(fixed, slot, tuple(chunk_graph_bytes(options, each) for each in sizes))


def weight_bytes(config: ModelConfig, width: int, quantize: Quantization) -> int:
    """Bytes of the weights without the vocoder's, as the engine holds them.

    Of a packed checkpoint all layers of the language model count as packed, and its head does not.
    """
    plain = config.model_copy(update={"quantization_config": None})
    total, layers, head = _values(plain)
    if quantize != "none":
        scale = 2 / INT8_GROUP if quantize == "int8" else 4 / config.hidden_size
        return (total - layers - head) * width + round((layers + head) * (1 + scale))
    if (packing := config.quantization_config) is None:
        return total * width
    per_group = 3 / packing.group
    return (total - layers) * width + round(layers * (0.5 + per_group))


@cache
def _values(config: ModelConfig) -> tuple[int, int, int]:
    """Numbers of all weights, of the linear ones in the language model's layers, and in its head."""
    network = build_on_meta(config)
    linear = sum(module.weight.numel() for module in quantizable(network).values())
    head = network.llm.lm_head.weight.numel()
    return sum(p.numel() for p in network.parameters()), linear - head, head


def cache_bytes(config: ModelConfig, options: EngineOptions, width: int) -> int:
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
    frames = _voice_frames(options) + _turn_frames(options)
    return frames * sum(_frame_bytes(options)) + 2 * options.vocoder_steps * CONV_BYTES


def chunk_bytes(options: EngineOptions) -> int:
    """Maximum bytes of one voice in a batch: its retained entries, padded to the longest and with
    the new frames, for one solver step in float32; plus the new frames of all steps.
    """
    solver, encoder = _frame_bytes(options)
    grown = _turn_frames(options) + CHUNK_FRAMES
    return grown * (2 * solver // options.vocoder_steps + encoder) + CHUNK_FRAMES * solver


def chunk_graph_bytes(options: EngineOptions, sizes: tuple[int, ...]) -> int:
    """Bytes of the vocoder's CUDA graphs for batches of `sizes` streams.

    Each has its inputs and outputs, most of which are the encoder's entries. All share the entries of
    one solver step in float32 and the values of the largest stage.
    """
    if not sizes:
        return 0
    solver, encoder = _frame_bytes(options)
    grown = _turn_frames(options) + CHUNK_FRAMES
    own = 2 * grown * encoder + STAGE_BYTES
    shared = grown * (2 * solver // options.vocoder_steps) + STAGE_VALUES_BYTES
    return sum(sizes) * own + max(sizes) * shared + len(sizes) * DRIVER_BYTES


def _voice_frames(options: EngineOptions) -> int:
    return math.ceil(options.voice_seconds * FRAMES_PER_SECOND)


def _turn_frames(options: EngineOptions) -> int:
    """Frames that the vocoder keeps during a turn: those of the voice, and two seconds."""
    return _voice_frames(options) + 2 * FRAMES_PER_SECOND


def _frame_bytes(options: EngineOptions) -> tuple[int, int]:
    """Bytes of the retained keys and values of one frame: in the solver, over all its steps, in two
    bytes each, and in the encoder in four.
    """
    entry, blocks, guided = 2 * 8 * 64, 16, 2
    layers_at_50, layers_at_25 = 4, 6
    solver = 2 * options.vocoder_steps * blocks * guided * entry
    return solver, 4 * (layers_at_50 + layers_at_25 // 2) * entry


def free_bytes(device: torch.device) -> int:
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
    config: ModelConfig,
    options: EngineOptions,
    device: torch.device,
    *,
    voices: bool,
    free: int | None = None,
) -> None:
    """Raise EngineLoadError, naming the settings that fit, if the slots do not fit the model, or the
    `free` bytes of the device (default: as many as are free now).
    """
    _check_lengths(config, options)
    memory = estimate(config, options, device.type, voices=voices)
    free = free_bytes(device) if free is None else free
    needed = memory.of(options.slots)
    if needed <= free:
        return
    changes = _changes_that_fit(config, options, device, free, voices=voices)
    remedy = "; or ".join(changes) if changes else "use a device with more memory"
    raise EngineLoadError(
        f"{options.slots} slots of {options.context_tokens} tokens need {needed / GIB:.1f} GiB on "
        f"{device}, {memory.slot / GIB:.2f} GiB each; {free / GIB:.1f} GiB are free: {remedy}"
    )


def log_memory(estimated: int, free_before: int, device: torch.device) -> None:
    """Compare, after the load, the estimate with what was taken since `free_before`, and with what
    torch's allocator holds of it.
    """
    if device.type != "cuda":
        return
    free, total = torch.cuda.mem_get_info(device)
    log.info(
        "memory_after_load",
        estimated_gib=round(estimated / GIB, 2),
        taken_gib=round((free_before - free) / GIB, 2),
        reserved_gib=round(torch.cuda.memory_reserved(device) / GIB, 2),
        free_gib=round(free / GIB, 2),
        total_gib=round(total / GIB, 2),
    )


def _changes_that_fit(
    config: ModelConfig, options: EngineOptions, device: torch.device, free: int, *, voices: bool
) -> list[str]:
    """Changes of the settings, each of which makes the engine fit into `free` bytes."""

    def fitting(*, voices: bool = voices, **changes: object) -> int:
        changed = options.model_copy(update=changes)
        memory = estimate(config, changed, device.type, voices=voices)
        return min(options.slots, memory.fitting(free))

    context = options.context_tokens // 2
    while context > SHORTEST_CONTEXT and not fitting(context_tokens=context):
        context //= 2
    unchanged = fitting()
    found = [
        ("the engine option vocoder_graphs to 0", fitting(vocoder_graphs=0)),
        ("the engine option vocoder to none (text only)", fitting(voices=False)),
    ]
    if context >= SHORTEST_CONTEXT:
        change = f"the engine option context_tokens to {context}"
        found.insert(0, (change, fitting(context_tokens=context)))
    if options.quantize == "none" and config.quantization_config is None:
        found.insert(0, ("--quantize to int8", fitting(quantize="int8")))
    remedies = [f"set --slots to {unchanged}"] if unchanged else []
    for change, slots in found:
        if slots > unchanged:
            fewer = f" and --slots to {slots}" if slots < options.slots else ""
            remedies.append(f"set {change}{fewer}")
    return remedies
