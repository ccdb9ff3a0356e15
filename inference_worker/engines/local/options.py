"""Options of the local engine."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from antiphon.inference_worker.engines.local.voices.catalogue import (
    DEFAULT_VOICE,
    ESPEAK,
    NATURAL_VOICES,
)
from antiphon.inference_worker.engines.types import EngineLoadError

INSTALL_COMMAND = "pip install '.[local]' in Antiphon's checkout"
_GGUF = b"GGUF"


class LocalOptions(BaseModel):
    """Options of the local engine.

    `voice` is the default voice: an id that `/api/capabilities` lists, or a voice of eSpeak NG such
    as `de`. `context_tokens` is per session. `end_silence_ms` is the silence that ends an utterance if
    `listen_prob_scale` is 1. A reply stops at the first sentence end after `reply_words` words.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    slots: int = Field(default=4, ge=1, le=64)
    model_path: Path | None = None
    context_tokens: int = Field(default=2048, ge=512, le=131072)
    threads: int | None = Field(default=None, ge=1, le=256)
    voice: str = DEFAULT_VOICE
    words_per_minute: int = Field(default=150, ge=80, le=400)
    end_silence_ms: int = Field(default=480, ge=200, le=3000)
    reply_words: int = Field(default=25, ge=5, le=400)

    @property
    def language(self) -> str:
        """The code of the voice's language: `en` of `heart` and of `en-us+Hugo`."""
        if self.natural_voices or self.voice == ESPEAK:
            return "en"
        return self.voice.partition("+")[0].partition("-")[0]

    @property
    def natural_voices(self) -> bool:
        """False if the default voice is one of eSpeak's: sessions cannot choose another one then."""
        return self.voice in NATURAL_VOICES

    @property
    def llm_threads(self) -> int:
        """Threads of the language model: `threads` if set, 1 for the bundled model.

        llama.cpp's threads spin at a barrier after every operation. If another process takes one of
        their cores, two threads are 100 times slower than one; on idle cores they are 1.3 times
        faster. A larger model gets all cores but one.
        """
        if self.threads is not None:
            return self.threads
        return 1 if self.model_path is None else max(1, (os.cpu_count() or 1) - 1)

    @property
    def reply_tokens(self) -> int:
        """Hard limit of one reply: twice what its words need, so that the last sentence can end."""
        return self.reply_words * 3


def check_gguf(path: Path) -> None:
    """Raises EngineLoadError unless this is a GGUF file."""
    try:
        with path.open("rb") as file:
            if file.read(len(_GGUF)) != _GGUF:
                raise EngineLoadError(f"{path} is not a GGUF file; correct --model-path")
    except FileNotFoundError:
        raise EngineLoadError(f"there is no model file {path}; correct --model-path") from None
    except OSError as error:
        raise EngineLoadError(f"--model-path {path} cannot be read: {error.strerror}") from error
