"""A client that resumes gets every message exactly once, even if its edge or connection fails at any point."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis
import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from antiphon.broker.settings import BrokerSettings
from antiphon.broker.streams import StreamWriter
from antiphon.edge.context import EdgeContext, open_edge
from antiphon.edge.errors import ClientGone, Close
from antiphon.edge.protocols.chat import ChatMachine, decode_request
from antiphon.edge.protocols.realtime_chat import RealtimeChatMachine
from antiphon.edge.session.admission import ConnectOptions, ResumeRequest, SessionRequest, admit
from antiphon.edge.session.session import EdgeSession, ProtocolSpec
from antiphon.edge.settings import EdgeSettings
from antiphon.edge.transport.connection import JSON, ServerFrame
from antiphon.shared_schemas.entries import ChatDoneOut, DeltaOut, ErrorOut, OutEntry, ResultOut
from antiphon.shared_schemas.ids import ResumeToken
from antiphon.shared_schemas.states import EndReason, SessionKind
from antiphon.shared_schemas.wire import TextParts
from support.chat_mode_samples import CHAT_MODE
from support.control_plane import report
from support.edge_harness import no_uploaded_voices
from support.protocol_driver import Protocol
from support.protocol_samples import FINAL_ENTRIES, PROTOCOLS, REALTIME_V2, SETTINGS

KINDS = {
    "/ws/duplex/{session_id}": SessionKind.AUDIO_DUPLEX,
    "/ws/half_duplex/{session_id}": SessionKind.HALF_DUPLEX,
    "/ws/chat": SessionKind.CHAT,
    "/v1/realtime": SessionKind.OMNI_DUPLEX,
    REALTIME_V2.name: SessionKind.OMNI_DUPLEX,
    CHAT_MODE.name: SessionKind.CHAT,
}
NEVER_FATAL = {
    REALTIME_V2.name: ("session.init", REALTIME_V2.stop),
    CHAT_MODE.name: (CHAT_MODE.stop,),
}
"""The messages of a protocol in which every error is fatal that are legal in each state with a worker."""
GRANT, PAUSE, TURN = "a worker claims", "a while passes", "a moment passes"
WITHIN_S = 60.0
_MARK = re.compile(r"#\d+#")


class ClientConnection:
    """The edge's side of a client's socket."""

    encoding = JSON

    def __init__(self) -> None:
        self.frames: asyncio.Queue[str] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.message_sent = asyncio.Event()

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
            if kind is SessionKind.CHAT:
                text = PROTOCOLS["/ws/chat"].messages["the request"]
                request = (
                    None
                    if options.resumed
                    else await decode_request(text, SETTINGS, no_uploaded_voices)
                )
                machine = (
                    RealtimeChatMachine(request, "chat_7", 1, resumable=True)
                    if self.protocol is CHAT_MODE
                    else ChatMachine(request, "rec", resumable=True)
                )
            elif self.protocol is REALTIME_V2:
                machine._resumable = True
            spec: ProtocolSpec[Any] = ProtocolSpec(
                lambda *_: (decoder, machine), self.protocol.encode_error, turns=True
            )
            started.set()
            await EdgeSession(self.edge, client, admitted, spec, decoder, machine).run()

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
        await self.writer.append(entry)
        self.marks += [mark] if mark else []

    def take(self, sent: list[dict[str, Any]], share: float) -> None:
        """Receives messages with some left unread: in order, without a gap."""
        if self.token:
            resumed, *sent = sent or [{"seq": self.last, "type": "resumed"}]
            assert (resumed["type"], resumed["seq"]) == ("resumed", self.last)
            self.token = resumed.get("resume_token", self.token)
        for message in sent:
            assert message["seq"] == self.last + 1, (self.last, message)
            self.last = message["seq"]
            self.sent[self.last] = message
            self.token = message.get("resume_token", self.token)
        lost = round(share * len(sent))
        for seq in range(self.last - lost + 1, self.last + 1):
            del self.sent[seq]
        self.last -= lost

    def texts(self) -> list[str]:
        found = [_MARK.findall(str(self.sent[seq])) for seq in sorted(self.sent)]
        return [mark for marks in found for mark in dict.fromkeys(marks)]


Step = str | int
"""GRANT, PAUSE, TURN, the name of a frame, or the place of an answer."""


def _frames(protocol: Protocol) -> dict[str, Any]:
    both = {**protocol.messages, **protocol.mistakes}
    if protocol.errors_end:
        return {name: both[name] for name in NEVER_FATAL[protocol.name]}
    closing = ("the request", "no JSON")
    return {n: f for n, f in both.items() if n not in closing and isinstance(f, str)}


def _steps(protocol: Protocol) -> st.SearchStrategy[list[Step]]:
    """Mostly answers, because they can be lost or sent twice."""
    last = (*FINAL_ENTRIES, *(e for e in protocol.entries if isinstance(e, ChatDoneOut)))
    errors = ErrorOut if protocol.errors_end else ()
    entries = [e for e in protocol.entries if e not in last and not isinstance(e, errors)]
    answers = [protocol.entries.index(entry) for entry in entries]
    often = st.sampled_from([*answers, GRANT, PAUSE, TURN])
    return st.lists(often | st.sampled_from(sorted(_frames(protocol))), max_size=12)


async def _run_steps(session: ResumedSession, client: ClientConnection, steps: list[Step]) -> None:
    frames = _frames(session.protocol)
    for step in steps:
        if step == PAUSE:
            await asyncio.sleep(0.003)
        elif step == TURN:
            await asyncio.sleep(0.0003)
        elif step == GRANT:
            await session.grant()
        elif isinstance(step, int):
            await session.publish(session.protocol.entries[step])
        elif session.writer is not None or step != session.protocol.stop:
            client.frames.put_nowait(frames[step])


async def _read_to_the_end(session: ResumedSession, client: ClientConnection) -> None:
    """Reads until the final text; an answer to a frame may still follow it."""
    await session.grant()
    await session.publish(next(entry for entry in session.protocol.entries if _speaks(entry)))
    async with asyncio.timeout(WITHIN_S):
        while not any(session.marks[-1] in str(message) for message in client.sent):
            client.message_sent.clear()
            await client.message_sent.wait()


def _speaks(entry: OutEntry) -> bool:
    return isinstance(entry, DeltaOut) or (isinstance(entry, ResultOut) and not entry.is_listen)


@pytest.fixture
async def edge(settings: BrokerSettings) -> AsyncIterator[EdgeContext]:
    async with open_edge(EdgeSettings(**settings.model_dump(), edge_health_port=0)) as opened:
        yield opened


@pytest.mark.parametrize("path", KINDS)
@hypothesis.settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_every_message_once_and_in_order(
    path: str, edge: EdgeContext, data: st.DataObject
) -> None:
    session = ResumedSession(edge, (PROTOCOLS | {CHAT_MODE.name: CHAT_MODE})[path])
    worker = report(KINDS[path], slots=1000)
    await edge.broker.registry.worker_beat(f"w-{session.sid}", 0, worker)
    try:
        await _run(session, data.draw(_connections(session.protocol), label="connections"))
    finally:
        await edge.broker.sessions.end(session.sid, EndReason.STOPPED)
    if session.token:  # else it has no token to resume with
        assert sorted(session.sent) == list(range(1, session.last + 1))
        assert session.texts() == session.marks


ConnectionPlan = tuple[list[Step], float]
"""The steps on one connection, and the share of the sent messages that is lost with it."""


def _connections(protocol: Protocol) -> st.SearchStrategy[list[ConnectionPlan]]:
    plan = st.tuples(_steps(protocol), st.sampled_from([0.0, 0.3, 1.0]))
    return st.lists(plan, min_size=1, max_size=4)


async def _run(session: ResumedSession, connections: list[ConnectionPlan]) -> None:
    *early, (final, _) = connections
    for steps, share in early:
        async with session.connected() as client:
            await _run_steps(session, client, steps)
        await session.edge.terminator.wait_until_done(WITHIN_S)
        session.take(client.sent, share)
        if not session.token:
            return
    async with session.connected() as client:
        await _run_steps(session, client, final)
        await _read_to_the_end(session, client)
    session.take(client.sent, 0)
