"""Calls by WebRTC: OpenAI's Realtime API with the sound on a track. Needs the extra `webrtc`."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from antiphon.edge.calls import HAS_WEBRTC, NoFreePort
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import ClientGone, Draining, HttpError, openai_status
from antiphon.edge.json_text import load_json
from antiphon.edge.openai_clients import CALLS
from antiphon.edge.protocols.openai_realtime.call import CallDecoder, CallMachine
from antiphon.edge.protocols.openai_realtime.events import encode_fault
from antiphon.edge.protocols.openai_realtime.settings import updated_session
from antiphon.edge.routes.deps import EdgeDep, error_responses
from antiphon.edge.routes.models import OpenAiProblem
from antiphon.edge.routes.openai_realtime import new_state, prepared_decoder, realtime_spec
from antiphon.edge.session.admission import ConnectOptions, SessionRequest
from antiphon.edge.session.handshake import limit_connections, refuse, reject
from antiphon.edge.session.session import ProtocolSpec, serve_session
from antiphon.shared_schemas.apps import REALTIME
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.states import EndReason, SessionKind, SessionState

if TYPE_CHECKING:
    from antiphon.edge.webrtc.peer import CallPeer

log = structlog.get_logger()

MAX_BODY_BYTES = 256 * 1024
"""An offer of a browser has 6 kB; the rest is for the instructions of `session`."""

_MISSING = (
    "this server has no WebRTC: install the extra `webrtc` (pip install 'antiphon[webrtc]'), or connect a "
    "WebSocket to /v1/realtime"
)
_TYPES = "application/sdp with the offer, or multipart/form-data with `sdp` and `session`"

_PROBLEMS = error_responses(
    OpenAiProblem,
    {
        400: "The offer or a setting cannot be used; `param` names it",
        404: "Not served here: the extra `webrtc` is not installed, or there is no such call",
        408: "The client stopped sending",
        413: "The body is too long",
        429: "Too many connections from this address",
        503: "No UDP port is free, or the edge shuts down",
    },
)

router = APIRouter(tags=["openai"], responses=_PROBLEMS)


@router.post(
    CALLS[0],
    status_code=201,
    response_class=Response,
    responses={201: {"content": {"application/sdp": {}}, "description": "The answer"}},
)
@router.post(CALLS[1], include_in_schema=False)
async def create_call(edge: EdgeDep, request: Request) -> Response:
    """Begin a call: the body is an SDP offer, the answer an SDP answer. `Location` has the id of the call."""
    if not HAS_WEBRTC:
        raise HttpError(404, ErrorCode.NOT_FOUND, _MISSING)
    try:
        call = await _prepare(edge, request)
    except NoFreePort as error:
        raise HttpError(
            503, ErrorCode.QUEUE_FULL, str(error), retry_after_s=5, counted_as="no_udp_port"
        ) from None
    except (HttpError, HTTPException, ClientDisconnect):
        raise
    except Exception as error:
        message = refuse(edge, error).message
        code = ErrorCode(message.code)
        raise HttpError(
            openai_status(code),
            code,
            message.message,
            field=message.field,
            retry_after_s=5 if message.retryable else None,
        ) from error
    headers = {"Location": f"{CALLS[0]}/{call.id}"}
    return Response(call.answer, 201, headers, media_type="application/sdp")


@router.post(f"{CALLS[0]}/{{call_id}}/hangup")
@router.post(f"{CALLS[1]}/{{call_id}}/hangup", include_in_schema=False)
async def hang_up(edge: EdgeDep, request: Request, call_id: str) -> Response:
    """End a call, at whichever edge it is; at this one also a call that is not connected yet.

    The API key must be that of the call, or the admin token.
    """
    sid = f"sess_{call_id.removeprefix('rtc_')}"
    row = await edge.broker.sessions.get(sid) if sid.isascii() and len(sid) < 64 else None
    ended = (
        row is not None
        and row.kind is SessionKind.TURNS
        and not _have_other_keys(row.client, edge.access.client_id(request))
        and row.state is not SessionState.ENDED
        and await edge.broker.sessions.end(sid, EndReason.STOPPED, ticket=row.ticket)
    )
    if not ended and not edge.calls.hang_up(call_id):
        raise HttpError(404, ErrorCode.NOT_FOUND, "there is no such call", field="call_id")
    return Response(status_code=200)


def _have_other_keys(client: str, other: str) -> bool:
    """A call that a secret began has the key of the server that gave it. Addresses may differ."""
    return client != other and client.startswith("key:") and other.startswith("key:")


@dataclass(frozen=True, slots=True)
class _Call:
    id: str
    answer: str


async def _prepare(edge: EdgeContext, request: Request) -> _Call:
    """The call runs in its own task when this returns. Raises what the route explains."""
    from antiphon.edge.webrtc.ice import UdpPlaces
    from antiphon.edge.webrtc.peer import CallPeer
    from antiphon.edge.webrtc.sdp import read_offer

    if edge.draining:
        raise Draining
    number = secrets.token_hex(10)
    text, session = await _read_body(request)
    offer = read_offer(text)
    state = new_state(edge, request, f"sess_{number}")
    state.on_track = True
    if session is not None:
        state.session = updated_session(state, session)
    decoder = CallDecoder(await prepared_decoder(edge, state), state)
    spec = realtime_spec(decoder, partial(CallMachine, state))
    settings = edge.settings
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(limit_connections(edge, request, REALTIME))
        connecting = ExitStack()
        stack.callback(connecting.close)
        address = edge.access.client_limit_key(request)
        connecting.enter_context(edge.calls.connecting.hold(address))
        peer = CallPeer(
            offer,
            UdpPlaces(settings.host, settings.webrtc_port_range, settings.webrtc_addresses),
        )
        stack.push_async_callback(peer.close)
        answer = await peer.answer()
        asked = SessionRequest(
            SessionKind.TURNS,
            "openai realtime webrtc",
            [f"sess_{number}"],
            client=edge.access.client_id(request),
        )
        serve = partial(_serve, edge, peer, spec, asked, offer.message_bytes)
        call_id = f"rtc_{number}"
        connect = partial(_connect, edge, peer, connecting)
        edge.calls.check_open()
        edge.calls.start(call_id, connect, serve, stack.pop_all().aclose)
    return _Call(call_id, answer)


async def _connect(edge: EdgeContext, peer: CallPeer, connecting: ExitStack) -> bool:
    """Closes `connecting` at the end."""
    from antiphon.edge.webrtc.peer import PeerLost

    within_s = edge.settings.call_connect_s
    try:
        with connecting:
            async with asyncio.timeout(within_s):
                await peer.connect()
    except (TimeoutError, PeerLost) as error:
        edge.metrics.rejected.labels("not_connected").inc()
        log.info("call_not_connected", error=str(error) or f"not within {within_s:g} s")
        return False
    return True


async def _serve(
    edge: EdgeContext,
    peer: CallPeer,
    spec: ProtocolSpec[Any],
    asked: SessionRequest,
    message_bytes: int,
) -> None:
    from antiphon.edge.webrtc.connection import CallConnection

    connection = CallConnection(peer, message_bytes)
    sound = asyncio.create_task(connection.stream())
    try:
        await serve_session(edge, connection, spec, asked, ConnectOptions())
    except ClientGone:
        log.info("client_gone_early", path=CALLS[0])
    except Exception as error:  # noqa: BLE001 - as for a WebSocket: report, log, close
        await reject(edge, connection, encode_fault, error)
    finally:
        sound.cancel()
        with suppress(asyncio.CancelledError):
            await sound


async def _read_body(request: Request) -> tuple[str, object]:
    """The offer, and the settings or None. Raises InvalidInput, NotJson or HttpError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/sdp":
        return _decoded(await request.body()), None
    if kind != "multipart/form-data":
        raise InvalidInput(f"Content-Type: must be {_TYPES}", field="Content-Type")
    async with request.form(max_files=2, max_fields=8, max_part_size=MAX_BODY_BYTES) as form:
        sdp, session = [await _part(form.get(name)) for name in ("sdp", "session")]
    if sdp is None:
        raise InvalidInput("sdp: the part is missing", field="sdp", code=ErrorCode.MISSING_FIELD)
    return _decoded(sdp), None if session is None else load_json(session)


async def _part(part: UploadFile | str | None) -> bytes | None:
    if isinstance(part, UploadFile):
        return await part.read()
    return None if part is None else part.encode()


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise InvalidInput("sdp: this is not UTF-8", field="sdp") from None
