"""Writes web/src/protocol/server-messages.ts from the messages of the edge: `python tools/message_schemas.py`.

The pages check every message of the server with these Valibot schemas, and their types follow from them.
A field without a default is required. A new field needs a default, because the edge may be older than
the page.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from itertools import groupby
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from antiphon.shared_schemas.messages.chat import ChatServerMessage
from antiphon.shared_schemas.messages.duplex import DuplexServerMessage
from antiphon.shared_schemas.messages.half_duplex import HalfDuplexServerMessage
from antiphon.shared_schemas.wire import ServerMessage

Kinds = tuple[type[ServerMessage], ...]

ROOT = Path(__file__).parents[1]
MODULE = ROOT / "web" / "src" / "protocol" / "server-messages.ts"

PROTOCOLS: dict[str, Any] = {
    "Duplex": DuplexServerMessage,
    "HalfDuplex": HalfDuplexServerMessage,
    "Chat": ChatServerMessage,
}

_INTRODUCTION = """// Written by `python tools/message_schemas.py` from shared_schemas/messages. Do not edit it.
import * as v from "valibot";
import { sound } from "./message-reader.ts";
"""
_SIMPLE = {
    str: "v.string()",
    int: "v.number()",
    float: "v.number()",
    bool: "v.boolean()",
    bytes: "sound",
    Any: "v.unknown()",
}
_CONNECTION = {item.name for item in fields(ServerMessage)}
"""Fields of every message. They belong to the connection, which reads them itself."""
_RENAMED = {"Error": "ErrorMessage"}
"""`Error` is a class of JavaScript."""
_WIDTH = 100


def module() -> str:
    """The text of the TypeScript module."""
    shared: dict[Kinds, str] = {}
    unions: list[str] = []
    for protocol, union in PROTOCOLS.items():
        names = [_declare(kinds, shared) for kinds in _by_type(union)]
        unions.append(_variant(protocol, names))
    return "\n".join([_INTRODUCTION, *shared.values(), *unions])


def _by_type(union: Any) -> Iterator[Kinds]:
    """Classes with the same `type` are variants of one message."""
    for _, kinds in groupby(get_args(union), key=lambda kind: kind.type):
        yield tuple(kinds)


def _declare(kinds: Kinds, declared: dict[Kinds, str]) -> str:
    """Declares a message unless another protocol has done so. Returns its TypeScript name."""
    name = _RENAMED.get(kinds[0].__name__, kinds[0].__name__)
    constant = name[0].lower() + name[1:]
    entries = [f'type: v.literal("{kinds[0].type}")', *_entries(kinds)]
    body = "".join(f"  {entry},\n" for entry in entries)
    inside = f"{{\n{body}}}" if len(entries) > 1 else f"{{ {entries[0]} }}"
    declared[kinds] = (
        f"{comment(kinds[0].__doc__ or '')}export const {constant} = v.object({inside});\n"
        f"export type {name} = v.InferOutput<typeof {constant}>;\n"
    )
    return constant


def _entries(kinds: Kinds) -> Iterator[str]:
    """The fields of all classes. A field that some of them lack may be missing."""
    items = {item.name: (kind, item) for kind in reversed(kinds) for item in fields(kind)}
    shared = set.intersection(*({item.name for item in fields(kind)} for kind in kinds))
    for name, (kind, item) in items.items():
        if name not in _CONNECTION:
            hint = get_type_hints(kind)[name]
            yield f"{name}: {_schema(hint, required=name in shared and _is_required(item))}"


def _is_required(item: Field[Any]) -> bool:
    return item.default is MISSING and item.default_factory is MISSING


def _schema(hint: Any, *, required: bool = True) -> str:
    """Fields without a value are not sent, so they may be missing."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
        required = False
    if not required:
        return f"v.nullish({_schema(hint)}, {'false' if hint is bool else 'null'})"
    if get_origin(hint) is dict:
        return f"v.record({', '.join(_schema(part) for part in get_args(hint))})"
    if get_origin(hint) is list:
        return f"v.array({_schema(*get_args(hint))})"
    return _SIMPLE[hint]


def comment(text: str) -> str:
    """A docstring as a comment of TypeScript."""
    lines = inspect.cleandoc(text).splitlines()
    if len(lines) == 1 and len(lines[0]) <= _WIDTH - 7:
        return f"/** {lines[0]} */\n"
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in lines) + " */\n"


def _variant(protocol: str, names: list[str]) -> str:
    lower = protocol[0].lower() + protocol[1:]
    listed = "".join(f"  {name},\n" for name in names)
    return (
        f'export const {lower}ServerMessage = v.variant("type", [\n{listed}]);\n'
        f"export type {protocol}ServerMessage = v.InferOutput<typeof {lower}ServerMessage>;\n"
    )


def main() -> None:
    """Write the module; with the argument `-`, print it."""
    if "-" in sys.argv[1:]:
        sys.stdout.write(module())
    else:
        MODULE.write_text(module())


if __name__ == "__main__":
    main()
