"""The JSON Schema of `/v1/realtime`: the document's events, and what a client's wishes add to them."""

from __future__ import annotations

from copy import deepcopy
from importlib.resources import files
from typing import Any

import orjson

from antiphon.edge.wishes import Wishes

Schema = dict[str, Any]

DOCUMENTED: Schema = orjson.loads(
    files("antiphon.edge").joinpath("assets", "realtime-schema.json").read_bytes()
)
"""What every client may send and is sent."""

_SEQ: Schema = {"type": "integer", "minimum": 1, "description": "Number of this event"}
_TOKEN: Schema = {"type": "string", "description": "With what to come back; the newest counts"}
_CAPABILITIES: Schema = {"type": "object", "description": "In the first event: what there is"}
_BEARERS = ("session.queued", "session.queue_done", "session.created")


def schema_for(wishes: Wishes) -> Schema:
    """The events of a connection whose URL asks for this."""
    schema = deepcopy(DOCUMENTED)
    events: dict[str, Schema] = schema["$defs"]["server"]
    if wishes.notices:
        events["session.notice"] = _event(
            limit=_one_of("duration", "context"), seconds_left=_SECONDS
        )
    if wishes.resume:
        for name, event in events.items():  # an error may say why there is no session at all
            _add(event, required=name != "error", seq=_SEQ)
        for name in _BEARERS:
            _add(events[name], required=True, resume_token=_TOKEN)
        events["resumed"] = _event(seq={**_SEQ, "minimum": 0}, resume_token=_TOKEN)
    if wishes.capabilities:
        for event in events.values():
            _add(event, required=False, capabilities=_CAPABILITIES)
    if wishes.playback_ack:
        name = "output_audio_buffer.playback_ack"
        schema["$defs"]["client"][name] = _event(played_ms=_MILLISECONDS)
    for direction in ("client", "server"):
        names = schema["$defs"][direction]
        refs = [{"$ref": f"#/$defs/{direction}/{name}"} for name in names]
        schema["$defs"][f"{direction}_event"]["oneOf"] = refs
    for name, event in (events | schema["$defs"]["client"]).items():
        event["properties"].setdefault("type", {"const": name})
    return schema


_SECONDS: Schema = {"type": "number", "minimum": 0}
_MILLISECONDS: Schema = {"type": "number", "minimum": 0}


def _one_of(*values: str) -> Schema:
    return {"enum": [*values]}


def _event(**properties: Schema) -> Schema:
    return {
        "type": "object",
        "required": ["type", *properties],
        "additionalProperties": False,
        "properties": {**properties},
    }


def _add(event: Schema, *, required: bool, **properties: Schema) -> None:
    event["properties"].update(properties)
    if required:
        event["required"] = [*event["required"], *properties]
