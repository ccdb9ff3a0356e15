"""`/ws/half_duplex/{session_id}` and `POST /api/half_duplex/stop` (half-duplex-api.txt)."""

from __future__ import annotations

from fastapi import APIRouter, WebSocket

from antiphon.edge.boarding import Berth, boarding
from antiphon.edge.dialects import plain
from antiphon.edge.doors.half_duplex import HalfDuplexDoor
from antiphon.edge.live_session import LiveSession
from antiphon.edge.protocols.half_duplex import HalfDuplexMachine
from antiphon.edge.reception import check_session_id, reception, visit
from antiphon.edge.routes.deps import NEEDS_REDIS, TAKES_BODY, EdgeDep
from antiphon.edge.routes.models import StopAnswer, StopRequest
from antiphon.edge.wishes import read_wishes
from antiphon.shared_schemas.apps import HALF_DUPLEX
from antiphon.shared_schemas.events import SessionCommand
from antiphon.shared_schemas.states import SessionKind

router = APIRouter(tags=["half-duplex"])


@router.websocket("/ws/half_duplex/{session_id:path}")
async def half_duplex(socket: WebSocket, session_id: str) -> None:
    """Serve one client."""
    async with (
        reception(socket, plain) as (edge, connection),
        visit(edge, socket, HALF_DUPLEX),
    ):
        check_session_id(session_id)
        berth = Berth(SessionKind.HALF_DUPLEX, "half_duplex", [session_id], fixed=True)
        async with boarding(edge, berth, read_wishes(socket.query_params)) as admitted:
            machine = HalfDuplexMachine(session_id, admitted.recording)
            door = HalfDuplexDoor(edge.settings)
            unsent = edge.settings.unsent_turns
            await LiveSession(edge, connection, admitted, door, machine, plain, unsent).run()


@router.post("/api/half_duplex/stop", responses=NEEDS_REDIS | TAKES_BODY)
async def stop(edge: EdgeDep, request: StopRequest) -> StopAnswer:
    """Stop the reply that a half-duplex session is giving, wherever it runs; the session goes on."""
    kind = SessionKind.HALF_DUPLEX
    if await edge.broker.sessions.send_command(request.session_id, kind, SessionCommand.INTERRUPT):
        return StopAnswer(success=True, message="stop signal sent")
    return StopAnswer(success=False, message="no such half-duplex session is active")
