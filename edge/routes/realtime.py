"""`/v1/realtime?mode=video|audio` (video-duplex-protocol.txt) and its JSON Schema."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import count

import orjson
from fastapi import APIRouter, Response, WebSocket

from antiphon.edge.boarding import Berth, boarding
from antiphon.edge.doors.realtime import RealtimeDoor
from antiphon.edge.live_session import LiveSession
from antiphon.edge.protocols.contract import Alarm
from antiphon.edge.protocols.forecast import NOTICE_S
from antiphon.edge.protocols.realtime import RealtimeMachine
from antiphon.edge.protocols.realtime_faults import realtime
from antiphon.edge.realtime_schema import schema_for
from antiphon.edge.reception import reception, visit
from antiphon.edge.wishes import Wishes, read_wishes
from antiphon.shared_schemas.apps import REALTIME
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.states import SessionKind

_MODES = {"video": SessionKind.OMNI_DUPLEX, "audio": SessionKind.AUDIO_DUPLEX}

router = APIRouter(tags=["realtime"])


class SchemaResponse(Response):
    """A JSON Schema, under its own name."""

    media_type = "application/schema+json"


@router.websocket("/v1/realtime")
async def serve(socket: WebSocket) -> None:
    """Serve one client; the time limit counts from here."""
    started = asyncio.get_running_loop().time()
    async with (
        reception(socket, realtime) as (edge, connection),
        visit(edge, socket, REALTIME),
    ):
        mode = socket.query_params.get("mode", "video")
        if mode not in _MODES:
            raise InvalidInput("mode: must be video or audio", field="mode")
        limits = edge.settings
        video = mode == "video"
        limit_s = limits.realtime_video_s if video else limits.realtime_audio_s
        wishes = read_wishes(socket.query_params)
        berth = Berth(_MODES[mode], f"realtime {mode}", _names(int(edge.broker.clock.now_ms())))
        async with boarding(edge, berth, wishes) as admitted:
            machine = RealtimeMachine(admitted.seat.sid, notices=wishes.notices)
            door = RealtimeDoor(limits, video=video, playback_ack=wishes.playback_ack)
            alarms = _alarms(machine, started - admitted.age_s, limit_s, notice=wishes.notices)
            session = LiveSession(
                edge, connection, admitted, door, machine, realtime, limits.unsent, alarms
            )
            await session.run()


_OBJECT = {"content": {SchemaResponse.media_type: {"schema": {"type": "object"}}}}


@router.get("/v1/realtime/schema.json", response_class=SchemaResponse, responses={200: _OBJECT})
async def schema(
    *,
    resume: bool = False,
    capabilities: bool = False,
    notices: bool = False,
    playback_ack: bool = False,
) -> Response:
    """Every event of both directions as a JSON Schema: the document's, and what these wishes add."""
    wishes = Wishes(
        resume=resume, capabilities=capabilities, notices=notices, playback_ack=playback_ack
    )
    return SchemaResponse(orjson.dumps(schema_for(wishes)))


def _names(ms: int) -> Iterator[str]:
    """`rt_` and milliseconds; where another session has that one, the next free one."""
    return (f"rt_{number}" for number in count(ms))


def _alarms(
    machine: RealtimeMachine, began_at: float, limit_s: float, *, notice: bool
) -> list[Alarm]:
    over = Alarm(began_at + limit_s, machine.overdue)
    warned_s = min(NOTICE_S, limit_s)
    soon = Alarm(over.at - warned_s, partial(machine.nearly_over, warned_s))
    return [soon, over] if notice else [over]
