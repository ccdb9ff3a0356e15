"""An edge is killed at each position of a conversation; another edge continues it from Redis alone.

The client has the same numbered messages as one that never lost its connection, and each of its commands is
as legal as before.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.broker.settings import BrokerSettings
from antiphon.edge.edge_context import EdgeContext, open_edge
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    DeltaOut,
    ErrorOut,
    GeneratingOut,
    OutEntry,
    PausedOut,
    PrefillDoneOut,
    PreparedOut,
    ResumedOut,
    StoppedOut,
    TurnDoneOut,
    VadOut,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import TokenUsage
from support.chat_mode_samples import CHAT_MODE
from support.control_plane import report
from support.edge_harness import result
from support.edge_sessions import KINDS, RESUMABLE, WITHIN_S, ClientConnection, ResumedSession
from support.protocol_samples import DUPLEX, REALTIME_V2
from support.resuming_client import content

GRANT = "a worker claims"
PREPARED = PreparedOut(input_n=1, prompt_length=7, usage=TokenUsage(input_text=7))
USED = TokenUsage(input_text=7, output_text=9)
SPEAKS = replace(result(2), turn=1, usage=USED, total_usage=USED, memo={"user": "Hello?"})
WORDS = replace(SPEAKS, audio=b"", unit=1)
REST = replace(SPEAKS, text_before="hi", unit=2, end_of_turn=True)
LISTENS = replace(result(5, speak=False), unit=3, turn=1, total_usage=USED)
FAILED = ErrorOut(input_n=6, code="inference_error", message="bad")
DONE = ChatDoneOut(text="Hi you.", generated_tokens=2, input_tokens=9, duration_ms=12.5)
UNITS: list[str | OutEntry] = [SPEAKS, WORDS, REST, LISTENS]

Conversation = Sequence[str | OutEntry]
"""Frames of the client, by name, and what the worker publishes."""


def _of(prepare: str, audio: str, stop: str, answers: Conversation) -> Conversation:
    return [prepare, GRANT, PREPARED, audio, *answers, audio, stop, StoppedOut()]


HALF_DUPLEX: Conversation = [
    VadOut(input_n=2, speaking=True),
    VadOut(input_n=2, speaking=False),
    GeneratingOut(input_n=2, turn_index=0, speech_duration_ms=1200),
    DeltaOut(text_delta="Hi", audio=bytes(4)),
    DeltaOut(text_delta=" you."),
    TurnDoneOut(input_n=2, turn_index=0, text="Hi you."),
]
CHAT: Conversation = [
    GRANT,
    PrefillDoneOut(input_tokens=9),
    DeltaOut(text_delta="Hi", audio=bytes(4)),
    DeltaOut(text_delta=" you."),
]
_PAUSED: Conversation = [
    *("pause", PausedOut(input_n=3, timeout_s=5), "playback_ack"),
    *("resume", ResumedOut(input_n=5), "client_diagnostic", FAILED),
]
CONVERSATIONS: dict[str, Conversation] = {
    "/ws/duplex/{session_id}": _of("prepare", "audio_chunk", "stop", [*UNITS, *_PAUSED]),
    "/ws/half_duplex/{session_id}": _of("prepare", "audio_chunk", "stop", HALF_DUPLEX),
    "/ws/chat": [*CHAT, DONE],
    "/v1/realtime": _of(
        "session.update", "input_audio_buffer.append", "session.close", [*UNITS, FAILED]
    ),
    REALTIME_V2.name: _of("session.init", "input.append", "session.close", UNITS),
    CHAT_MODE.name: [*CHAT, "session.close", replace(DONE, stopped=True)],
}

LATE_PREPARE = {
    path: [steps[1], steps[0], *steps[2:]]
    for path, steps in CONVERSATIONS.items()
    if steps[0] != GRANT
}
REFUSED = {
    path: [*steps[:2], replace(FAILED, input_n=1), steps[0], *steps[2:]]
    for path, steps in CONVERSATIONS.items()
    if steps[0] != GRANT and path != REALTIME_V2.name
}
"""The first `prepare` fails. In version 2 of realtime that ends the session."""

Edges = tuple[EdgeContext, EdgeContext]


@pytest.fixture
async def edges(settings: BrokerSettings) -> AsyncIterator[Edges]:
    own = EdgeSettings(**settings.model_dump(), edge_health_port=0)
    async with open_edge(own) as one, open_edge(own) as other:
        for edge in (one, other):
            edge.terminator.detach = lambda *_: None  # type: ignore[method-assign] # killed
        yield one, other


class Talk:
    """One conversation. `kill` ends an edge's work, with or without the messages that were on their way."""

    def __init__(self, edges: Edges, path: str) -> None:
        self.session = ResumedSession(edges[0], RESUMABLE[path])
        self.errors: list[str] = []
        self.closed_with: int | None = None
        self._edges = edges
        self._path = path
        self._connection = AsyncExitStack()
        self._received = 0
        self._inputs = 0

    async def begin(self) -> None:
        await self._connect()
        await self._until(lambda: any("resume_token" in m for m in self.client.sent))
        self.session.token = self.client.sent[0]["resume_token"]
        self._received = 0
        worker = report(KINDS[self._path], slots=1000)
        await self._edges[0].broker.registry.worker_beat(f"w-{self.session.sid}", worker)

    async def step(self, step: str | OutEntry) -> None:
        """Returns when everything has arrived that follows from the step."""
        session = self.session
        if step == GRANT:
            await session.grant()
            await self._until(lambda: any("queue_done" in m["type"] for m in self.client.sent))
        elif isinstance(step, str):
            self.client.frames.put_nowait(str(session.protocol.messages[step]))
            self._inputs += 1
            await self._until(lambda: self._written >= self._inputs or self._refused)
        else:
            await session.publish(step, marked=False)
            assert session.writer is not None
            position = session.writer.last
            await self._until(lambda: self._served._outputs.position >= position)

    async def kill(self, *, lost: bool) -> None:
        """`lost`: the client has nothing of the last step."""
        sent = self.client.sent[: self._received if lost else None]
        await self._connection.aclose()
        self._take(sent)
        self.session.edge = self._edges[self.session.edge is self._edges[0]]
        await self._connect()
        await self._until(lambda: bool(self.client.sent))
        self._received = 0

    def step_done(self) -> None:
        """What was sent so far is received, also if the edge is killed."""
        self._received = len(self.client.sent)

    async def end(self) -> None:
        await self._until(lambda: self.client.code is not None)
        self.closed_with = self.client.code
        await self._connection.aclose()
        self._take(self.client.sent)
        broker = self._edges[0].broker
        await broker.sessions.end(self.session.sid, EndReason.STOPPED)
        await broker.registry.worker_gone(f"w-{self.session.sid}")  # the next one waits

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [content(self.session.sent[seq]) for seq in sorted(self.session.sent)]

    def _take(self, sent: list[dict[str, Any]]) -> None:
        self.errors += [str(m) for m in sent if m["type"] == "error" and "seq" not in m]
        greeted = [m for m in sent if m["type"] == "resumed" and "resume_token" in m]
        token = self.session.token
        self.session.token = ""
        self.session.take([m for m in sent if m not in greeted], 0)
        self.session.token = greeted[-1]["resume_token"] if greeted else token

    async def _connect(self) -> None:
        self.client: ClientConnection = await self._connection.enter_async_context(
            self.session.connected()
        )

    @property
    def _served(self) -> Any:
        return self.session.served

    @property
    def _written(self) -> int:
        """Inputs of this session in Redis; a chat's request is the first."""
        writer = self._served._writer._inputs
        return 0 if writer is None else writer.last.n - (self._path in (CHAT_MODE.name, "/ws/chat"))

    @property
    def _refused(self) -> bool:
        return any(m["type"] == "error" and "seq" not in m for m in self.client.sent)

    async def _until(self, reached: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not reached():
                await asyncio.sleep(0.001)


async def _run(
    edges: Edges, path: str, steps: Conversation, killed: int, *, lost: bool = False
) -> Talk:
    """The conversation, with an edge that is killed after the step `killed`."""
    talk = Talk(edges, path)
    await talk.begin()
    for number, step in enumerate(steps):
        await talk.step(step)
        if number == killed:
            await talk.kill(lost=lost)
        talk.step_done()
    await talk.end()
    return talk


async def _check(
    edges: Edges, path: str, steps: Conversation, positions: range, *, lost: bool = False
) -> None:
    whole = await _run(edges, path, steps, -1)
    assert len(whole.messages) > 4
    for killed in positions:
        talk = await _run(edges, path, steps, killed, lost=lost)
        assert talk.messages == _as(talk, whole), (killed, steps[killed])
        assert (talk.errors, talk.closed_with) == (whole.errors, whole.closed_with), killed


@pytest.mark.parametrize("path", CONVERSATIONS)
async def test_the_client_has_the_same_messages(path: str, edges: Edges) -> None:
    """The newest are lost with the edge. Those before them are known, so each step is both in turn."""
    steps = CONVERSATIONS[path]
    await _check(edges, path, steps, range(len(steps)), lost=True)


async def test_a_client_that_has_received_everything(edges: Edges) -> None:
    steps = CONVERSATIONS[DUPLEX.name]
    await _check(edges, DUPLEX.name, steps, range(len(steps)))


@pytest.mark.parametrize("path", LATE_PREPARE)
async def test_a_session_that_is_prepared_with_its_worker(path: str, edges: Edges) -> None:
    await _check(edges, path, LATE_PREPARE[path], range(3))


@pytest.mark.parametrize("path", REFUSED)
async def test_a_prepare_that_fails(path: str, edges: Edges) -> None:
    await _check(edges, path, REFUSED[path], range(1, 5))


def _as(talk: Talk, whole: Talk) -> list[dict[str, Any]]:
    """The messages of another session with the names of this one."""
    ours, theirs = talk.session.sid, whole.session.sid
    return [
        {name: ours if value == theirs else value for name, value in message.items()}
        for message in whole.messages
    ]
