"""Options of the local engine."""

import os
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from antiphon.inference_worker.engines.local.guard.answer_guard import Repeats
from antiphon.inference_worker.engines.local.voices.catalogue import (
    DEFAULT_VOICE,
    DEFAULT_VOICES,
    ESPEAK,
    ESPEAK_VOICES,
    VOICES,
)

INSTALL_COMMAND = "pip install '.[local]' in Antiphon's checkout"
CHINESE_COMMAND = "pip install '.[local,zh]' in Antiphon's checkout"
CHINESE_NEEDS = (
    "the language zh needs a language model that knows Chinese, and the bundled one does not: run "
    "`antiphon models get qwen2.5-1.5b` and add `--model-path qwen2.5-1.5b`, or name a server with --llm-url"
)


class LocalOptions(BaseModel):
    """Options of the local engine.

    `voice` is an id that `/api/capabilities` lists, or a voice of eSpeak NG such as `de`.
    `context_tokens` is per session. `end_silence_ms` is the silence that ends an utterance if
    `listen_prob_scale` is 1. A reply stops at the first sentence end after `reply_words` words.
    `llm_sees`: the model behind `llm_url` takes pictures. `llm_timeout_s` limits the time to its
    first token, and between two. With `llm_url`, `context_tokens` is 8192 and `reply_words` 60
    unless they are set. In Chinese, where `reply_words` counts characters, it is 60 too. `sight`,
    `rules` and `filter_obscene`: docs/local.md. Models that call tools get sums, units and dates as
    tools, unless `rules` is false. `threads` of the language model: 1 for the bundled one, else all
    cores but one. `words_per_minute` is for eSpeak. `slots` is at most 64.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    slots: int = Field(default=4, ge=1, le=64)
    model_path: Path | None = None
    context_tokens: int = Field(default=2048, ge=512, le=131072)
    threads: int | None = Field(default=None, ge=1, le=256)
    language: Literal["en", "zh"] = "en"
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

    @model_validator(mode="before")
    @classmethod
    def _voice_of_the_language(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("language") in DEFAULT_VOICES:
            language = values["language"]
            longer = {"reply_words": 60} if language == "zh" else {}
            return {"voice": DEFAULT_VOICES[language], **longer} | values
        return values

    @model_validator(mode="after")
    def _check_voice(self) -> Self:
        ours, others = VOICES[self.language], ESPEAK_VOICES[self.language]
        known = {name for voices in VOICES.values() for name in voices}
        of_espeak = self.language == "en" or self.voice in (ESPEAK, others)
        if self.voice not in ours and (self.voice in known or not of_espeak):
            choices = ", ".join((*ours, ESPEAK))
            raise ValueError(f"voice must be one of {choices} with the language {self.language}")
        return self

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
        """`rules` if set, else True for the bundled model, and for Chinese, of which there are few."""
        return self.bundled_model or self.language == "zh" if self.rules is None else self.rules

    @property
    def bundled_model(self) -> bool:
        """The language model is the one of the package, which is very small."""
        return self.model_path is None and self.llm_url is None

    @property
    def repeats(self) -> Repeats:
        """What may come again in an answer: the smaller the model, the more often it is caught in a loop."""
        if self.llm_url is not None:
            return Repeats.ALL
        return Repeats.FEW if self.bundled_model else Repeats.NO_LOOP

    @property
    def knows_little(self) -> bool:
        """It is the bundled model, in English: things are looked up, and its empty answers are replaced."""
        return self.bundled_model and self.rules_apply and self.language == "en"

    @property
    def offers_rules(self) -> bool:
        """The model may call the rules as tools, unless they apply or `rules` is False."""
        return self.rules is None and not self.rules_apply

    @property
    def spoken_language(self) -> str:
        """The code of the voice's language: `en` of `heart` and of `en-us+Hugo`."""
        if self.natural_voices or self.voice in (ESPEAK, ESPEAK_VOICES[self.language]):
            return self.language
        return self.voice.partition("+")[0].partition("-")[0]

    @property
    def natural_voices(self) -> bool:
        """False if the default voice is one of eSpeak's: sessions cannot choose another one then."""
        return self.voice in VOICES[self.language]

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
