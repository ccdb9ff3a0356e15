"""`/ws/duplex/{session_id}`: full-duplex sessions (duplex-api.txt)."""

from __future__ import annotations

from fastapi import APIRouter, WebSocket

from edge.dialects import plain
from edge.doors.duplex import DuplexDoor
from edge.live_session import LiveSession
from edge.protocols.duplex import DuplexMachine
from edge.reception import admit, check_session_id, reception, visit
from shared_schemas.apps import APP_OF_KIND
from shared_schemas.ids import duplex_kind

router = APIRouter()


@router.websocket("/ws/duplex/{session_id:path}")
async def duplex(socket: WebSocket, session_id: str) -> None:
    """Serve one client."""
    timing = socket.query_params.get("timing") == "1"
    async with (
        reception(socket, plain) as (edge, connection),
        visit(edge, socket, APP_OF_KIND[duplex_kind(session_id)]),
    ):
        check_session_id(session_id)
        with edge.watch.seat(session_id) as seat:
            admitted = await admit(edge, seat, duplex_kind(session_id))
            machine = DuplexMachine(session_id, admitted.recording, timing=timing)
            door = DuplexDoor(edge.settings, edge.broker.voices.sound)
            unsent = edge.settings.unsent
            await LiveSession(edge, connection, admitted, door, machine, plain, unsent).run()
