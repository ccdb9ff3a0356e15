"""The WebSockets of this server's own protocols and of the public demo, with the options on their URLs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from itertools import count
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response, WebSocket
from msgspec import structs

from antiphon.edge.access.guards import identify_client, remember_chat
from antiphon.edge.access.limits import Reservation
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import ChatRequested
from antiphon.edge.openai_clients import is_openai_socket
from antiphon.edge.protocols.chat import ChatDecoder, ChatMachine, decode_request
from antiphon.edge.protocols.duplex import DuplexDecoder, DuplexMachine, ResultExtras
from antiphon.edge.protocols.half_duplex import HalfDuplexDecoder, HalfDuplexMachine
from antiphon.edge.protocols.machine import Command
from antiphon.edge.protocols.realtime import RealtimeDecoder, RealtimeMachine
from antiphon.edge.protocols.realtime_codec import encode_realtime_error
from antiphon.edge.protocols.realtime_v2 import Negotiation
from antiphon.edge.routes.openai_realtime import serve_openai_realtime
from antiphon.edge.routes.realtime_chat import continue_as_chat, serve_chat_mode
from antiphon.edge.routes.socket_routes import add_socket
from antiphon.edge.routes.stored import StoredBody
from antiphon.edge.session.admission import (
    AdmittedSession,
    ConnectOptions,
    SessionRequest,
    read_connect_options,
)
from antiphon.edge.session.chat import new_chat
from antiphon.edge.session.handshake import accept, limit_connections
from antiphon.edge.session.session import ProtocolSpec, serve_session
from antiphon.edge.transport.connection import ClientConnection
from antiphon.shared_schemas.apps import APP_OF_KIND, HALF_DUPLEX, REALTIME, TURNBASED, App
from antiphon.shared_schemas.entries import ChatIn, InEntry, StopIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.ids import duplex_kind, is_session_id
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.wire import MAP_PROTOCOL

_MODES = {"video": SessionKind.OMNI_DUPLEX, "audio": SessionKind.AUDIO_DUPLEX}

SCHEMAS = {1: "realtime-schema.json", 2: "realtime-schema-v2.json"}
"""The events of both directions of `/v1/realtime`, for each version.

