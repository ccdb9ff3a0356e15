"""The engine's loaded models, and the share of them that one session holds."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.inference_worker.engines.common.costs import TokenCounter
from antiphon.inference_worker.engines.common.silero import SpeechDetector
from antiphon.inference_worker.engines.local.dependencies import bundled_model
from antiphon.inference_worker.engines.local.dialogue import LlmMessage
from antiphon.inference_worker.engines.local.language_model import LanguageModel
from antiphon.inference_worker.engines.local.llm import LocalLanguageModel
from antiphon.inference_worker.engines.local.options import LocalOptions, check_gguf
from antiphon.inference_worker.engines.local.remote.llm import RemoteLanguageModel
from antiphon.inference_worker.engines.local.transcription import Recogniser
from antiphon.inference_worker.engines.local.voices.speaker import Voices
from antiphon.inference_worker.engines.types import ContextFull, EngineError, LoadProgress

NEXT_UTTERANCE_TOKENS = 160
"""Context reserved for the user's next utterance."""


@dataclass(frozen=True, slots=True)
class LocalModels:
    """The models with weights."""

    recogniser: Recogniser
    voices: Voices
    llm: LanguageModel

    @classmethod
    def load(cls, options: LocalOptions, report: LoadProgress) -> LocalModels:
        """Load all models. Raises EngineLoadError with the remedy."""
        path = None if options.llm_url else options.model_path or bundled_model()
        if path is not None:
            check_gguf(path)
        report("speech detector")
        SpeechDetector()
        report("speech recogniser")
        recogniser = Recogniser()
        report("voices")
        voices = Voices.load(options.voice, options.words_per_minute)
        report("language model")
        return cls(recogniser, voices, _language_model(options, path))

    def close(self) -> None:
        self.llm.close()
        self.recogniser.close()


def _language_model(options: LocalOptions, path: Path | None) -> LanguageModel:
    if path is None:
        remote = RemoteLanguageModel.of(options)
        remote.open()
        return remote
    return LocalLanguageModel(path, options.slots, options.context_tokens, options.llm_threads)


@dataclass(slots=True)
class LocalSlot:
    """A session's slot. `pool` runs background work; `release` runs once, when the slot is closed."""

    number: int
    options: LocalOptions
    pool: Executor
    loaded: LocalModels | None
    tokens: TokenCounter = field(default_factory=TokenCounter)
    release: ExitStack = field(default_factory=ExitStack)

    @property
    def models(self) -> LocalModels:
        """Raises EngineError after `close`."""
        if self.loaded is None:
            raise EngineError("the session has been cleaned up")
        return self.loaded

    def read(
        self,
        messages: Sequence[LlmMessage],
        *,
        reuse_cache: bool = True,
        tools: Sequence[dict[str, Any]] = (),
    ) -> int:
        """Let the language model read `messages`; returns their length in tokens."""
        llm, counter = self.models.llm, self.tokens
        return llm.prefill(
            messages, self.number, reuse_cache=reuse_cache, counter=counter, tools=tools
        )

    def read_prompt(self, messages: Sequence[LlmMessage], room: int) -> int:
        """Length of a system prompt. Raises ContextFull unless the user's next utterance fits too."""
        tokens = self.read(messages, reuse_cache=False)
        room -= NEXT_UTTERANCE_TOKENS
        if tokens > room:
            raise ContextFull(f"the system prompt has {tokens} tokens; {room} is the most that fit")
        return tokens

    def close(self) -> None:
        self.loaded = None
        self.release.close()
