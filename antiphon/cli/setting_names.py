"""Finds misspelled settings: a name that no service reads is an error, not a default."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

from antiphon.broker.service.logs import LogSettings
from antiphon.broker.service.tracing import TracingSettings
from antiphon.broker.settings import ENV_PREFIX, TOML_FILE, InvalidSettings
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings

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
    return {name for cls in _CLASSES for name in cls.model_fields}


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
            yield f"{name} is not a setting{_suggestion(name, known)}"


def _unknown_keys(path: Path) -> Iterator[str]:
    if not path.is_file():
        return
    try:
        found = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettings(f"{path} is not valid TOML: {error}") from None
    known = setting_names()
    for name, value in found.items():
        if name in known:
            continue
        if isinstance(value, dict):
            yield f"{path} has a table [{name}]: settings belong at the top level, without tables"
        else:
            yield f"{name} in {path} is not a setting{_suggestion(name, known)}"


def _suggestion(name: str, known: Iterable[str]) -> str:
    matches = get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {matches[0]}?" if matches else " (docs/configuration.md lists them)"
