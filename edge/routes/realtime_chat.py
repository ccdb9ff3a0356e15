"""`/v1/realtime?mode=chat`: several requests on one connection; each is a session."""

import asyncio
import secrets
from dataclasses import replace
from itertools import count
from typing import NoReturn

from fastapi import WebSocket
from msgspec import structs

from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import SHUTDOWN, ClientGone, Close, Draining, ResumeExpired
from antiphon.edge.json_text import ClientFrame
from antiphon.edge.protocols.machine import Phase
from antiphon.edge.protocols.realtime_chat import (
    RealtimeChatDecoder,
    RealtimeChatMachine,
    check_order,
    closed_by_client,
    decode_chat_event,
)
from antiphon.edge.protocols.realtime_codec import encode_v2_error
from antiphon.edge.session.admission import (
    AdmittedSession,
    ConnectOptions,
    SessionRequest,
    read_connect_options,
)
from antiphon.edge.session.handshake import accept, limit_connections, reject
from antiphon.edge.session.session import ProtocolSpec, serve_session
from antiphon.edge.settings import connection_offer
from antiphon.edge.transport.connection import ClientConnection
from antiphon.shared_schemas.apps import REALTIME
from antiphon.shared_schemas.entries import ChatIn, StopIn
from antiphon.shared_schemas.messages.realtime import SessionClose, SessionQueueDone
from antiphon.shared_schemas.messages.realtime_v2 import (
    ClosedReasonV2,
    SessionClosedV2,
    SessionCreatedV2,
    SessionInit,
)
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.wire import ServerMessage


async def serve_chat_mode(socket: WebSocket) -> None:
    """Serve one client until it closes the connection. Every error ends it."""
    async with (
        accept(socket, encode_v2_error) as (context, connection),
        limit_connections(context, socket, REALTIME),
    ):
        connection.choose_encoding()
        options = read_connect_options(socket.query_params)
        chat = RealtimeChat(context, connection, context.access.client_id(socket), options)
        with context.chats.hold():
            if options.resumed:
                await chat.resume(options.resumed.token.sid)
            else:
                await chat.greet()
                await chat.serve()


async def continue_as_chat(
    context: EdgeContext, connection: ClientConnection, client: str, *, queue_done: bool
) -> None:
    """Serve a client whose `session.init`, on a URL without mode, asked for chat. Raises ClientGone."""
    chat = RealtimeChat(context, connection, client)
    try:
        with context.chats.hold():
            if not queue_done:
                await chat.greet()
            await chat.create()
            await chat.serve()
    except ClientGone:
        raise
    except Exception as error:  # noqa: BLE001 - last resort: report, log, close
        await reject(context, connection, encode_v2_error, error)


