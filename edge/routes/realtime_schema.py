"""`GET /v1/realtime/schema.json`: the documented events and what connect options add to them."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request, Response

from antiphon.edge.routes.stored import StoredBody
from antiphon.edge.session.admission import ConnectOptions
from antiphon.shared_schemas.states import WaitReason

router = APIRouter(tags=["realtime"])

Schema = dict[str, Any]

DOCUMENTED: dict[int, Schema] = {
    version: orjson.loads(files("antiphon.edge").joinpath("assets", name).read_bytes())
    for version, name in ((1, "realtime-schema.json"), (2, "realtime-schema-v2.json"))
}
"""The events that every client of a version may send and receive."""

_SEQ: Schema = {"type": "integer", "minimum": 1, "description": "Number of this event"}
_TOKEN: Schema = {"type": "string", "description": "Resume token; use the newest one"}
_CAPABILITIES: Schema = {
    "type": "object",
    "description": "Capabilities of the server, in the first event",
}
_TIME: Schema = {"type": "number", "minimum": 0}
_STALE: Schema = {"const": True, "description": "The position cannot be read now"}
_REASON: Schema = {
    "enum": [str(reason) for reason in WaitReason],
    "description": "Why no worker can take the session now",
}
_POSITION: Schema = {
    "type": "integer",
    "minimum": 0,
    "description": "1 is next; 0: a worker serves the session again",
}
_USER_TEXT: Schema = {"type": "string", "description": "What the user said before this event"}
_INTERIM_TEXT: Schema = {
    "type": "string",
    "description": "What the user has said so far of the utterance that continues, empty if none does",
}
_DELTAS = {"response.output_audio.delta", "response.listen", "response.output.delta"}
_BEARERS = ("session.queued", "session.queue_done", "session.created")

_CONNECTION = ("session.queue_done", "session.created", "session.closed")
_UNNUMBERED = {1: frozenset({"error"}), 2: frozenset({"error", *_CONNECTION})}
"""Events that may precede a session, or with `mode=chat` a request. They have no number and no token then."""


def schema_for(options: ConnectOptions, version: int = 1) -> Schema:
    """The events of a connection with these options."""
    schema = deepcopy(DOCUMENTED[version])
    events: dict[str, Schema] = schema["$defs"]["server"]
    if options.notices:
        _add_notices(events)
    if options.transcript:
        _add_transcripts(events)
    if options.resume:
        _add_resume(events, _UNNUMBERED[version])
    if options.capabilities:
        for event in events.values():
            _add(event, required=False, capabilities=_CAPABILITIES)
    if options.playback_ack:
        name = "output_audio_buffer.playback_ack"
        schema["$defs"]["client"][name] = _event(played_ms=_TIME)
    for direction in ("client", "server"):
        names = schema["$defs"][direction]
        refs = [{"$ref": f"#/$defs/{direction}/{name}"} for name in names]
        schema["$defs"][f"{direction}_event"]["oneOf"] = refs
    for name, event in (events | schema["$defs"]["client"]).items():
        event["properties"].setdefault("type", {"const": name})
    return schema


def _add_notices(events: dict[str, Schema]) -> None:
    limits: Schema = {"enum": ["duration", "context"]}
    events["session.notice"] = _event(limit=limits, seconds_left=_TIME)
    _add(events["session.queued"], required=False, reason=_REASON)
    for name in {"session.created", "response.done"} & set(events):
        _add(events[name], required=False, recording_session_id={"type": "string"})
    update = {"stale": _STALE, "position": _POSITION, "reason": _REASON}
    _add(events["session.queue_update"], required=False, **update)


def _add_transcripts(events: dict[str, Schema]) -> None:
    for name in _DELTAS & set(events):
        texts = {"user_text": _USER_TEXT, "interim_user_text": _INTERIM_TEXT}
        _add(events[name], required=False, **texts)


def _add_resume(events: dict[str, Schema], unnumbered: frozenset[str]) -> None:
    for name, event in events.items():
        _add(event, required=name not in unnumbered, seq=_SEQ)
    for name in _BEARERS:
        _add(events[name], required=name not in unnumbered, resume_token=_TOKEN)
    events["resumed"] = _event(seq={**_SEQ, "minimum": 0}, resume_token=_TOKEN)


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


@cache
def _stored(options: ConnectOptions, version: int) -> StoredBody:
    """At most 64: one for each combination of options."""
    return StoredBody.compressed(orjson.dumps(schema_for(options, version)))


class SchemaResponse(Response):
    """A JSON Schema, with its own media type."""

    media_type = "application/schema+json"


_OBJECT = {"content": {SchemaResponse.media_type: {"schema": {"type": "object"}}}}


@router.get("/v1/realtime/schema.json", response_class=SchemaResponse, responses={200: _OBJECT})
async def schema(
    request: Request,
    *,
    version: Annotated[int, Query(ge=1, le=2)] = 1,
    resume: bool = False,
    capabilities: bool = False,
    notices: bool = False,
    playback_ack: bool = False,
    transcript: bool = False,
) -> Response:
    """Return every event of a version as a JSON Schema, including those of these options."""
    options = ConnectOptions(
        resume=resume,
        capabilities=capabilities,
        notices=notices,
        playback_ack=playback_ack,
        transcript=transcript,
    )
    return _stored(options, version).response(request, SchemaResponse.media_type)
