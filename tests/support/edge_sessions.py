"""Sessions of an edge in this process whose client resumes, without a socket; the test plays the worker."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from msgspec.structs import replace

from antiphon.broker.streams import StreamWriter
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import ClientGone, Close
from antiphon.edge.protocols.chat import ChatMachine, decode_request
from antiphon.edge.protocols.realtime_chat import RealtimeChatMachine
from antiphon.edge.session.admission import ConnectOptions, ResumeRequest, SessionRequest, admit
from antiphon.edge.session.session import EdgeSession, ProtocolSpec
from antiphon.edge.transport.connection import JSON, ServerFrame
from antiphon.shared_schemas.entries import (
    DeltaOut,
    ErrorOut,
    HalfDuplexPrepareIn,
    OutEntry,
    PreparedOut,
    PrepareIn,
    ResultOut,
)
from antiphon.shared_schemas.ids import ResumeToken
from antiphon.shared_schemas.states import SessionKind
from antiphon.shared_schemas.wire import TextParts
from support.chat_mode_samples import CHAT_MODE
from support.edge_harness import no_uploaded_voices
from support.protocol_driver import Protocol
from support.protocol_samples import PROTOCOLS, REALTIME_V2, SETTINGS

RESUMABLE = PROTOCOLS | {CHAT_MODE.name: CHAT_MODE}
KINDS = {
    "/ws/duplex/{session_id}": SessionKind.AUDIO_DUPLEX,
    "/ws/half_duplex/{session_id}": SessionKind.HALF_DUPLEX,
    "/ws/chat": SessionKind.CHAT,
    "/v1/realtime": SessionKind.OMNI_DUPLEX,
    REALTIME_V2.name: SessionKind.OMNI_DUPLEX,
    CHAT_MODE.name: SessionKind.CHAT,
}
WITHIN_S = 60.0
_MARK = re.compile(r"#\d+#")


class ClientConnection:
    """The edge's side of a client's socket."""

    encoding = JSON

    def __init__(self) -> None:
        self.frames: asyncio.Queue[str] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.message_sent = asyncio.Event()
        self.code: Close | None = None

    async def receive(self) -> str | bytes:
        return await self.frames.get()

    async def send(self, frame: ServerFrame) -> None:
        self.send_now(frame)

    def send_now(self, frame: ServerFrame) -> bool:
        assert isinstance(frame, TextParts)
        self.sent.append(orjson.loads(frame.text()))
        self.message_sent.set()
        return True

    async def close(self, code: Close) -> None:
        self.code = code
        raise ClientGone

    def force_close(self, code: Close, reason: str) -> None:
        """There is no socket."""

    def probe(self, answered: Callable[[], None]) -> None:
        """The client either reads at once or never."""


@dataclass
class ResumedSession:
    """One session: its client over several connections, and its worker."""

    edge: EdgeContext
    protocol: Protocol
    sent: dict[int, dict[str, Any]] = field(default_factory=dict, repr=False)
    marks: list[str] = field(default_factory=list)
    last: int = 0
    token: str = ""
    writer: StreamWriter | None = None
    served: EdgeSession[Any] | None = field(default=None, repr=False)
    sid: str = field(default_factory=lambda: f"s_{secrets.token_hex(6)}")

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[ClientConnection]:
        """A connection that is cut at the end, at any point of the edge's work."""
        client, started = ClientConnection(), asyncio.Event()
        resumed = None
        if self.token:
            resumed = ResumeRequest(ResumeToken(*self.token.split(".")), self.last)
        task = asyncio.create_task(
            self._serve(client, ConnectOptions(resume=True, resumed=resumed), started)
        )
        async with asyncio.timeout(WITHIN_S):
            await started.wait()
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _serve(
        self, client: ClientConnection, options: ConnectOptions, started: asyncio.Event
    ) -> None:
        kind = KINDS[self.protocol.name]
        wanted = SessionRequest(kind, "test", [self.sid], client_id=True)
        async with admit(self.edge, wanted, options) as admitted:
            decoder, machine = self.protocol.open()
            request = None
            if kind is SessionKind.CHAT:
                text = PROTOCOLS["/ws/chat"].messages["the request"]
                if not options.resumed:
                    request = await decode_request(text, SETTINGS, no_uploaded_voices)
                machine = (
                    RealtimeChatMachine("chat_7", 1, resumable=True)
                    if self.protocol is CHAT_MODE
                    else ChatMachine("rec", resumable=True)
                )
            elif self.protocol is REALTIME_V2:
                machine._resumable = True
            spec: ProtocolSpec[Any] = ProtocolSpec(
                lambda *_: (decoder, machine), self.protocol.encode_error, turns=True
            )
            self.served = EdgeSession(self.edge, client, admitted, spec, decoder, machine, request)
            started.set()
            await self.served.run()

    async def grant(self) -> None:
        if self.writer is not None:
            return
        broker = self.edge.broker
        async with asyncio.timeout(WITHIN_S):
            while (claim := await broker.leases.claim(f"w-{self.sid}")) is None:
                await asyncio.sleep(0.002)
        assert claim.sid == self.sid
        self.writer = await broker.streams.output_writer(claim.sid, claim.ticket, claim.epoch)

    async def publish(self, entry: OutEntry, *, marked: bool = True) -> None:
        """Every published text is unique."""
        if self.writer is None:
            return
        mark = f"#{len(self.marks)}#"
        if marked and isinstance(entry, ResultOut) and not entry.is_listen:
            entry = replace(entry, text=mark)
        elif marked and isinstance(entry, DeltaOut):
            entry = replace(entry, text_delta=mark)
        elif marked and isinstance(entry, ErrorOut):
            entry = replace(entry, message=mark)
        else:
            mark = ""
        if isinstance(entry, PreparedOut):
            await self._save_prepare()
        await self.writer.append(entry)
        self.marks += [mark] if mark else []

    async def _save_prepare(self) -> None:
        """As a worker does when it accepts a `prepare`."""
        streams, key = self.edge.broker.streams, self.edge.broker.keys.inbound(self.sid)
        assert self.writer is not None
        async for position, entry in streams.newest(key, self.writer.last.ticket):
            if isinstance(entry, PrepareIn | HalfDuplexPrepareIn):
                at = self.writer.last
                past = await streams.past_writer(self.sid, at.ticket, at.epoch)
                await past.append(replace(entry, input_n=position.n))
                break

    def take(self, sent: list[dict[str, Any]], share: float) -> None:
        """Receives messages with some left unread: the numbered ones in order."""
        if self.token:
            resumed, *sent = sent or [{"seq": self.last, "type": "resumed"}]
            assert (resumed["type"], resumed["seq"]) == ("resumed", self.last)
            self.token = resumed.get("resume_token", self.token)
        for message in sent:
            self.token = message.get("resume_token", self.token)
        for message in sent[: len(sent) - round(share * len(sent))]:
            if "seq" in message:
                assert message["seq"] > self.last, (self.last, message)
                self.last = message["seq"]
                self.sent[self.last] = message

    def texts(self) -> list[str]:
        found = [_MARK.findall(str(self.sent[seq])) for seq in sorted(self.sent)]
        return [mark for marks in found for mark in dict.fromkeys(marks)]
