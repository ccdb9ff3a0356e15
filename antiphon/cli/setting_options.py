"""Options that are settings of a service: their help has the default and the variable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_settings import BaseSettings

from antiphon.broker.settings import ENV_PREFIX, BrokerSettings
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.engines.registry import engine_names
from antiphon.inference_worker.settings import WorkerSettings


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
        metavar=f"[{'|'.join(_ENGINES)}]",
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
        "The checkpoint's folder, or a GGUF file for the engine local.",
        *("--model-path", "-m"),
    ),
]
Quantize = Annotated[
    str | None,
    setting_option(WorkerSettings, "quantize", "int8 or fp8: the engine minicpmo in less memory."),
]
HealthHost = Annotated[
    str | None, setting_option(WorkerSettings, "health_host", "Address of its health page.")
]
HealthPort = Annotated[
    int | None,
    setting_option(WorkerSettings, "health_port", "Port of the worker's health page; 0: any free."),
]
ServiceRedisUrl = Annotated[
    str | None, setting_option(BrokerSettings, "redis_url", "URL of Redis.")
]
