"""A worker with a simulated engine that a client can crash, and whose memory is limited."""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from unittest.mock import patch

import numpy as np

from antiphon.inference_worker import __main__ as command
from antiphon.inference_worker import worker
from antiphon.inference_worker.engines.processor import ProgressCallback
from antiphon.inference_worker.engines.simulated import (
    SimulatedChatView,
    SimulatedDuplexView,
    SimulatedHalfDuplexView,
    SimulatedOptions,
    SimulatedProcessor,
)
from antiphon.inference_worker.engines.types import (
    Delta,
    EngineError,
    PrefillReport,
    no_progress,
)
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import ChatOptions, DuplexConfig, HalfDuplexConfig
from antiphon.shared_schemas.content import ConversationMessage
from antiphon.shared_schemas.unit_result import UnitResult

BAD_UNIT = np.full(INPUT_RATE, 0.625, np.float32)
"""A second of audio for which the engine raises an error that it does not know."""

ENDLESS = np.full(INPUT_RATE, 0.5, np.float32)
"""A second of audio that this engine processes for longer than a test runs."""

TOO_LONG = "a prompt that does not fit into the memory of the device"


def deadly(step: str, after_s: float) -> str:
    """A prompt that kills the worker in a step of the engine, `after_s` after the session is prepared on it."""
    return f"kill in {step} after {after_s} s"


class _Deadly:
    """Kills the process at a step that the prompt names."""

    _step = ""
    _from_s = 0.0

    def arm(self, prompt: str) -> None:
        if found := re.fullmatch(r"kill in (\w+) after ([\d.]+) s", prompt):
            self._step, self._from_s = found[1], time.monotonic() + float(found[2])

    def enter(self, step: str) -> None:
        if step == self._step and time.monotonic() >= self._from_s:
            os.kill(os.getpid(), signal.SIGKILL)


class _PoisonedDuplex(SimulatedDuplexView, _Deadly):
    def prepare(
        self,
        system_prompt: str,
        config: DuplexConfig,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
    ) -> int:
        if system_prompt == TOO_LONG:
            raise EngineError("the device has no memory left")
        self.arm(system_prompt)
        return super().prepare(system_prompt, config, ref_audio, tts_ref_audio)

    def prefill(
        self, audio: Samples, frames: Sequence[bytes] = (), max_slice_nums: int = 1
    ) -> PrefillReport:
        if np.array_equal(audio, ENDLESS):
            threading.Event().wait(600)
        if np.array_equal(audio, BAD_UNIT):
            raise RuntimeError("CUDA error: device-side assert triggered")
        self.enter("prefill")
        return super().prefill(audio, frames, max_slice_nums)

    def generate(self, force_listen: bool = False) -> UnitResult:
        self.enter("generate")
        return super().generate(force_listen)

    def finalize(self) -> None:
        self.enter("finalize")
        super().finalize()


class _PoisonedHalfDuplex(SimulatedHalfDuplexView, _Deadly):
    def prepare(
        self,
        system: ConversationMessage,
        config: HalfDuplexConfig,
        ref_audio: Samples | None = None,
    ) -> int:
        self.arm(system.text)
        return super().prepare(system, config, ref_audio)

    def greet(self, said: str) -> Iterator[Delta]:
        self.enter("greet")
        return super().greet(said)


class _PoisonedChat(SimulatedChatView, _Deadly):
    def prefill(
        self,
        messages: Sequence[ConversationMessage],
        options: ChatOptions,
        ref_audio: Samples | None = None,
        on_progress: ProgressCallback = no_progress,
    ) -> int:
        self.arm(messages[-1].text)
        self.enter("prefill")
        return super().prefill(messages, options, ref_audio, on_progress)


class _PoisonedProcessor(SimulatedProcessor):
    def set_duplex_mode(self) -> SimulatedDuplexView:
        return _PoisonedDuplex(self._options, self._take_slot())

    def set_half_duplex_mode(self) -> SimulatedHalfDuplexView:
        return _PoisonedHalfDuplex(self._options, self._take_slot())

    def set_chat_mode(self) -> SimulatedChatView:
        return _PoisonedChat(self._options, self._take_slot())


def main() -> int:
    def build(_name: str, *, slots: int, options: dict[str, float], **_: object) -> object:
        return _PoisonedProcessor(SimulatedOptions(slots=slots, **options))

    with patch.object(worker, "build_processor", build):
        return command.main()


if __name__ == "__main__":
    sys.exit(main())
