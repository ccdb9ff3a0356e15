"""Checks events of `/v1/realtime` against the schemas that the edge serves."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

from antiphon.edge.protocols.machine import Action
from antiphon.edge.routes.sockets import SCHEMAS
from support.protocol_driver import wires_of

OPTIONS = frozenset({"resume", "capabilities", "notices", "playback_ack", "transcript"})


def served(version: int) -> dict[str, Any]:
    asset = files("antiphon.edge").joinpath("assets", SCHEMAS[version])
    schema: dict[str, Any] = json.loads(asset.read_text())
    return schema


def schema_for(version: int = 1, *options: str) -> dict[str, Any]:
    """What a client with these options may send and receive."""
    schema = served(version)
    for direction in ("client", "server"):
        defs = schema["$defs"]
        defs[direction] = _known(defs[direction], frozenset(options))
        kept = [f"#/$defs/{direction}/{name}" for name in defs[direction]]
        events = defs[f"{direction}_event"]
        events["oneOf"] = [each for each in events["oneOf"] if each["$ref"] in kept]
    return schema


def _known(value: Any, options: frozenset[str]) -> Any:
    """Without the parts that need another option."""
    if isinstance(value, dict):
        parts = ((name, part) for name, part in value.items() if _is_known(part, options))
        return {name: _known(part, options) for name, part in parts}
    if isinstance(value, list):
        return [_known(part, options) for part in value if _is_known(part, options)]
    return value


def _is_known(part: Any, options: frozenset[str]) -> bool:
    return not isinstance(part, dict) or part.get("x-option") in {None, *options}


def direction_of(schema: dict[str, Any], name: str) -> Draft202012Validator:
    return Draft202012Validator({"$defs": schema["$defs"], "$ref": f"#/$defs/{name}"})


SCHEMA, SCHEMA_V2 = schema_for(1), schema_for(2)
SERVER, CLIENT = direction_of(SCHEMA, "server_event"), direction_of(SCHEMA, "client_event")
SERVER_V2, CLIENT_V2 = (
    direction_of(SCHEMA_V2, "server_event"),
    direction_of(SCHEMA_V2, "client_event"),
)


def is_valid(event: object, direction: Draft202012Validator = SERVER) -> bool:
    return bool(direction.is_valid(event))


def valid_wires(
    actions: Sequence[Action], direction: Draft202012Validator = SERVER
) -> list[dict[str, Any]]:
    """The messages of the actions as they are sent; every one obeys the schema."""
    wires = wires_of(actions)
    assert all(is_valid(wire, direction) for wire in wires), wires
    return wires
