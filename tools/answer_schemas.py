"""Writes web/src/api/answers.ts from the response models of the edge: `python tools/answer_schemas.py`.

The pages check the answers of the HTTP API with these Valibot schemas, and their types follow from them.
Fields of a newer edge are dropped. A field with a default may be missing, so that the pages read what an
older edge has sent or recorded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from antiphon.edge.routes import admin, recordings, status, voices
from message_schemas import comment

JsonSchema = dict[str, Any]

ROOT = Path(__file__).parents[1]
MODULE = ROOT / "web" / "src" / "api" / "answers.ts"

ROUTES = (
    ("GET", "/api/apps"),
    ("GET", "/api/admin/apps"),
    ("PUT", "/api/admin/apps/{app_id}"),
    ("GET", "/api/capabilities"),
    ("GET", "/status"),
    ("DELETE", "/api/queue/{ticket_id}"),
    ("GET", "/api/config/eta"),
    ("GET", "/api/frontend_defaults"),
    ("GET", "/api/presets"),
    ("GET", "/api/presets/{mode}/{preset_id}/audio"),
    ("GET", "/api/assets/ref_audio"),
    ("POST", "/api/assets/ref_audio"),
    ("GET", "/api/assets/ref_audio/{voice_id}"),
    ("GET", "/api/sessions"),
    ("GET", "/api/sessions/{session_id}"),
    ("GET", "/api/sessions/{session_id}/recording"),
    ("GET", "/api/sessions/{session_id}/peaks"),
    ("GET", "/api/sessions/{session_id}/upload-recording"),
    ("GET", "/api/sessions/{session_id}/comment"),
    ("GET", "/api/sessions/{session_id}/shares"),
)
"""Those whose answers the pages read."""

_ROUTERS = (
    admin.router,
    admin.admin_router,
    status.router,
    status.admin_router,
    voices.router,
    voices.presets_router,
    voices.defaults_router,
    recordings.router,
    recordings.write_router,
    recordings.admin_router,
)
_INTRODUCTION = """// Written by `python tools/answer_schemas.py` from the models of the edge. Do not edit it.
import * as v from "valibot";
"""
_RENAMED = {"Meta": "RecordingMeta", "Timeline": "Recording", "Comment": "RecordingComment"}
"""Names that the pages use for something else, or that are classes of JavaScript."""
_WIDTH = 100
_REF = "#/$defs/"
_SIMPLE = {
    "string": "v.string()",
    "integer": "v.number()",
    "number": "v.number()",
    "boolean": "v.boolean()",
    "null": "v.null()",
}


def answer_models() -> list[type[BaseModel]]:
    """The response models of ROUTES, without repetition. Raises KeyError if a route is gone."""
    known = {
        (method, route.path): route.response_model
        for router in _ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    return list(dict.fromkeys(known[route] for route in ROUTES))


def module() -> str:
    """The text of the TypeScript module: each class after those that it uses."""
    _, schema = models_json_schema(
        [(model, "serialization") for model in answer_models()], ref_template=_REF + "{model}"
    )
    written: dict[str, str] = {}
    for name in schema["$defs"]:
        _declare(name, schema["$defs"], written)
    return "\n".join([_INTRODUCTION, *written.values()])


def _declare(name: str, definitions: dict[str, JsonSchema], written: dict[str, str]) -> None:
    if name in written:
        return
    schema = definitions[name]
    for used in _references(schema):
        _declare(used, definitions, written)
    constant = _constant(name)
    about = comment(schema["description"]) if "description" in schema else ""
    line = f"export const {constant} = {_object(schema) if 'properties' in schema else _value(schema)};"
    kind = f"export type {_RENAMED.get(name, name)} = v.InferOutput<typeof {constant}>;"
    written[name] = f"{about}{_wrapped(line)}\n{kind}\n"


def _wrapped(line: str) -> str:
    """A list that is too long for one line has one item per line."""
    if "\n" in line or len(line) <= _WIDTH:
        return line
    start, _, rest = line.partition("[")
    items, _, end = rest.rpartition("]")
    return f"{start}[\n" + "".join(f"  {item},\n" for item in items.split(", ")) + f"]{end}"


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_REF)
        for name, part in schema.items():
            if name != "discriminator":
                yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _object(schema: JsonSchema) -> str:
    required = schema.get("required", ())
    entries = "".join(
        _entry(name, part, required=name in required) for name, part in schema["properties"].items()
    )
    return f"v.object({{\n{entries}}})"


def _entry(name: str, schema: JsonSchema, *, required: bool) -> str:
    about = f"  /** {schema['description']} */\n" if "description" in schema else ""
    return f"{about}  {name}: {_value(schema) if required else _optional(schema)},\n"


def _optional(schema: JsonSchema) -> str:
    if "anyOf" in schema and {"type": "null"} in schema["anyOf"]:
        return _value(schema).replace("v.nullable(", "v.nullish(", 1)
    default = schema.get("default", [] if schema.get("type") == "array" else None)
    if default is None:  # a field that is always null
        return f"v.nullish({_value(schema)})"
    return f"v.optional({_value(schema)}, {json.dumps(default).removesuffix('.0')})"


def _value(schema: JsonSchema) -> str:
    """The schema of one value."""
    if "$ref" in schema:
        return _constant(schema["$ref"].removeprefix(_REF))
    if "const" in schema:
        return f"v.literal({json.dumps(schema['const'])})"
    if "enum" in schema:
        return f"v.picklist({_list(json.dumps(one) for one in schema['enum'])})"
    if "oneOf" in schema:
        kinds = _list(_value(one) for one in schema["oneOf"])
        return f"v.variant({json.dumps(schema['discriminator']['propertyName'])}, {kinds})"
    if "anyOf" in schema:
        return _union(schema["anyOf"])
    if schema.get("type") == "array":
        return f"v.array({_value(schema['items'])})"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", True)
        inside = _value(values) if isinstance(values, dict) else "v.unknown()"
        return f"v.record(v.string(), {inside})"
    return _SIMPLE[schema["type"]] if "type" in schema else "v.unknown()"


def _union(parts: list[JsonSchema]) -> str:
    values = [_value(part) for part in parts if part != {"type": "null"}]
    inside = values[0] if len(values) == 1 else f"v.union({_list(values)})"
    return f"v.nullable({inside})" if {"type": "null"} in parts else inside


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _constant(name: str) -> str:
    name = _RENAMED.get(name, name)
    return name[0].lower() + name[1:]


def main() -> None:
    """Write the module; with the argument `-`, print it."""
    if "-" in sys.argv[1:]:
        sys.stdout.write(module())
    else:
        MODULE.write_text(module())


if __name__ == "__main__":
    main()
