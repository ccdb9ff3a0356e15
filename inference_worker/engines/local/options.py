"""Options of the local engine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from antiphon.inference_worker.engines.local.voices.catalogue import (
    DEFAULT_VOICE,
    ESPEAK,
    NATURAL_VOICES,
)

INSTALL_COMMAND = "pip install '.[local]' in Antiphon's checkout"


class LocalOptions(BaseModel):
    """Options of the local engine.

    `voice` is the default voice: an id that `/api/capabilities` lists, or a voice of eSpeak NG such
    as `de`. `context_tokens` is per session. `end_silence_ms` is the silence that ends an utterance if
    `listen_prob_scale` is 1. After a whole sentence the engine waits half as long, in the middle of one three
    times. A reply stops at the first sentence end after `reply_words` words.
    `llm_url`, `llm_model` and `llm_key_file` have settings of their own. `llm_sees`: the model behind
    them takes pictures. `llm_timeout_s` limits the time to its first token, and between two. With
    `llm_url`, `context_tokens` is 8192 and `reply_words` 60 unless they are set.
    With `sight`, `local` recognises everyday objects and reads text in pictures, for a model that takes
    none.
    With `rules`, sums, units, dates, and questions about the assistant itself are answered without the
    language model; by default only for the bundled model and those of `antiphon models`. Other models that
    call tools can call sums, units and dates, unless `rules` is false. `filter_obscene` ends an answer
    at an obscene word.
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
    sight: bool = True
    rules: bool | None = None
    filter_obscene: bool = True
    llm_url: str | None = None
    llm_model: str | None = None
    llm_key_file: Path | None = None
    llm_sees: bool = False
    llm_timeout_s: float = Field(default=8.0, gt=0, le=600)

    @model_validator(mode="before")
    @classmethod
    def _larger_for_servers(cls, values: Any) -> Any:
        """A server has a larger model than the bundled one, with more to say and to remember."""
        if isinstance(values, dict) and values.get("llm_url"):
            return {"context_tokens": 8192, "reply_words": 60} | values
        return values

    @field_validator("llm_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        return None if url is None else check_url(url)

    @model_validator(mode="after")
    def _check_server(self) -> Self:
        if self.llm_url and not self.llm_model:
            raise ValueError("llm_url needs llm_model, the name of a model of that server")
        if not self.llm_url:
            for name in ("llm_model", "llm_key_file", "llm_sees"):
                if getattr(self, name):
                    raise ValueError(f"{name} needs llm_url, the address of the server")
        self.read_key()
        return self

    def read_key(self) -> str:
        """The key for the server; empty without a file. Raises ValueError."""
        path = self.llm_key_file
        if path is None:
            return ""
        try:
            key = path.read_text(encoding="ascii").strip()
        except OSError as error:
            raise ValueError(f"llm_key_file {path}: {error.strerror}") from error
        except UnicodeDecodeError:
            key = ""
        if not key or not key.isprintable() or " " in key:
            raise ValueError(f"llm_key_file {path} must contain one key and nothing else")
        return key

    @property
    def rules_apply(self) -> bool:
        """`rules` if set, else True for the bundled model."""
        if self.rules is not None:
            return self.rules
        return self.model_path is None and self.llm_url is None

    @property
    def offers_rules(self) -> bool:
        """The model may call the rules as tools, unless they apply or `rules` is False."""
        return self.rules is None and not self.rules_apply

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


def check_url(url: str) -> str:
    """`url` in front of `/chat/completions`. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must begin with http:// or https://, such as http://localhost:11434/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("must have no user, query or fragment; the key belongs in llm_key_file")
    try:
        _ = parts.port
    except ValueError as error:
        raise ValueError("must have a port from 0 to 65535") from error
    return url.rstrip("/").removesuffix("/chat/completions")
