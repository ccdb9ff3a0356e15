"""Writes the Valibot schemas of the pages from the classes of the server: `python tools/page_schemas.py`.

- web/src/protocol/server-messages.ts from the messages of the edge. A new field needs a default, because the
  edge may be older than the page.
- web/src/api/answers.ts from the response models of the edge. Fields of a newer edge are dropped.

The types of the pages follow from the schemas. A field with a default may be missing, so that the pages read
what an older edge has sent or recorded.
"""

import inspect
import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, get_args, get_type_hints

from fastapi.routing import APIRoute
from msgspec.structs import fields
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from antiphon.edge.routes import admin, recordings, status, voices
from antiphon.shared_schemas.messages.chat import ChatServerMessage
from antiphon.shared_schemas.messages.duplex import DuplexServerMessage
from antiphon.shared_schemas.messages.half_duplex import HalfDuplexServerMessage
from antiphon.shared_schemas.wire import ServerMessage

JsonSchema = dict[str, Any]
Kinds = tuple[type[ServerMessage], ...]

WEB = Path(__file__).parents[1] / "web" / "src"
MESSAGES = WEB / "protocol" / "server-messages.ts"
ANSWERS = WEB / "api" / "answers.ts"

PROTOCOLS: dict[str, Any] = {
    "Duplex": DuplexServerMessage,
    "HalfDuplex": HalfDuplexServerMessage,
    "Chat": ChatServerMessage,
}
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
    voices.router,
    voices.presets_router,
    voices.defaults_router,
    recordings.router,
    recordings.write_router,
    recordings.admin_router,
)
_MESSAGES_HEAD = """// Written by `python tools/page_schemas.py` from shared_schemas/messages. Do not edit it.
import * as v from "valibot";
import { sound } from "./message-reader.ts";
"""
_ANSWERS_HEAD = """// Written by `python tools/page_schemas.py` from the models of the edge. Do not edit it.
import * as v from "valibot";
"""
_CONNECTION = {item.name for item in fields(ServerMessage)}
"""Fields of every message. They belong to the connection, which reads them itself."""
_RENAMED = {
    "Error": "ErrorMessage",
    "Meta": "RecordingMeta",
    "Timeline": "Recording",
    "Comment": "RecordingComment",
}
"""Names that the pages use for something else, or that are classes of JavaScript."""
_WIDTH = 100
_REF = "#/$defs/"
_NULL = {"type": "null"}
_SIMPLE = {
    "string": "v.string()",
    "integer": "v.number()",
    "number": "v.number()",
    "boolean": "v.boolean()",
    "null": "v.null()",
}


def messages() -> str:
    """The text of the module of the messages."""
    shared: dict[Kinds, str] = {}
    unions: list[str] = []
    for protocol, union in PROTOCOLS.items():
        names = [_declare_message(kinds, shared) for kinds in _by_type(union)]
        unions.append(_variant(protocol, names))
    return "\n".join([_MESSAGES_HEAD, *shared.values(), *unions])


def _by_type(union: Any) -> Iterator[Kinds]:
    """Classes with the same `type` are variants of one message."""
    for _, kinds in groupby(get_args(union), key=lambda kind: kind.type):
        yield tuple(kinds)


def _declare_message(kinds: Kinds, declared: dict[Kinds, str]) -> str:
    """Declares a message unless another protocol has done so. Returns its TypeScript name."""
    name = kinds[0].__name__
    entries = [f'type: v.literal("{kinds[0].type}")', *_fields(kinds)]
    body = "".join(f"  {entry},\n" for entry in entries)
    inside = f"{{\n{body}}}" if len(entries) > 1 else f"{{ {entries[0]} }}"
    declared[kinds] = _declaration(name, f"v.object({inside})", kinds[0].__doc__)
    return _constant(name)


def _fields(kinds: Kinds) -> Iterator[str]:
    """The fields of all classes. A field that some of them lack may be missing."""
    items = {item.name: (kind, item) for kind in reversed(kinds) for item in fields(kind)}
    shared = set.intersection(*({item.name for item in fields(kind)} for kind in kinds))
    for name, (kind, item) in items.items():
        if name not in _CONNECTION:
            hint = get_type_hints(kind)[name]
            yield f"{name}: {_field(hint, required=name in shared and item.required)}"


def _field(hint: Any, *, required: bool) -> str:
    """Fields without a value are not sent, so they may be missing."""
    schema = TypeAdapter(hint).json_schema()
    if required and "anyOf" not in schema:
        return _value(schema)
    (value,) = (part for part in schema.get("anyOf", [schema]) if part != _NULL)
    return f"v.nullish({_value(value)}, {'false' if value.get('type') == 'boolean' else 'null'})"


def _variant(protocol: str, names: list[str]) -> str:
    listed = "".join(f"  {name},\n" for name in names)
    return _declaration(f"{protocol}ServerMessage", f'v.variant("type", [\n{listed}])')


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


def answers() -> str:
    """The text of the module of the answers: each class after those that it uses."""
    _, schema = models_json_schema(
        [(model, "serialization") for model in answer_models()], ref_template=_REF + "{model}"
    )
    written: dict[str, str] = {}
    for name in schema["$defs"]:
        _declare(name, schema["$defs"], written)
    return "\n".join([_ANSWERS_HEAD, *written.values()])


def _declare(name: str, definitions: dict[str, JsonSchema], written: dict[str, str]) -> None:
    if name in written:
        return
    schema = definitions[name]
    for used in _references(schema):
        _declare(used, definitions, written)
    value = _object(schema) if "properties" in schema else _value(schema)
    written[name] = _declaration(name, value, schema.get("description"))


def _declaration(name: str, value: str, about: str | None = None) -> str:
    """A constant with the schema, and a type with the same name."""
    constant = _constant(name)
    kind = f"export type {_RENAMED.get(name, name)} = v.InferOutput<typeof {constant}>;"
    return f"{_comment(about or '')}{_wrapped(f'export const {constant} = {value};')}\n{kind}\n"


def _comment(text: str) -> str:
    lines = inspect.cleandoc(text).splitlines()
    if len(lines) <= 1 and len(text) <= _WIDTH - 7:
        return f"/** {text} */\n" if text else ""
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


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
    if "anyOf" in schema and _NULL in schema["anyOf"]:
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
    if "prefixItems" in schema:
        return f"v.tuple({_list(_value(one) for one in schema['prefixItems'])})"
    if schema.get("type") == "array":
        return f"v.array({_value(schema['items'])})"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", True)
        inside = _value(values) if isinstance(values, dict) else "v.unknown()"
        return f"v.record(v.string(), {inside})"
    if schema.get("format") == "binary":
        return "sound"
    return _SIMPLE[schema["type"]] if "type" in schema else "v.unknown()"


def _union(parts: list[JsonSchema]) -> str:
    values = [_value(part) for part in parts if part != _NULL]
    inside = values[0] if len(values) == 1 else f"v.union({_list(values)})"
    return f"v.nullable({inside})" if _NULL in parts else inside


def _list(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _constant(name: str) -> str:
    name = _RENAMED.get(name, name)
    return name[0].lower() + name[1:]


def main() -> None:
    MESSAGES.write_text(messages())
    ANSWERS.write_text(answers())


if __name__ == "__main__":
    main()
