"""Whether Triton programs can be compiled here, and what they lack if not."""

from __future__ import annotations

import importlib
import importlib.util
from subprocess import CalledProcessError

import structlog
import torch

from antiphon.inference_worker.engines.minicpmo.config import KernelChoice
from antiphon.inference_worker.engines.types import EngineLoadError

log = structlog.get_logger()


def wants_triton(choice: KernelChoice, device: torch.device) -> bool:
    """Whether layers run Triton programs: on a GPU, where they can be compiled.

    Raises EngineLoadError when they were asked for and cannot be.
    """
    if choice == "torch" or (choice == "auto" and device.type != "cuda"):
        return False
    lacks = missing(device)
    if lacks and choice == "triton":
        raise EngineLoadError(f"kernels=triton needs {lacks}; kernels=torch does without")
    if lacks:
        log.warning("plain_kernels", lacks=lacks, consequence="a step is twice as many launches")
    return not lacks


def missing(device: torch.device) -> str:
    """What Triton lacks for `device`, with the remedy; empty where it can compile and launch."""
    if device.type != "cuda":
        return f"a GPU, not {device}"
    if importlib.util.find_spec("triton") is None:
        return "the package triton, which torch's CUDA builds bring"
    try:
        # Its driver module is C that it compiles on the spot, which is where most machines fail it.
        _ = importlib.import_module("triton").runtime.driver.active.utils
    except (ImportError, RuntimeError, AssertionError, OSError, CalledProcessError) as error:
        return (
            "a C compiler, Python's headers (Debian: gcc, libc6-dev, python3-dev) and a folder "
            f"TRITON_CACHE_DIR from which programs may run: {error}"
        )
    return ""
