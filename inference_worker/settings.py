"""Settings of one inference worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from antiphon.broker.settings import StatusSettings


class WorkerSettings(StatusSettings):
    """The engine, the number of slots, and the timeouts."""

    engine: str = "local"
    """name of the engine; `antiphon worker --help` lists them"""
    slots: int = Field(default=4, ge=1, le=256)
    """sessions served at once"""
    model_path: Path | None = None
    """minicpmo: the checkpoint folder; local: a GGUF file in place of the bundled one, or the name of a
    model that `antiphon models get` has downloaded"""
    engine_options: dict[str, Any] = Field(default={})
    """further options of the engine, by name (a JSON object)"""
    transcribe: bool = False
    """transcribe what users say (English), on the CPU, for an engine that makes no transcript"""
    quantize: Literal["int8", "fp8"] | None = None
    """minicpmo: convert the weights of the language model at load, to half the memory; fp8 needs a card
    of Ada, Hopper or later"""
    voice: str | None = None
    """local: the voice of sessions that choose none, such as heart, george or espeak"""
    llm_url: str | None = None
    """local: the address of a server with OpenAI's chat completions that replaces the bundled language
    model, such as `http://localhost:11434/v1`"""
    llm_model: str | None = None
    """local: the name of the model on `llm_url`"""
    llm_key_file: Path | None = None
    """local: a file with the API key for `llm_url`"""
    health_port: int = Field(default=22400, ge=0, le=65535)
    """port with /health and /metrics; 0: any free one"""
    backlog_chunks: int = Field(default=3, ge=1)
    """unread chunks above which the oldest audio is skipped; one of less than a second counts its part"""
    prepare_timeout_s: float = Field(default=60.0, gt=0)
    """how long a client may take to send `prepare`"""
    silence_timeout_s: float = Field(default=600.0, gt=0)
    """how long a full-duplex client may send nothing, unless paused; no shorter than realtime
    sessions and outages of Redis may last"""
    contended_silence_timeout_s: float = Field(default=60.0, gt=0)
    """how long a client may send no audio, also in a pause, while other sessions wait for the slot;
    longer than outages of Redis last"""
    stream_kept_s: float = Field(default=90.0, gt=0)
    """newest part of a session's streams that is never trimmed before the session ends, for clients
    that resume; longer than `ping_interval_s`, `ping_timeout_s`, `resume_grace_s` and
    `broker_patience_s` together"""
    drain_s: float = Field(default=30.0, ge=0)
    """how long running sessions may continue after SIGTERM; a second SIGTERM ends this time"""
    stop_grace_s: float | None = Field(default=None, gt=0)
    """time between SIGTERM and SIGKILL of the service manager; sessions move to other workers before"""

    @model_validator(mode="after")
    def _one_language_model(self) -> Self:
        if self.llm_url and self.model_path is not None:
            raise ValueError("model_path and llm_url name two language models; set one of them")
        return self

    @property
    def all_engine_options(self) -> dict[str, Any]:
        """`engine_options`, and the options that have a separate setting."""
        names = ("quantize", "voice", "llm_url", "llm_model", "llm_key_file")
        own = {name: getattr(self, name) for name in names}
        return self.engine_options | {
            name: str(value) for name, value in own.items() if value is not None
        }
