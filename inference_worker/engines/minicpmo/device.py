"""The device: which one, copies to it, process-wide settings, and what to do when it is lost."""

import os
import sys
from array import array
from collections.abc import Iterable

import structlog
import torch
from torch import Tensor

from antiphon.inference_worker.engines.types import EngineLoadError

log = structlog.get_logger()

DEVICE_LOST = 70
"""Exit code of a process whose device is lost: no later call can reach it."""

NO_GPU_REMEDY = (
    "install NVIDIA's driver and a torch built for CUDA, or set the engine option device to cpu "
    "(far slower than real time)"
)

SWITCH_S = 0.0005
"""Python's thread switch interval: decoding a token takes 20 ms, and vocoder threads run beside it."""


def device_tensor(
    values: Iterable[float], device: torch.device, dtype: torch.dtype = torch.long
) -> Tensor:
    """`values` (n,), integers or float32, as a tensor on `device`, copied without waiting for the device."""
    # `torch.tensor` examines every value, and takes five times as long as an array.
    numbers = array("q" if dtype == torch.long else "f", values)
    if not numbers:
        return torch.zeros(0, dtype=dtype, device=device)
    return to_device(torch.frombuffer(numbers, dtype=dtype), device)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """`tensor` on `device`. A plain `to` would wait until the device is idle."""
    return tensor.to(device, non_blocking=True)


def pick_device(name: str) -> torch.device:
    """The device called `name`; "auto" is the GPU. Raises EngineLoadError for a missing device."""
    try:
        device = torch.device("cuda" if name == "auto" else name)
    except RuntimeError as error:
        raise EngineLoadError(f"no device is called {name!r}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise EngineLoadError(f"torch {torch.__version__} sees no GPU: {NO_GPU_REMEDY}")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def configure_process() -> None:
    """Keep the host from delaying the GPU.

    torch prefers cuDNN's attention on Hopper. It builds a plan for every new shape, and prompts and
    images have many shapes. The CPU only computes log-mels and image patches, on the threads of the
    sessions; with torch's default thread count each of them would occupy all cores.
    """
    sys.setswitchinterval(SWITCH_S)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.set_num_threads(1)


def is_device_lost(device: torch.device) -> bool:
    """Whether the device stopped responding: after some errors every later call fails too."""
    if device.type != "cuda":
        return False
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def exit_device_lost() -> None:
    """End the process at once. Its leases expire, and other workers recover its sessions."""
    log.critical("device_lost", consequence="this process ends; other workers recover its sessions")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(DEVICE_LOST)
