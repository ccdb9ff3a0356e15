"""The engine's loaded models, shared by its sessions."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.inference_worker.engines.common.silero import SpeechDetector
from antiphon.inference_worker.engines.local.asr import Recogniser
from antiphon.inference_worker.engines.local.dependencies import bundled_model
from antiphon.inference_worker.engines.local.llm import LanguageModel
from antiphon.inference_worker.engines.local.options import LocalOptions
from antiphon.inference_worker.engines.local.tts import Speaker
from antiphon.inference_worker.engines.types import LoadProgress


@dataclass(frozen=True, slots=True)
class Models:
    """Everything with weights."""

    recogniser: Recogniser
    speaker: Speaker
    llm: LanguageModel

    @classmethod
    def load(cls, options: LocalOptions, report: LoadProgress) -> Models:
        """Load all of it. Raises EngineLoadError with the remedy."""
        report("speech detector")
        SpeechDetector()
        report("speech recogniser")
        recogniser = Recogniser()
        report("voice")
        speaker = Speaker(options.voice, options.words_per_minute)
        report("language model")
        path = options.model_path or bundled_model()
        llm = LanguageModel(path, options.slots, options.context_tokens, options.llm_threads)
        return cls(recogniser, speaker, llm)

    def close(self) -> None:
        """Free them."""
        self.llm.close()
        self.recogniser.close()
