"""Writes docs/configuration.md from the settings classes: `python tools/config_reference.py`."""

import ast
import inspect
import sys
import types
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
import orjson
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from antiphon.broker.service.logs import LogSettings
from antiphon.broker.service.tracing import TracingSettings
from antiphon.broker.settings import (
    AntiphonSettings,
    BrokerSettings,
    RecordingsSettings,
    StatusSettings,
)
from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.edge.settings import AccessSettings, EdgeSettings
from antiphon.inference_worker.engines.registry import BUILT_IN, find_engine
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings
from antiphon.shared_schemas.constant import names_of

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "configuration.md"

SETTINGS: tuple[tuple[str, type[AntiphonSettings]], ...] = (
    ("Every service: logs", LogSettings),
    ("Every service: traces", TracingSettings),
    ("Every service that talks to Redis", BrokerSettings),
    ("Every service: health and metrics", StatusSettings),
    ("Edge, recorder and cleanup", RecordingsSettings),
    ("Edge: access control", AccessSettings),
    ("Edge", EdgeSettings),
    ("Worker", WorkerSettings),
    ("Recorder", RecorderSettings),
    ("Cleanup", CleanupSettings),
)

_INTRODUCTION = """# Settings

<!-- Written by `python tools/config_reference.py`; change the settings classes, not this file. -->

Flags override `ANTIPHON_*` variables, which override `antiphon.toml` in the working directory. In that file a
setting has its name without `ANTIPHON_`, in lower case (`port = 8006`), without tables. Paths may begin with
`~`. Items of a list are separated by commas.

An invalid value and a misspelled name prevent the start: the process names the flag, variable or file, and ends
with status 78. `antiphon up` does not start a service again that ended with this status.
"""

_ENGINES = """## Engine options

Keys of the JSON object in `ANTIPHON_ENGINE_OPTIONS`. Options that are settings of the worker are left out. An
engine of another package has its own options ([write an engine](write-an-engine.md)).
"""


def reference() -> str:
    parts = [_INTRODUCTION]
    parts += [_settings_section(title, cls) for title, cls in SETTINGS if own_fields(cls)]
    parts += [_ENGINES, *(_engine_section(name) for name in BUILT_IN)]
    return "\n".join(parts)


def _settings_section(title: str, cls: type[BaseModel]) -> str:
    rows = [
        f"| `ANTIPHON_{name.upper()}` | {_default(field)} | {_meaning(cls, name)} |"
        for name, field in own_fields(cls)
    ]
    return _section(f"## {title}", inspect.cleandoc(cls.__doc__ or ""), rows)


def _engine_section(name: str) -> str:
    cls: type[BaseModel] = find_engine(name).options
    rows = [
        f"| `{option}` | {_default(field)} | {_meaning(cls, option)} |"
        for option, field in own_fields(cls)
        if option not in WorkerSettings.model_fields
    ]
    return _section(f"### `{name}`", inspect.cleandoc(cls.__doc__ or ""), rows)


def _section(head: str, text: str, rows: list[str]) -> str:
    table = "\n".join(["| name | default | |", "|---|---|---|", *rows])
    return f"{head}\n\n{text}\n\n{table}\n"


def own_fields(cls: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    """The fields that an operator can set, without those of the parent classes."""
    parents = [parent for parent in cls.__bases__ if issubclass(parent, BaseModel)]
    inherited = {name for parent in parents for name in parent.model_fields}
    return [(name, cls.model_fields[name]) for name in names_of(cls) if name not in inherited]


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if value is None or value in ((), ""):
        return ""
    if isinstance(value, Path) and value.is_absolute():
        value = value.resolve().relative_to(ROOT)
    text = str(value) if isinstance(value, str | Path) else orjson.dumps(value).decode()
    return f"`{text}`"


@cache
def descriptions(cls: type[BaseModel]) -> dict[str, str]:
    """The docstrings of the fields that a class declares."""
    found = {}
    [definition] = ast.parse(inspect.getsource(cls)).body
    assert isinstance(definition, ast.ClassDef)
    for pair in pairwise(definition.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text))):
                found[name] = " ".join(text.split())
    return found


def _meaning(cls: type[BaseModel], name: str) -> str:
    limits = ", ".join(_limits(cls.model_fields[name]))
    parts = [descriptions(cls).get(name, ""), limits]
    return "; ".join(part for part in parts if part).replace("|", "\\|")


def _limits(field: FieldInfo) -> Iterator[str]:
    if not isinstance(field.default, bool):
        yield from _kind(field.annotation)
    bounds = {type(limit): limit for limit in field.metadata}
    match bounds.get(annotated_types.Ge), bounds.get(annotated_types.Le):
        case annotated_types.Ge(ge=low), annotated_types.Le(le=high):
            yield f"{low}–{high}"
        case annotated_types.Ge(ge=low), None:
            yield f"≥ {low}"
        case None, annotated_types.Le(le=high):
            yield f"≤ {high}"
    if isinstance(above := bounds.get(annotated_types.Gt), annotated_types.Gt):
        yield f"> {above.gt}"


def _kind(annotation: Any) -> Iterator[str]:
    """Allowed values that the default does not show."""
    if get_origin(annotation) is Annotated:
        yield from _kind(get_args(annotation)[0])
    elif get_origin(annotation) is Literal:
        yield "one of " + ", ".join(f"`{choice}`" for choice in get_args(annotation))
    elif get_origin(annotation) in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _kind(part)
    elif annotation is bool:
        yield "`true` or `false`"
    elif annotation is SecretStr:
        yield "secret"
    elif get_origin(annotation) is tuple:
        yield "list"


def main() -> None:
    """Write the document; with the argument `-`, print it."""
    if "-" in sys.argv[1:]:
        sys.stdout.write(reference())
    else:
        DOCUMENT.write_text(reference())


if __name__ == "__main__":
    main()
