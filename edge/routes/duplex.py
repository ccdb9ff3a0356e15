"""`/ws/duplex/{session_id}`: full-duplex sessions (duplex-api.txt)."""

from __future__ import annotations

from fastapi import APIRouter, WebSocket

from antiphon.edge.boarding import Berth, boarding
from antiphon.edge.dialects import plain
from antiphon.edge.doors.duplex import DuplexDoor
from antiphon.edge.live_session import LiveSession
from antiphon.edge.protocols.duplex import DuplexMachine
from antiphon.edge.reception import check_session_id, reception, visit
from antiphon.edge.wishes import read_wishes
from antiphon.shared_schemas.apps import APP_OF_KIND
from antiphon.shared_schemas.ids import duplex_kind

router = APIRouter()


@router.websocket("/ws/duplex/{session_id:path}")
async def duplex(socket: WebSocket, session_id: str) -> None:
    """Serve one client."""
    kind = duplex_kind(session_id)
    async with (
        reception(socket, plain) as (edge, connection),
        visit(edge, socket, APP_OF_KIND[kind]),
    ):
        check_session_id(session_id)
        wishes = read_wishes(socket.query_params)
        berth = Berth(kind, "duplex", [session_id], fixed=True)
        async with boarding(edge, berth, wishes) as admitted:
            machine = DuplexMachine(
                session_id,
                admitted.recording,
                timing=wishes.timing,
                notices=wishes.notices,
                transcript=wishes.transcript,
            )
            door = DuplexDoor(edge.settings, edge.broker.voices.sound)
            unsent = edge.settings.unsent
            await LiveSession(edge, connection, admitted, door, machine, plain, unsent).run()
