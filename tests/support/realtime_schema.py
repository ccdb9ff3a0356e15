"""Checks events of `/v1/realtime` against the schemas that the edge serves."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator


def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(files("antiphon.edge").joinpath("assets", name).read_text())
    return schema


def _direction(schema: dict[str, Any], name: str) -> Draft202012Validator:
    return Draft202012Validator({"$defs": schema["$defs"], "$ref": f"#/$defs/{name}"})


SCHEMA, SCHEMA_V2 = _schema("realtime-schema.json"), _schema("realtime-schema-v2.json")
SERVER, CLIENT = _direction(SCHEMA, "server_event"), _direction(SCHEMA, "client_event")
SERVER_V2, CLIENT_V2 = _direction(SCHEMA_V2, "server_event"), _direction(SCHEMA_V2, "client_event")


def is_valid(event: object, direction: Draft202012Validator = SERVER) -> bool:
    return bool(direction.is_valid(event))
