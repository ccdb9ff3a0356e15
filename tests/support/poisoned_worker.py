"""A worker with a simulated engine that one client can crash, and whose memory is limited."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np

from antiphon.inference_worker import __main__ as command
from antiphon.inference_worker import worker
from antiphon.inference_worker.engines.simulated import (
    SimulatedDuplexView,
    SimulatedOptions,
    SimulatedProcessor,
)
from antiphon.inference_worker.engines.types import EngineError, PrefillReport
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import DuplexConfig

POISON = np.full(INPUT_RATE, 0.75, np.float32)
"""A second of audio that kills the worker, as a defect in a kernel does."""

BAD_UNIT = np.full(INPUT_RATE, 0.625, np.float32)
"""A second of audio for which the engine raises an error that it does not know."""

ENDLESS = np.full(INPUT_RATE, 0.5, np.float32)
"""A second of audio that this engine processes for longer than a test runs."""

TOO_LONG = "a prompt that does not fit into the memory of the device"


class _PoisonedView(SimulatedDuplexView):
    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
    ) -> int:
        if system_prompt == TOO_LONG:
            raise EngineError("the device has no memory left")
        return super().prepare(system_prompt, config, ref_audio, tts_ref_audio)

    def prefill(
        self, audio: Samples, frames: Sequence[bytes] = (), max_slice_nums: int = 1
    ) -> PrefillReport:
        if np.array_equal(audio, POISON):
            os.kill(os.getpid(), signal.SIGKILL)
        if np.array_equal(audio, ENDLESS):
            threading.Event().wait(600)
        if np.array_equal(audio, BAD_UNIT):
            raise RuntimeError("CUDA error: device-side assert triggered")
        return super().prefill(audio, frames, max_slice_nums)


class _PoisonedProcessor(SimulatedProcessor):
    def set_duplex_mode(self) -> SimulatedDuplexView:
        return _PoisonedView(self._options, self._take_slot())


def main() -> int:
    def build(_name: str, *, slots: int, options: dict[str, float], **_: object) -> object:
        return _PoisonedProcessor(SimulatedOptions(slots=slots, **options))

    with patch.object(worker, "build_processor", build):
        return command.main()


if __name__ == "__main__":
    sys.exit(main())
