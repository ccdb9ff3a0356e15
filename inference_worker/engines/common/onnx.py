"""Networks on the CPU with ONNX Runtime, whose telemetry is disabled.

Since version 1.29 the Linux builds report loaded models to the vendor. The environment variable must be
set before the library loads, so everything uses it through this module.
"""

import os
from collections.abc import Callable
from typing import Any

os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def cpu_session(model: str | bytes, threads: int = 1, *, keeps_memory: bool = True) -> Any:
    """The network in a file, or in the bytes of one. Any thread may run it.

    Its threads sleep between runs: spinning ones would take the cores from other sessions. With
    `keeps_memory`, it keeps the memory of its largest run for the next ones.
    """
    import onnxruntime  # takes 0.1 s and 20 MB, which a worker without networks saves

    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads, options.intra_op_num_threads = 1, threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = options.enable_mem_pattern = keeps_memory
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_options() -> tuple[Any, Callable[[], None]]:
    """The options of one run, and what ends this run from another thread: it fails after its current step."""
    import onnxruntime

    options = onnxruntime.RunOptions()

    def end() -> None:
        options.terminate = True

    return options, end
