"""`/v1/realtime?mode=video|audio` (video-duplex-protocol.txt) and its JSON Schema."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

from fastapi import APIRouter, Response, WebSocket

from broker.errors import SessionExists
from edge.doors.realtime import RealtimeDoor
from edge.live_session import LiveSession
from edge.node import Edge
from edge.protocols.contract import Deadline
from edge.protocols.realtime import RealtimeMachine
from edge.protocols.realtime_faults import realtime
from edge.reception import Admitted, admit, reception, visit
from shared_schemas.apps import REALTIME
from shared_schemas.errors import InvalidInput
from shared_schemas.states import SessionKind

_MODES = {"video": SessionKind.OMNI_DUPLEX, "audio": SessionKind.AUDIO_DUPLEX}
_SCHEMA = files("edge").joinpath("assets", "realtime-schema.json").read_bytes()

router = APIRouter(tags=["realtime"])


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
        async with _admitted(edge, _MODES[mode]) as admitted:
            machine = RealtimeMachine(admitted.seat.sid)
            door = RealtimeDoor(limits, video=video)
            deadline = Deadline(started + limit_s, machine.overdue)
            session = LiveSession(
                edge, connection, admitted, door, machine, realtime, limits.unsent, deadline
            )
            await session.run()


@router.get("/v1/realtime/schema.json")
async def schema() -> Response:
    """Every event of both directions as a JSON Schema."""
    return Response(_SCHEMA, media_type="application/schema+json")


@asynccontextmanager
async def _admitted(edge: Edge, kind: SessionKind) -> AsyncIterator[Admitted]:
    """Enqueued as `rt_` and milliseconds; where another session has that one, the next free one."""
    ms = int(edge.broker.clock.now_ms())
    while True:
        with edge.watch.seat(f"rt_{ms}") as seat:
            try:
                admitted = await admit(edge, seat, kind)
            except SessionExists:
                ms += 1
                continue
            yield admitted
            return
