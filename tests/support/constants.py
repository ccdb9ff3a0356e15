"""Constants of services that a test starts as processes: fields that no variable of the environment sets."""

import json
import os
from typing import Any

from antiphon.broker.settings import ENV_PREFIX, AntiphonSettings
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cli.settings import setting_names
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings

_VARIABLE = f"{ENV_PREFIX}TEST_CONSTANTS"
_SERVICES: tuple[type[AntiphonSettings], ...] = (
    EdgeSettings,
    WorkerSettings,
    RecorderSettings,
    CleanupSettings,
)


def variables(values: dict[str, Any]) -> dict[str, str]:
    """The environment of a process of the fork server with these settings and constants.

    What is neither is a variable of a test's own.
    """
    fixed = {name for cls in _SERVICES for name in cls.model_fields} - setting_names()
    constants = {name: str(value) for name, value in values.items() if name in fixed}
    others = {name: str(value) for name, value in values.items() if name not in fixed}
    named = {f"{ENV_PREFIX}{name.upper()}": value for name, value in others.items()}
    return named | {_VARIABLE: json.dumps(constants)}


def apply_constants() -> None:
    """Change the defaults of this process's settings to what `variables` was called with."""
    values = json.loads(os.environ.get(_VARIABLE, "{}"))
    for cls in _SERVICES:
        own = values.keys() & cls.model_fields.keys()
        for name in own:
            cls.model_fields[name].default = values[name]
            cls.model_fields[name].default_factory = None
            cls.model_fields[name].validate_default = True
        if own:
            cls.model_rebuild(force=True)
