"""Settings of one inference worker."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from antiphon.broker.removed_settings import REMOVED_OPTIONS
from antiphon.broker.settings import InvalidSettings, StatusSettings
from antiphon.inference_worker.engines.local.options import CHINESE_NEEDS
from antiphon.shared_schemas.constant import CONSTANT

_OPTIONS_OF_LOCAL = ("language", "voice", "llm_url", "llm_model", "llm_key_file")
_OPTIONS = (*_OPTIONS_OF_LOCAL, "quantize")
_SETTINGS_OF = {
    "local": ("model_path", *_OPTIONS_OF_LOCAL),
    "minicpmo": ("model_path", "quantize"),
    "backend": (),
    "simulated": (),
}
_OF_ENGINES = ("model_path", *_OPTIONS)
"""Those of engines of other packages, if set."""


class WorkerSettings(StatusSettings):
    """The engine, the number of slots, and the timeouts."""

    engine: str = "local"
    """name of the engine; `antiphon worker --help` lists them"""
    slots: int = Field(default=4, ge=1, le=256)
    """sessions served at once; docs/performance.md says how many fit"""
    model_path: Path | None = None
    """minicpmo: the checkpoint folder; local: a GGUF file, or the name of a downloaded model"""
    engine_options: dict[str, Any] = Field(default={})
    """further options of the engine, by name (a JSON object)"""
    transcribe: bool = False
    """transcribe users (English) on the CPU, for an engine that makes no transcript"""
    quantize: Literal["int8", "fp8"] | None = None
    """minicpmo: convert the weights of the language model at load (docs/gpu.md)"""
    language: Literal["en", "zh"] | None = None
    """local: the language of the conversations (docs/local.md)"""
    voice: str | None = None
    """local: the voice of sessions that choose none, such as heart, george or espeak"""
    llm_url: str | None = None
    """local: address of a server with OpenAI's chat completions, such as `http://localhost:11434/v1`"""
    llm_model: str | None = None
    """local: the name of the model on `llm_url`"""
    llm_key_file: Path | None = None
    """local: a file with the API key for `llm_url`"""
    health_port: int = Field(default=22400, ge=0, le=65535)
    """port with /health and /metrics; 0: any free one"""
    backlog_chunks: int = Field(default=3, ge=1)
    """unread chunks above which the oldest audio is skipped"""
    drain_s: float = Field(default=30.0, ge=0)
    """how long running sessions may continue after SIGTERM; a second SIGTERM ends this time"""
    stop_grace_s: float | None = Field(default=None, gt=0)
    """time between SIGTERM and SIGKILL of the service manager; sessions move to other workers before"""

    silence_timeout_s: Annotated[float, CONSTANT] = 600.0
    """how long a full-duplex client may send nothing, unless paused; no shorter than realtime sessions"""
    contended_silence_timeout_s: Annotated[float, CONSTANT] = 60.0
    """the same while other sessions wait for the slot, also in a pause; longer than outages of Redis last"""
    prepare_timeout_s: Annotated[float, CONSTANT] = 60.0
    """how long a client may take to send `prepare`"""
    stream_kept_s: Annotated[float, CONSTANT] = Field(
        default_factory=lambda data: (
            30.0 + data["resume_grace_s"] + data["broker_patience_s"] + 15.0
        )
    )
    """newest part of a session's streams that is never trimmed before the session ends, for clients
    that resume: the time until a lost connection is noticed, until its session is given up, and some more"""

    @model_validator(mode="after")
    def _no_removed_option(self) -> Self:
        removed = REMOVED_OPTIONS.get(self.engine, {})
        for option in self.engine_options:
            if advice := removed.get(option):
                raise ValueError(f"engine_options: {option} is no longer an option: {advice}")
        return self

    @model_validator(mode="after")
    def _one_language_model(self) -> Self:
        if self.engine == "local" and self.llm_url and self.model_path is not None:
            raise ValueError("model_path and llm_url name two language models; set one of them")
        return self

    @model_validator(mode="after")
    def _model_of_the_language(self) -> Self:
        has_one = self.model_path is not None or self.llm_url
        if self.engine == "local" and self.language == "zh" and not has_one:
            raise ValueError(CHINESE_NEEDS)
        return self

    def __init__(self, **flags: Any) -> None:
        super().__init__(**flags)
        for name in _OF_ENGINES:
            if flags.get(name) is not None and name not in self._own_settings:
                flag = name.replace("_", "-")
                raise InvalidSettings(f"--{flag}: the engine {self.engine!r} has no such option")

    @property
    def _own_settings(self) -> tuple[str, ...]:
        """The settings of this engine: those of others in the environment or a file are for them."""
        return _SETTINGS_OF.get(self.engine, _OF_ENGINES)

    @property
    def engine_model_path(self) -> Path | None:
        """`model_path`, if the engine has one."""
        return self.model_path if "model_path" in self._own_settings else None

    @property
    def all_engine_options(self) -> dict[str, Any]:
        """`engine_options`, and the options that have a separate setting."""
        own = {name: getattr(self, name) for name in self._own_settings if name in _OPTIONS}
        return self.engine_options | {
            name: str(value) for name, value in own.items() if value is not None
        }
