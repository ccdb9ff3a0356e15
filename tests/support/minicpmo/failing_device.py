"""A worker with the engine `minicpmo` whose device fails below torch when the test says so.

The file that `ANTIPHON_DEVICE_FAULT_FILE` names says how: `full` refuses memory for one operation, and `lost`
fails each operation from then on, as a GPU does after an error of the hardware.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from antiphon.inference_worker import __main__ as command
from antiphon.inference_worker.engines.minicpmo import device, processor
from antiphon.inference_worker.engines.minicpmo.scheduling.model_runner import ModelRunner
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import EngineStep

FILE = "ANTIPHON_DEVICE_FAULT_FILE"


class FailingDevice(TorchDispatchMode):
    """Runs the operations of one thread on the CPU, or fails them as CUDA does."""

    def __init__(self, fault: Path) -> None:
        super().__init__()
        self._fault = fault
        self._is_full = False
        self._is_lost = False

    def look(self) -> None:
        if self._fault.exists():
            self._is_full = self._fault.read_text() == "full"
            self._is_lost = not self._is_full
            self._fault.unlink()

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.synchronize()
        if self._is_full:
            self._is_full = False
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return func(*args, **kwargs or {})

    def synchronize(self, *_: object) -> None:
        if self._is_lost:
            raise torch.AcceleratorError("CUDA error: unspecified launch failure")


class FailingRunner(ModelRunner):
    """Enters the device on the thread of the engine."""

    def enter_thread(self) -> None:
        self._failing = FailingDevice(Path(os.environ[FILE]))
        self._failing.__enter__()
        patch.object(torch.cuda, "synchronize", self._failing.synchronize).start()

    def run(self, steps: Sequence[EngineStep]) -> Sequence[Any]:
        self._failing.look()
        return super().run(steps)

    def is_device_lost(self) -> bool:
        return device.is_device_lost(torch.device("cuda", 0))


def main() -> int:
    with patch.object(processor, "ModelRunner", FailingRunner):
        return command.main()


if __name__ == "__main__":
    sys.exit(main())
