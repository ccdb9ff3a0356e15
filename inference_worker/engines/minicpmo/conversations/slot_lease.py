"""What every session has: the shared parts of the engine, and a slot until cleanup."""

import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from antiphon.inference_worker.engines.minicpmo.config import EngineOptions, ModelConfig
from antiphon.inference_worker.engines.minicpmo.conversations.speech_output import SpeechContext
from antiphon.inference_worker.engines.minicpmo.preprocess.tokenizer import Tokenizer
from antiphon.inference_worker.engines.minicpmo.scheduling.engine import (
    Engine,
    EngineJob,
    StepAbandoned,
)
from antiphon.inference_worker.engines.minicpmo.scheduling.sampler import SpeechSettings
from antiphon.inference_worker.engines.minicpmo.scheduling.steps import ClearSlot, Steps
from antiphon.inference_worker.engines.minicpmo.token2wav.vocoder import Vocoder, VoiceState
from antiphon.inference_worker.engines.types import EngineError, InputRefused
from antiphon.shared_schemas.audio import Samples

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """Parts of a loaded engine that its sessions share."""

    config: ModelConfig
    options: EngineOptions
    tokenizer: Tokenizer
    engine: Engine
    vocoder: Vocoder | None

    def clone_voice(self, reference: Samples | None) -> VoiceState:
        """Clone the voice of a session with audio output. Raises InputRefused if that is not possible."""
        if self.vocoder is None:
            raise InputRefused(
                "this engine has no vocoder: start it with one, or ask for text only"
            )
        if reference is None or not len(reference):
            raise InputRefused("speaking needs a reference voice, or ask for text only")
        return self.vocoder.clone(reference)

    def new_speech_context(self, lease: "SlotLease", settings: SpeechSettings) -> SpeechContext:
        return SpeechContext(
            slot=lease.slot,
            capacity=self.options.speech_tokens,
            end_code=self.config.tts_config.end_code,
            settings=settings,
            rng=random.Random(lease.seed),  # noqa: S311  # code choice, not a secret
            codes_per_step=self.engine.codes_per_step,
        )


class SlotLease:
    """A slot that belongs to one session until `close`."""

    def __init__(
        self, engine: Engine, slot: int, seed: int, release: Callable[[int], None]
    ) -> None:
        self.slot = slot
        self.seed = seed
        self._engine = engine
        self._release = release
        self._job: EngineJob | None = None
        self._stopped = False
        self._closed = False

    def run(self, work: Steps[T]) -> T:
        """Run a generator on the engine and wait for its result."""
        outcome: T = self.submit(work).result()
        return outcome

    def submit(self, work: Steps[T]) -> Future[T]:
        """Start a generator on the engine. Raises EngineError after `close`, StepAbandoned after `stop`."""
        if self._closed:
            raise EngineError("this session has ended")
        # Before the engine has it, so that `stop` reaches even its first step.
        self._job = EngineJob(work)
        if self._stopped:
            raise StepAbandoned("the session stopped")
        return self._engine.submit(self._job)

    def clear(self) -> None:
        self.run(_clear(self.slot))

    def stop(self) -> None:
        """Abandon the current step and refuse later ones. Safe from any thread."""
        self._stopped = True
        job = self._job
        if job is not None:
            job.abandoned = True

    def close(self) -> None:
        """Abandon the current step, erase the slot and release it. A second call does nothing."""
        if self._closed:
            return
        self.stop()
        self._closed = True
        try:
            self._engine.run(_clear(self.slot))
        finally:
            self._release(self.slot)


def _clear(slot: int) -> Steps[None]:
    yield ClearSlot(slot)
