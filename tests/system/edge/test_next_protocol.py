"""A protocol is one file: messages, decoder, machine, and one call that serves it. This one is a toy."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, Literal

import pybase64
import pytest

from antiphon.broker.settings import BrokerSettings
from antiphon.edge.edge_context import EdgeContext
from antiphon.edge.errors import Close, Fault, worker_error
from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.audio_formats import AudioFormat
from antiphon.edge.media.decode import InputReader, read_media
from antiphon.edge.protocols.machine import Action, Phase, Send
from antiphon.edge.protocols.sound_stream import Sound, SoundStreamMachine
from antiphon.edge.routes.socket_routes import ROUTES, SocketProtocol, add_socket
from antiphon.edge.session.admission import AdmittedSession
from antiphon.edge.session.session import ProtocolSpec
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import DuplexConfig
from antiphon.shared_schemas.entries import (
    ChunkIn,
    ErrorOut,
    OutEntry,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StopIn,
    StoppedOut,
)
from antiphon.shared_schemas.states import EndReason, SessionKind
from antiphon.shared_schemas.wire import ClientMessage, Media, MessageReader, ServerMessage
from support.edge_harness import PlayedWorker, RunningEdge, ended, running_edge

# --- messages ---


class Hello(ClientMessage):
    type: Literal["hello"]
    instructions: str = "Be brief."


class Piece(ClientMessage):
    type: Literal["piece"]
    sound: Media


class Bye(ClientMessage):
    type: Literal["bye"]


READER: MessageReader[Hello | Piece | Bye] = MessageReader(Hello | Piece | Bye)


class Ready(ServerMessage, type="ready"):
    pass


class Said(ServerMessage, type="said"):
    text: str
    sound: bytes


class Farewell(ServerMessage, type="farewell"):
    pass


class Refused(ServerMessage, type="refused"):
    code: str
    why: str


def encode_refusal(fault: Fault) -> Sequence[ServerMessage]:
    return [Refused(code=fault.message.code, why=fault.message.message)]


# --- decoder and machine ---

ToyCommand = PrepareIn | Sound | StopIn


class ToyDecoder:
    def __init__(self, settings: EdgeSettings) -> None:
        self._reader = InputReader(settings)

    async def decode(self, frame: ClientFrame) -> ToyCommand:
        data, _ = self._reader.read_frame(frame)
        message = READER.parse(data)
        if isinstance(message, Piece):
            sound = read_media(message.sound, "sound").data
            self._reader.charge_sound(len(sound) / 32_000, "sound")
            return Sound(sound)
        self._reader.budget.charge_message()
        if isinstance(message, Bye):
            return StopIn()
        return PrepareIn(system_prompt=message.instructions, config=DuplexConfig())


class ToyMachine(SoundStreamMachine[ToyCommand]):
    LEGAL: ClassVar = {
        Phase.QUEUED: frozenset({PrepareIn, StopIn}),
        Phase.QUEUED_PREPARED: frozenset({StopIn}),
        Phase.ASSIGNED: frozenset({PrepareIn, StopIn}),
        Phase.PREPARING: frozenset({StopIn}),
        Phase.ACTIVE: frozenset({Sound, StopIn}),
        Phase.STOPPING: frozenset(),
        Phase.OVER: frozenset(),
    }
    WIRE_NAMES: ClassVar = {PrepareIn: "hello", Sound: "piece", StopIn: "bye"}

    def _handle(self, command: ToyCommand) -> list[Action]:
        if isinstance(command, Sound):
            return self._add_sound(command.data)
        if isinstance(command, StopIn) and self.waiting:
            return self._farewell()
        return self._forward(command)

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:
        match entry:
            case PreparedOut(chunk_ms=chunk_ms):
                self._buffer.begin(AudioFormat.PCM_16K, chunk_ms)
                return self._prepared(Ready())
            case ResultOut(is_listen=False, text=text, audio=audio):
                return [Send(Said(text=text, sound=audio))]
            case StoppedOut():
                return self._farewell()
            case ErrorOut():
                [message] = encode_refusal(Fault(worker_error(entry)))
                return self._finish(message, Close.INTERNAL, EndReason.ERROR)
        return []

    def _farewell(self) -> list[Action]:
        return self._finish(Farewell(), Close.NORMAL, EndReason.STOPPED)

    def _error_messages(self, fault: Fault) -> Sequence[ServerMessage]:
        return encode_refusal(fault)


# --- the call that serves it ---


def start(context: EdgeContext, _admitted: AdmittedSession) -> tuple[ToyDecoder, ToyMachine]:
    clock = asyncio.get_running_loop().time
    return ToyDecoder(context.settings), ToyMachine(clock, AudioFormat.PCM_16K)


TOY = SocketProtocol(
    "toy",
    ProtocolSpec(start, encode_refusal),
    SessionKind.AUDIO_DUPLEX,
    "toy",
    subprotocols=["toy.v1"],
)


@pytest.fixture
async def edge(settings: BrokerSettings) -> AsyncIterator[RunningEdge]:
    others = [*ROUTES]
    add_socket("/toy", serve=TOY.serve)
    try:
        async with running_edge(settings) as running:
            yield running
    finally:
        ROUTES[:] = others


async def test_a_conversation(edge: RunningEdge, worker: PlayedWorker) -> None:
    subprotocols: Any = ["toy.v1"]
    async with edge.open("/toy", subprotocols=subprotocols) as client:
        assert client.socket.subprotocol == "toy.v1"
        await client.send("hello", instructions="You are a parrot.")
        session = await worker.claim()
        assert (await session.prepare()).system_prompt == "You are a parrot."
        await client.expect("ready")
        await client.send("hello")
        refused = await client.expect("refused")
        assert refused["why"] == (
            "hello: not allowed while the session is active; allowed now: bye, piece"
        )
        for _ in range(5):  # a chunk of a second, in pieces
            await client.send("piece", sound=pybase64.b64encode_as_string(bytes(6400)))
        heard = await session.answer(text="Hello!")
        assert isinstance(heard, ChunkIn)
        assert len(heard.audio) == 32_000
        said = await client.expect("said")
        assert (said["text"], len(pybase64.b64decode(said["sound"]))) == ("Hello!", 96_000)
        await client.send("bye")
        await session.expect(StopIn)
        await session.publish(StoppedOut())
        await client.expect("farewell")
        assert await client.close_code() == 1000
    async with edge.status() as status:
        metrics = (await status.get("/metrics")).text
    assert 'antiphon_edge_protocol_sessions_total{protocol="toy"} 1.0' in metrics


async def test_what_every_protocol_has(edge: RunningEdge, worker: PlayedWorker) -> None:
    """Errors in its own words, an end when its client leaves, and an answer to plain HTTP."""
    async with edge.open("/toy") as client:
        await client.send("dance")
        refused = await client.expect("refused")
        assert refused["code"] == "unknown_type"
        await client.send("hello")
        session = await worker.claim()
    assert (await ended(worker.broker, session.claim.sid)).reason is EndReason.CLIENT_GONE
    async with edge.http() as http:
        assert (await http.get("/toy")).status_code == 426
