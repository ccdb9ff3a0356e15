"""OpenAI's Realtime API: its WebSocket, and secrets for browsers."""

import asyncio
import secrets
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter, Request, WebSocket
from pydantic import BaseModel, Field
from starlette.requests import HTTPConnection

from antiphon.edge.access.client_secrets import MAX_CHARS, ClientSecret
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import Close, HttpError
from antiphon.edge.openai_clients import ALIASES
from antiphon.edge.protocols.machine import CommandDecoder, SessionMachine
from antiphon.edge.protocols.openai_realtime.decoder import Engines, OpenAiRealtimeDecoder
from antiphon.edge.protocols.openai_realtime.events import encode_fault, error_event
from antiphon.edge.protocols.openai_realtime.machine import OpenAiRealtimeMachine
from antiphon.edge.protocols.openai_realtime.settings import (
    BETA_CODE,
    RealtimeState,
    new_session,
    updated_session,
)
from antiphon.edge.routes.deps import EdgeDep, error_responses
from antiphon.edge.routes.models import OpenAiProblem
from antiphon.edge.routes.socket_routes import add_socket
from antiphon.edge.routes.status import live_engines
from antiphon.edge.session.admission import AdmittedSession, ConnectOptions, SessionRequest
from antiphon.edge.session.handshake import accept, limit_connections
from antiphon.edge.session.session import ProtocolSpec, serve_session
from antiphon.shared_schemas.apps import REALTIME
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.states import SessionKind

_DEFAULT_SECRET_S = 600
_BETA_TEXT = (
    "The beta form of this API is not served. Leave the header `OpenAI-Beta` out, and use the GA form "
    "(`client.realtime` of the SDKs, `session.type`, `audio.input`, `audio.output`)"
)
_NO_CONTROL = "call_id: a call has no second connection here; use its data channel"

_PROBLEMS = error_responses(
    OpenAiProblem, {400: "A setting cannot be used; `param` names it", 404: "Not served here"}
)

router = APIRouter(tags=["openai"], responses=_PROBLEMS)


async def serve_openai_realtime(socket: WebSocket) -> None:
    """Serve one client of OpenAI's Realtime API."""
    async with (
        accept(socket, encode_fault) as (context, connection),
        limit_connections(context, socket, REALTIME),
    ):
        if socket.headers.get("openai-beta"):
            refused = error_event(_BETA_TEXT, BETA_CODE)
            await connection.send(connection.encoding.encode(refused))
            await connection.close(Close.BETA_API)
            return
        sid = f"sess_{secrets.token_hex(10)}"
        state = new_state(context, socket, sid)
        decoder = await prepared_decoder(context, state)
        spec = realtime_spec(decoder, partial(OpenAiRealtimeMachine, state))
        asked = SessionRequest(
            SessionKind.TURNS, "openai realtime", [sid], client=context.access.client_id(socket)
        )
        await serve_session(context, connection, spec, asked, ConnectOptions())


add_socket(*ALIASES, serve=serve_openai_realtime)


def new_state(context: EdgeContext, caller: HTTPConnection, sid: str) -> RealtimeState:
    """The settings that the address and the secret ask for. Raises InvalidInput."""
    query = caller.query_params
    if "call_id" in query:
        raise InvalidInput(_NO_CONTROL, field="call_id")
    intent = query.get("intent")
    if intent not in (None, "", "transcription", "conversation"):
        text = "intent: only `transcription` is supported; leave it out for a conversation"
        raise InvalidInput(text, field="intent")
    secret = context.access.client_secret(caller)
    given = secret.session if secret else {}
    transcribes = intent == "transcription" or given.get("type") == "transcription"
    expires_at = int(time.time() + context.settings.openai_realtime_s)
    model = query.get("model", "")[:256]
    session = new_session(sid, model, expires_at, transcription=transcribes)
    state = RealtimeState(session, record=query.get("record") != "0")
    if given:
        state.session = updated_session(state, given)
    return state


async def prepared_decoder(context: EdgeContext, state: RealtimeState) -> OpenAiRealtimeDecoder:
    """Raises InvalidInput."""
    decoder = OpenAiRealtimeDecoder(
        context.settings, context.broker.voices.sound, state, partial(_current_engines, context)
    )
    await decoder.prepare()
    return decoder


def realtime_spec(
    decoder: CommandDecoder[Any], create: Callable[[float, float], SessionMachine[Any]]
) -> ProtocolSpec[Any]:
    """`create` makes the machine: from the time at which the session begins, and its limit in seconds."""

    def start(
        context: EdgeContext, _admitted: AdmittedSession
    ) -> tuple[CommandDecoder[Any], SessionMachine[Any]]:
        began_at = asyncio.get_running_loop().time()
        return decoder, create(began_at, context.settings.openai_realtime_s)

    return ProtocolSpec(start, encode_fault, turns=True)


async def _current_engines(context: EdgeContext) -> Engines:
    found = await live_engines(context)
    return Engines(bool(found.engines), found.voice_ids)


_SECRET_PROBLEMS = error_responses(
    OpenAiProblem,
    {
        400: "A field cannot be used; `param` names it",
        408: "The client stopped sending",
        413: "The body is too long, or has too many brackets and commas",
        422: "A field has another form; `param` names it",
        503: "The edge has no room for the body",
    },
)


class ExpiresAfter(BaseModel, extra="forbid"):
    """How long a secret is valid."""

    anchor: Literal["created_at"] = "created_at"
    seconds: int = Field(default=_DEFAULT_SECRET_S, ge=10, le=7200)


class SecretRequest(BaseModel, extra="forbid"):
    """The settings that the sessions of a secret begin with."""

    session: dict[str, Any] = Field(default_factory=lambda: {"type": "realtime"})
    expires_after: ExpiresAfter = ExpiresAfter()


class IssuedSecret(BaseModel):
    """`value` is a key for the WebSocket until `expires_at` (seconds since 1970)."""

    value: str
    expires_at: int
    session: dict[str, Any]


@router.post("/v1/realtime/client_secrets", responses=_SECRET_PROBLEMS)
@router.post("/openai/v1/realtime/client_secrets", include_in_schema=False)
async def create_secret(edge: EdgeDep, request: Request, asked: SecretRequest) -> IssuedSecret:
    """A key for a browser. Sessions may outlive it; it opens nothing but sessions of this API."""
    kind, model = asked.session.get("type"), asked.session.get("model")
    if kind is None:
        text = "session.type is required"
        raise HttpError(400, ErrorCode.MISSING_FIELD, text, field="session.type")
    session = new_session(
        f"sess_{secrets.token_hex(10)}",
        model if isinstance(model, str) else "",
        int(time.time() + edge.settings.openai_realtime_s),
        transcription=kind == "transcription",
    )
    expires_at = int(time.time()) + asked.expires_after.seconds
    secret = ClientSecret(expires_at, edge.access.client_id(request), asked.session)
    try:
        session = updated_session(RealtimeState(session), asked.session)
        value = edge.access.sign(request, secret)
    except InvalidInput as error:
        raise HttpError(400, error.code, error.message, field=error.field) from None
    except ValueError:
        text = (
            f"session: too long for a secret of {MAX_CHARS} characters; send it by `session.update`"
        )
        raise HttpError(400, ErrorCode.MESSAGE_TOO_LARGE, text, field="session") from None
    return IssuedSecret(value=value, expires_at=expires_at, session=session)
