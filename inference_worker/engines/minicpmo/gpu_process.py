"""What holds for the whole process that serves from a GPU."""

from __future__ import annotations

import os
import sys

import structlog
import torch

log = structlog.get_logger()

DEVICE_LOST = 70
"""The process's exit code: no later call could reach the device either."""

SWITCH_S = 0.0005
"""How long one thread of Python may keep another waiting: a word is 20 ms, and sound is made beside it."""


def settle_process() -> None:
    """Let nothing on the host make the GPU wait.

    cuDNN's attention is torch's first choice on Hopper, and it makes a plan for every new shape: prompts
    and pictures of any length would each wait for one. And on the CPU only log-mels and pictures are
    left, on the sessions' threads: with torch's default each of these would keep all cores busy.
    """
    sys.setswitchinterval(SWITCH_S)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.set_num_threads(1)


def device_lost(device: torch.device) -> bool:
    """Whether the device answers no more: after some errors every later call fails as well."""
    if device.type != "cuda":
        return False
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        return True
    return False


def leave() -> None:
    """End the process at once: its leases run out, and other workers rebuild its sessions."""
    log.critical("device_lost", consequence="this process ends, its sessions go to other workers")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(DEVICE_LOST)