class RealtimeChat:
    """The connection of one client. No worker is held between requests.

    Only a request can be resumed: between two of them there is nothing to lose.
    """

    def __init__(
        self,
        context: EdgeContext,
        connection: ClientConnection,
        client: str,
        options: ConnectOptions | None = None,
    ) -> None:
        self._context = context
        self._connection = connection
        self._client = client
        self._options = options or ConnectOptions()
        self._sid = f"chat_{secrets.token_hex(8)}"
        self._requests = 0
        self._request: ChatIn | None = None
        self._unread: ClientFrame | None = None
        self._created = False

    async def resume(self, request: str) -> None:
        """Continue the answer to this request of another connection, then serve the next ones.

        Raises ResumeExpired, and what `serve` raises.
        """
        self._sid, _, number = request.rpartition("-")
        if not (self._sid and number.isdecimal()):
            raise ResumeExpired
        self._requests, self._created = int(number), True
        if await self._answer(self._machine(), self._options):
            await self.serve()

    async def greet(self) -> None:
        """Allow the client to send its `session.init`."""
        offer = connection_offer(self._context.settings) if self._options.capabilities else None
        await self._send(structs.replace(SessionQueueDone(), capabilities=offer))

    async def create(self) -> None:
        """Answer the `session.init`."""
        self._created = True
        await self._send(SessionCreatedV2(session_id=self._sid, prompt_length=0, mode="turn_based"))

    async def serve(self) -> None:
        """Raises ClientGone, and the errors that must be reported to the client."""
        try:
            await self._serve_events()
        except TimeoutError:
            text = f"no message within {self._idle_s:g} s"
            await self._close(SessionClosedV2.of(ClosedReasonV2.TIMEOUT, text, self._sid))
        except Draining:
            closed = () if self._options.resume else encode_v2_error(SHUTDOWN, self._sid)
            await self._close(*closed, code=Close.RESTART)

    async def _serve_events(self) -> None:
        options = replace(self._options, resumed=None, capabilities=False)
        while True:
            with self._context.chat_budget.reserve() as reservation:
                frame = await self._receive()
                reservation.add(len(frame))
                settings, uploads = self._context.settings, self._context.broker.voices.sound
                event = await decode_chat_event(frame, settings, uploads)
                del frame
                if isinstance(event, SessionClose):
                    return await self._close(closed_by_client(self._sid))
                check_order(event, created=self._created)
                if isinstance(event, SessionInit):
                    await self.create()
                    continue
                self._requests += 1
                machine = self._machine()
                self._request = event
                del event  # its media: the session frees them when they are written
                if not await self._answer(machine, options):
                    return None

    def _machine(self) -> RealtimeChatMachine:
        resumable, notices = self._options.resume, self._options.notices
        return RealtimeChatMachine(self._sid, self._requests, resumable=resumable, notices=notices)

    async def _answer(self, machine: RealtimeChatMachine, options: ConnectOptions) -> bool:
        """Answer one request. False if that ended the connection.

        A request that was lost before its client had a token keeps its id, so the next one is taken.
        """
        exchange = ChatExchange(self._connection, machine)
        decoder = RealtimeChatDecoder(self._context.settings)

        def start(
            _context: EdgeContext, admitted: AdmittedSession
        ) -> tuple[RealtimeChatDecoder, RealtimeChatMachine]:
            machine.recording = admitted.recording if options.notices else None
            return decoder, machine

        spec: ProtocolSpec[StopIn] = ProtocolSpec(start, encode_v2_error, turns=True)
        ids = (f"{self._sid}-{number}" for number in count(self._requests))
        asked = SessionRequest(SessionKind.CHAT, "realtime chat", ids, client=self._client)
        await serve_session(self._context, exchange, spec, asked, options, self._take_request)
        if exchange.gone or exchange.code is None:
            raise ClientGone
        if machine.closing or exchange.code is not Close.NORMAL:
            await self._connection.close(exchange.code)
            return False
        self._unread = exchange.unread
        return True

    async def _take_request(self) -> ChatIn | None:
        request, self._request = self._request, None
        return request

    @property
    def _idle_s(self) -> float:
        return self._context.settings.realtime_audio_s

    async def _receive(self) -> ClientFrame:
        """Raises TimeoutError, Draining, ClientGone, NotJson or BudgetExceeded."""
        frame, self._unread = self._unread, None
        if frame is not None:
            return frame
        async with self._context.chats.wait(self._idle_s):
            return await self._connection.receive()

    async def _send(self, message: ServerMessage) -> None:
        await self._connection.send(self._connection.encoding.encode(message))

    async def _close(self, *messages: ServerMessage, code: Close = Close.NORMAL) -> None:
        for message in messages:
            await self._send(message)
        await self._connection.close(code)


class ChatExchange:
    """A connection as one request sees it: its end leaves the connection open.

    A frame that arrives after the end of the request is kept in `unread`.
    """

    def __init__(self, connection: ClientConnection, machine: RealtimeChatMachine) -> None:
        self.encoding = connection.encoding
        self.code: Close | None = None
        self.gone = False
        self.unread: ClientFrame | None = None
        self.send = connection.send
        self.send_now = connection.send_now
        self.force_close = connection.force_close
        self.probe = connection.probe
        self._connection = connection
        self._machine = machine

    async def receive(self) -> ClientFrame:
        try:
            frame = await self._connection.receive()
        except ClientGone:
            self.gone = True
            raise
        return frame if self._machine.phase is not Phase.OVER else await self._keep(frame)

    async def _keep(self, frame: ClientFrame) -> NoReturn:
        """Wait until the task of this request is cancelled."""
        self.unread = frame
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self, code: Close) -> None:
        self.code = code
