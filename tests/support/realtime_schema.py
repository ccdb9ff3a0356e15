"""Checks events of `/v1/realtime` against the schema that the edge serves."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA: dict[str, Any] = json.loads(
    files("antiphon.edge").joinpath("assets", "realtime-schema.json").read_text()
)


def _direction(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{name}"})


SERVER, CLIENT = _direction("server_event"), _direction("client_event")


def is_valid(event: object, direction: Draft202012Validator = SERVER) -> bool:
    return bool(direction.is_valid(event))
