"""A client that resumes gets every message exactly once, even if its edge or connection fails at any point."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from antiphon.broker.settings import BrokerSettings
from antiphon.edge.edge_context import EdgeContext, open_edge
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.entries import ChatDoneOut, DeltaOut, ErrorOut, OutEntry, ResultOut
from antiphon.shared_schemas.states import EndReason
from support.chat_mode_samples import CHAT_MODE
from support.control_plane import report
from support.edge_sessions import KINDS, RESUMABLE, WITHIN_S, ClientConnection, ResumedSession
from support.protocol_driver import Protocol
from support.protocol_samples import FINAL_ENTRIES, REALTIME_V2

NEVER_FATAL = {
    REALTIME_V2.name: ("session.init", REALTIME_V2.stop),
    CHAT_MODE.name: (CHAT_MODE.stop,),
}
"""The messages of a protocol in which every error is fatal that are legal in each state with a worker."""
GRANT, PAUSE, TURN = "a worker claims", "a while passes", "a moment passes"

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
@hypothesis.settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_every_message_once_and_in_order(
    path: str, edge: EdgeContext, data: st.DataObject
) -> None:
    session = ResumedSession(edge, RESUMABLE[path])
    worker = report(KINDS[path], slots=1000)
    await edge.broker.registry.worker_beat(f"w-{session.sid}", worker)
    try:
        await _run(session, data.draw(_connections(session.protocol), label="connections"))
    finally:
        await edge.broker.sessions.end(session.sid, EndReason.STOPPED)
    if session.token:  # else it has no token to resume with
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
