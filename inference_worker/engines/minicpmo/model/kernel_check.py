"""Checks that Triton programs compile and run on this device and agree with torch's operations."""

import importlib
import importlib.util
import os
import shutil
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from subprocess import CalledProcessError
from typing import cast

import structlog
import torch
from torch import Tensor

from antiphon.inference_worker.engines.minicpmo.config import KernelChoice
from antiphon.inference_worker.engines.minicpmo.device import device_tensor
from antiphon.inference_worker.engines.minicpmo.model.attention import (
    additive_mask,
    causal_mask,
)
from antiphon.inference_worker.engines.minicpmo.model.decoder import Decoder
from antiphon.inference_worker.engines.minicpmo.model.kv_cache import (
    CacheWindow,
    SlottedCache,
    Tiles,
)
from antiphon.inference_worker.engines.minicpmo.model.layer import DecoderLayer, TorchKernels
from antiphon.inference_worker.engines.minicpmo.model.network import MiniCPMO
from antiphon.inference_worker.engines.types import EngineLoadError

log = structlog.get_logger()

MAX_KERNEL_ERROR = 0.03
"""Relative to the norm of the output; rounding to bfloat16 causes less than 0.01."""

_COMPILER = "a C compiler, Python's headers (Debian: gcc, libc6-dev, python3-dev)"

TEST_ENTRIES = 600
TEST_TOKENS = (1, 16, 48)
"""A single token, several tiles, and several wide ones."""


def use_triton(choice: KernelChoice, device: torch.device) -> bool:
    """Whether decoder layers run Triton programs: on a GPU where they compile.

    Raises EngineLoadError if `choice` demands Triton and it is missing.
    """
    if choice == "torch" or (choice == "auto" and device.type != "cuda"):
        return False
    lacks = missing_for_triton(device)
    if lacks and choice == "triton":
        raise EngineLoadError(f"kernels=triton needs {lacks}; kernels=torch does without")
    if lacks:
        log.warning("plain_kernels", lacks=lacks, consequence="a step takes twice as many launches")
    return not lacks


def missing_for_triton(device: torch.device) -> str:
    """What Triton lacks for `device`, with the remedy; empty if it can compile and launch."""
    if device.type != "cuda":
        return f"a GPU, not {device}"
    if importlib.util.find_spec("triton") is None:
        return "the package triton, which torch's CUDA builds bring"
    try:
        # The driver module is C code, compiled on first use. This is where most machines fail.
        _ = importlib.import_module("triton").runtime.driver.active.utils
    except (ImportError, RuntimeError, AssertionError, OSError, CalledProcessError) as error:
        return f"{_COMPILER} and a folder TRITON_CACHE_DIR from which programs may run: {error}"
    return ""


def missing_compiler() -> str:
    """What Triton lacks on any card, with the remedy; empty if nothing. Compiles nothing."""
    if importlib.util.find_spec("triton") is None:
        return "the package triton, which torch's CUDA builds bring"
    compilers = [os.environ.get("CC", ""), "gcc", "clang"]
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    if not any(name and shutil.which(name) for name in compilers) or not headers.is_file():
        return _COMPILER
    return ""


def check_kernels(network: MiniCPMO, plain: TorchKernels, choice: KernelChoice) -> None:
    """Switch to `plain` if the Triton kernels of the network fail in a layer of either decoder.

    Raises EngineLoadError if `choice` demands Triton.
    """
    decoders = network.llm.model, network.tts.model
    failure = next(filter(None, (_kernel_error(decoder, plain) for decoder in decoders)), "")
    if not failure:
        return
    if choice == "triton":
        raise EngineLoadError(f"kernels=triton does not work here ({failure}); kernels=torch does")
    log.warning("plain_kernels", lacks=failure, consequence="a step takes twice as many launches")
    for decoder in decoders:
        decoder.set_kernels(plain)


@torch.inference_mode()
def _kernel_error(decoder: Decoder, plain: TorchKernels) -> str:
    """What is wrong with the kernels of the decoder; empty if they agree with `plain`."""
    own = decoder.kernels
    try:
        for tokens in TEST_TOKENS:
            decoder.set_kernels(plain)
            want = _layer_outputs(decoder, tokens)
            decoder.set_kernels(own)
            difference = _largest_difference(want, _layer_outputs(decoder, tokens))
            if not difference < MAX_KERNEL_ERROR:
                return f"their results for {tokens} tokens differ by {difference:.1e}"
    except Exception as error:  # noqa: BLE001  # compilers and drivers raise many types
        return f"{type(error).__name__}: {error}"
    finally:
        decoder.set_kernels(own)
    return ""


def _layer_outputs(decoder: Decoder, tokens: int) -> list[Tensor]:
    """All outputs of the first layer for random input at the end of a random context."""
    layer = cast("DecoderLayer", decoder.layers[0])
    sizes, table = layer.self_attn.sizes, decoder.table
    noise = torch.Generator().manual_seed(0)
    cache = SlottedCache(
        layers=1,
        slots=1,
        positions=TEST_ENTRIES,
        heads=sizes.key_heads,
        head_dim=sizes.head_dim,
        device=table.device,
        dtype=table.dtype,
    )
    cache.entries[0].copy_(torch.randn(cache.entries[0].shape, generator=noise))
    hidden = torch.randn(1, tokens, sizes.width, generator=noise).to(table)
    positions = torch.arange(TEST_ENTRIES - tokens, TEST_ENTRIES, device=table.device)[None]
    mask = additive_mask(causal_mask(positions, TEST_ENTRIES), table.dtype)
    starts, counts = Tiles.of([(0, tokens)], decoder.tile(tokens))
    tiles = Tiles(
        device_tensor(starts, table.device), device_tensor(counts, table.device), len(starts)
    )
    window = CacheWindow(cache, 0, positions, TEST_ENTRIES, tiles=tiles)
    forward_inputs = decoder.forward_inputs(positions, mask, window)
    mixed = layer.self_attn(hidden, forward_inputs)
    total, normed = decoder.kernels.add_norm(hidden, mixed, layer.post_attention_layernorm)
    return [*window.read(0), mixed, total, normed, layer.mlp(normed)]


def _largest_difference(want: Sequence[Tensor], got: Sequence[Tensor]) -> float:
    pairs = [(one.float(), other.float()) for one, other in zip(want, got, strict=True)]
    return max(float((one - other).norm() / one.norm()) for one, other in pairs)
