"""What holds for the whole process that serves from a GPU."""

from __future__ import annotations

import torch


def settle_process() -> None:
    """Let nothing on the host make the GPU wait.

    cuDNN's attention is torch's first choice on Hopper, and it makes a plan for every new shape: prompts
    and pictures of any length would each wait for one. And on the CPU only log-mels and pictures are
    left, on the sessions' threads: with torch's default each of these would keep all cores busy.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.set_num_threads(1)
