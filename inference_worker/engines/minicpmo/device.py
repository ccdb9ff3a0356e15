"""The device: which one, copies to it, process-wide settings, and what to do when it is lost."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import structlog
import torch
from torch import Tensor

from antiphon.inference_worker.engines.types import EngineLoadError

log = structlog.get_logger()

DEVICE_LOST = 70
"""The process's exit code: no later call could reach the device either."""

SWITCH_S = 0.0005
"""How long one thread of Python may keep another waiting: a word is 20 ms, and sound is made beside it."""


def device_tensor(
    values: Sequence[object], device: torch.device, dtype: torch.dtype = torch.long
) -> Tensor:
    """`values` as a tensor on `device`."""
    # Named, since a caller may have made another device the default: made there, it would be waited for.
    return to_device(torch.tensor(values, dtype=dtype, device="cpu"), device)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """`tensor` on `device`. A plain `to` would wait until the device has nothing left to do."""
    return tensor.to(device, non_blocking=True)


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one. Raises EngineLoadError for a device that is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise EngineLoadError(f"no device is called {name!r}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise EngineLoadError(f"device {name!r} was asked for, but torch sees no GPU")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def configure_process() -> None:
    """Let nothing on the host make the GPU wait.

    cuDNN's attention is torch's first choice on Hopper, and it makes a plan for every new shape: prompts
    and pictures of any length would each wait for one. And on the CPU only log-mels and pictures are
    left, on the sessions' threads: with torch's default each of these would keep all cores busy.
    """
    sys.setswitchinterval(SWITCH_S)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.set_num_threads(1)


def is_device_lost(device: torch.device) -> bool:
    """Whether the device answers no more: after some errors every later call fails as well."""
    if device.type != "cuda":
        return False
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def exit_device_lost() -> None:
    """End the process at once: its leases run out, and other workers rebuild its sessions."""
    log.critical("device_lost", consequence="this process ends, its sessions go to other workers")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(DEVICE_LOST)
