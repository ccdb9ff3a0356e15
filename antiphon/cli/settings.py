"""Settings of the services: options of commands, and misspelled names.

A name that no service reads is an error, not a default.
"""

import os
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_settings import BaseSettings

from antiphon.broker.removed_settings import REMOVED_SETTINGS
from antiphon.broker.service.logs import LogSettings
from antiphon.broker.service.tracing import TracingSettings
from antiphon.broker.settings import (
    ENV_PREFIX,
    TOML_FILE,
    BrokerSettings,
    InvalidSettings,
    read_toml,
)
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.engines.registry import engine_names
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.constant import names_of


def setting_option(
    cls: type[BaseSettings], field: str, help_text: str, *flags: str, **options: Any
) -> Any:
    """The settings class reads the variable, so that all sources of a value have the same errors."""
    default = cls.model_fields[field].default
    shown = "" if default in (None, "") else rf" \[default: {default}]"
    names = flags or (f"--{field.replace('_', '-')}",)
    variable = rf" \[env: {ENV_PREFIX}{field.upper()}]"
    return typer.Option(*names, help=f"{help_text}{shown}{variable}", **options)


_ENGINES = engine_names()

Host = Annotated[
    str | None, setting_option(EdgeSettings, "host", "Address the edge listens on.", "--host", "-H")
]
Port = Annotated[
    int | None, setting_option(EdgeSettings, "port", "Port the edge listens on.", "--port", "-p")
]
Engine = Annotated[
    str | None,
    setting_option(
        WorkerSettings,
        "engine",
        "The model's engine.",
        *("--engine", "-e"),
        metavar=f"<{'|'.join(_ENGINES)}>",
        autocompletion=lambda incomplete: [one for one in _ENGINES if one.startswith(incomplete)],
    ),
]
Slots = Annotated[
    int | None,
    setting_option(WorkerSettings, "slots", "Number of concurrent conversations.", "--slots", "-n"),
]
ModelPath = Annotated[
    Path | None,
    setting_option(
        WorkerSettings,
        "model_path",
        "The checkpoint's folder. The engine local: a GGUF file, or a model of `antiphon models`.",
        *("--model-path", "-m"),
    ),
]
Quantize = Annotated[
    str | None,
    setting_option(WorkerSettings, "quantize", "int8 or fp8: the engine minicpmo in less memory."),
]
Language = Annotated[
    str | None,
    setting_option(
        WorkerSettings,
        "language",
        "The engine local: the language of the conversations.",
        metavar="<en|zh>",
    ),
]
Voice = Annotated[
    str | None,
    setting_option(
        WorkerSettings, "voice", "The engine local: the voice of sessions that choose none."
    ),
]
LlmUrl = Annotated[
    str | None,
    setting_option(
        WorkerSettings,
        "llm_url",
        "The engine local: a server of its language model, such as http://localhost:11434/v1.",
    ),
]
LlmModel = Annotated[
    str | None, setting_option(WorkerSettings, "llm_model", "Name of the model on --llm-url.")
]
LlmKeyFile = Annotated[
    Path | None,
    setting_option(WorkerSettings, "llm_key_file", "File with the API key for --llm-url."),
]
HealthHost = Annotated[
    str | None, setting_option(WorkerSettings, "health_host", "Address of its health page.")
]
HealthPort = Annotated[
    int | None,
    setting_option(WorkerSettings, "health_port", "Port of the worker's health page; 0: any free."),
]
EdgeHealthPort = Annotated[
    int | None,
    setting_option(EdgeSettings, "edge_health_port", "Port of its health page; 0: any free."),
]
ServiceRedisUrl = Annotated[
    str | None, setting_option(BrokerSettings, "redis_url", "URL of Redis.")
]


_CLASSES = (
    LogSettings,
    TracingSettings,
    EdgeSettings,
    WorkerSettings,
    RecorderSettings,
    CleanupSettings,
)

_CLIENT_KEY = "ANTIPHON_API_KEY"
_OF_CLIENTS = frozenset({_CLIENT_KEY, "ANTIPHON_URL"})

OTHER_PROGRAMS = frozenset(
    ENV_PREFIX + name
    for name in (
        *("SITE", "HTTP_PORT", "HTTPS_PORT", "HTTPS_AT", "VERSION", "MODEL_DIR"),
        *("CPU_WORKERS", "GPU_SLOTS", "REDIS_MAXMEMORY", "REDIS_LIMIT"),
        *("METRICS_KEPT", "GRAFANA_PORT", "WITHOUT_PAGES", "ENV_FILE"),
    )
)
"""Variables of docker-compose.yml, of the build and of the tests."""

_TESTS = ENV_PREFIX + "TEST_"


def setting_names() -> set[str]:
    """The settings of all services, as `antiphon.toml` spells them."""
    return {name for cls in _CLASSES for name in names_of(cls)}


def check_setting_names() -> None:
    """Raises InvalidSettings for unknown names in the environment and in `antiphon.toml`."""
    if problems := [*_unknown_variables(), *_unknown_keys(Path(TOML_FILE))]:
        raise InvalidSettings("; ".join(problems))


def check_client_key(edge: EdgeSettings) -> None:
    """Raises InvalidSettings if only the client's variable has a key: the edge does not read it."""
    if os.environ.get(_CLIENT_KEY) and not (edge.api_keys or edge.api_keys_file):
        raise InvalidSettings(
            f"{_CLIENT_KEY} is the key that a client sends. The edge accepts the keys in "
            "ANTIPHON_API_KEYS or ANTIPHON_API_KEYS_FILE: set one of them too"
        )


def _unknown_variables() -> Iterator[str]:
    known = {ENV_PREFIX + name.upper() for name in setting_names()} | OTHER_PROGRAMS | _OF_CLIENTS
    for name in sorted(map(str.upper, os.environ)):
        if name.startswith(ENV_PREFIX) and name not in known and not name.startswith(_TESTS):
            yield f"{name} {_advice(name.removeprefix(ENV_PREFIX).lower(), name, known)}"


def _unknown_keys(path: Path) -> Iterator[str]:
    known = setting_names()
    for name, value in read_toml(path).items():
        if name in known:
            continue
        if isinstance(value, dict):
            yield f"{path} has a table [{name}]: settings belong at the top level, without tables"
        else:
            spelled = name.lower().removeprefix(ENV_PREFIX.lower())
            yield f"{name} in {path} {_advice(spelled, spelled, known)}"


def _advice(setting: str, name: str, known: Iterable[str]) -> str:
    if advice := REMOVED_SETTINGS.get(setting):
        return f"is no longer a setting: {advice}"
    matches = get_close_matches(name, sorted(known), n=1)
    remedy = f"; did you mean {matches[0]}?" if matches else " (docs/configuration.md lists them)"
    return "is not a setting" + remedy