`x-option` names the connect option that a field or an event needs.
"""

router = APIRouter(tags=["realtime"])

ReadFirst = Callable[
    [EdgeContext, ClientConnection, ConnectOptions, Reservation], Awaitable[InEntry | None]
]


async def serve_socket(
    socket: WebSocket,
    spec: ProtocolSpec[Command],
    app: App,
    request: Callable[[EdgeContext], SessionRequest],
    *,
    headers: Sequence[tuple[bytes, bytes]] = (),
    read_first: ReadFirst | None = None,
) -> None:
    """Serve one client. `request` may raise InvalidInput, which is reported like any other error."""
    async with (
        accept(socket, spec.encode_error, headers) as (context, connection),
        limit_connections(context, socket, app),
    ):
        connection.choose_encoding()
        client = context.access.client_id(socket)
        asked = replace(request(context), client=client)
        options = read_connect_options(socket.query_params)
        with context.chat_budget.reserve() as reservation:
            first = read_first and partial(read_first, context, connection, options, reservation)
            try:
                await serve_session(context, connection, spec, asked, options, first)
            except ChatRequested as chat:
                await continue_as_chat(context, connection, client, queue_done=chat.queue_done)


async def duplex(socket: WebSocket, session_id: str) -> None:
    kind = duplex_kind(session_id)
    request = partial(_with_client_id, session_id, kind, "duplex")
    await serve_socket(socket, DUPLEX, APP_OF_KIND[kind], request)


async def half_duplex(socket: WebSocket, session_id: str) -> None:
    kind = SessionKind.HALF_DUPLEX
    owner, headers = identify_client(socket)
    request = partial(_with_client_id, session_id, kind, "half_duplex", owner=owner)
    await serve_socket(socket, HALF_DUPLEX_SPEC, HALF_DUPLEX, request, headers=headers)


async def realtime(socket: WebSocket) -> None:
    if is_openai_socket(socket):
        return await serve_openai_realtime(socket)
    mode = socket.query_params.get("mode")
    sdk = MAP_PROTOCOL in socket.scope.get("subprotocols", ())
    if mode == "chat":
        return await serve_chat_mode(socket)
    spec: ProtocolSpec[Any] = ProtocolSpec(
        partial(_start_realtime, may_chat=mode is None, sdk=sdk), encode_realtime_error
    )
    request = partial(_realtime_request, mode or "video")
    return await serve_socket(socket, spec, REALTIME, request)


async def chat(socket: WebSocket) -> None:
    """The first frame is the request."""
    request = new_chat("chat")
    headers = remember_chat(socket, *request.ids)
    await serve_socket(
        socket, CHAT, TURNBASED, lambda _: request, headers=headers, read_first=_chat_request
    )


def _with_client_id(
    sid: str, kind: SessionKind, protocol: str, _context: EdgeContext, *, owner: str = ""
) -> SessionRequest:
    """Raises InvalidInput. The routes match any text, so that an invalid id gets an error message."""
    if not is_session_id(sid):
        text = "session_id: must be 1 to 64 of A-Z a-z 0-9 _ -"
        raise InvalidInput(text, field="session_id", code=ErrorCode.INVALID_SESSION_ID)
    return SessionRequest(kind, protocol, [sid], client_id=True, owner=owner)


def _realtime_request(mode: str, context: EdgeContext) -> SessionRequest:
    """The id is `rt_` and the time in ms, or the next free number. Raises InvalidInput."""
    if mode not in _MODES:
        raise InvalidInput("mode: must be video, audio or chat", field="mode")
    ids = (f"rt_{number}" for number in count(int(context.broker.clock.now_ms())))
    return SessionRequest(_MODES[mode], f"realtime {mode}", ids)


async def _chat_request(
    context: EdgeContext,
    connection: ClientConnection,
    options: ConnectOptions,
    reservation: Reservation,
) -> ChatIn | None:
    """The first frame; None if the client resumes. Raises InvalidInput, NotJson, BudgetExceeded."""
    if options.resumed:
        return None
    timeout_s = context.settings.chat_request_s
    try:
        async with asyncio.timeout(timeout_s):
            frame = await connection.receive()
    except TimeoutError:
        text = f"no request within {timeout_s:g} s"
        raise InvalidInput(text, code=ErrorCode.NOT_READY) from None
    reservation.add(len(frame))
    request = await decode_request(frame, context.settings, context.broker.voices.sound)
    return structs.replace(request, progress=options.progress)


def _start_duplex(
    context: EdgeContext, admitted: AdmittedSession
) -> tuple[DuplexDecoder, DuplexMachine]:
    options = admitted.options
    machine = DuplexMachine(
        admitted.sid,
        admitted.recording,
        notices=options.notices,
        extras=ResultExtras(options.timing, options.transcript, options.word_times),
    )
    return DuplexDecoder(context.settings, context.broker.voices.sound), machine


def _start_half_duplex(
    context: EdgeContext, admitted: AdmittedSession
) -> tuple[HalfDuplexDecoder, HalfDuplexMachine]:
    transcript = admitted.options.transcript
    machine = HalfDuplexMachine(admitted.sid, admitted.recording, transcript=transcript)
    return HalfDuplexDecoder(context.settings), machine


def _start_realtime(
    context: EdgeContext,
    admitted: AdmittedSession,
    *,
    may_chat: bool,
    sdk: bool,
) -> tuple[RealtimeDecoder, RealtimeMachine]:
    limits, options, video = context.settings, admitted.options, admitted.kind is _MODES["video"]
    negotiation = Negotiation(may_chat=may_chat)
    machine = RealtimeMachine(
        admitted.sid,
        admitted.recording,
        notices=options.notices,
        transcript=options.transcript,
        transcript_events=sdk,
        resumable=options.resume,
        began_at=asyncio.get_running_loop().time() - admitted.age_s,
        age_s=admitted.age_s,
        limit_s=limits.realtime_video_s if video else limits.realtime_audio_s,
        negotiation=negotiation,
    )
    decoder = RealtimeDecoder(
        limits, video=video, playback_ack=options.playback_ack, negotiation=negotiation
    )
    return decoder, machine


def _start_chat(context: EdgeContext, admitted: AdmittedSession) -> tuple[ChatDecoder, ChatMachine]:
    machine = ChatMachine(admitted.recording, resumable=admitted.options.resume)
    return ChatDecoder(context.settings), machine


DUPLEX: ProtocolSpec[Any] = ProtocolSpec(_start_duplex)
HALF_DUPLEX_SPEC: ProtocolSpec[Any] = ProtocolSpec(_start_half_duplex, turns=True)
CHAT: ProtocolSpec[StopIn] = ProtocolSpec(_start_chat, turns=True)


@cache
def _stored_schema(version: int) -> StoredBody:
    return StoredBody.compressed(
        files("antiphon.edge").joinpath("assets", SCHEMAS[version]).read_bytes()
    )


class SchemaResponse(Response):
    """A JSON Schema, with its own media type."""

    media_type = "application/schema+json"


_OBJECT = {"content": {SchemaResponse.media_type: {"schema": {"type": "object"}}}}


@router.get("/v1/realtime/schema.json", response_class=SchemaResponse, responses={200: _OBJECT})
async def schema(request: Request, version: Annotated[int, Query(ge=1, le=2)] = 1) -> Response:
    """Return every event of a version as a JSON Schema."""
    return _stored_schema(version).response(request, SchemaResponse.media_type)


add_socket("/ws/duplex/{session_id:path}", serve=duplex)
add_socket("/ws/half_duplex/{session_id:path}", serve=half_duplex)
add_socket("/ws/chat", serve=chat, long_frames=["/ws/chat"])
add_socket("/v1/realtime", serve=realtime, long_frames=["/v1/realtime?mode=chat"])
