"""Commands to a running session reach its edge on the events stream."""

import pytest

from antiphon.broker import events
from antiphon.broker.client import Broker
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import SessionKind, SessionState
from support.control_plane import activate, claim, join, serve

pytestmark = pytest.mark.on_cluster

KIND = SessionKind.AUDIO_DUPLEX


@pytest.fixture(autouse=True)
def short_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short blocking reads; the results do not depend on the duration."""
    monkeypatch.setattr(events, "LONGEST_BLOCK_MS", 50)


async def test_a_command_reaches_an_active_session_and_keeps_its_state(broker: Broker) -> None:
    await serve(broker)
    ticket = await join(broker, "adx_1")
    held = await claim(broker)
    await activate(broker, held)
    watch = await broker.events.watch()
    try:
        assert await broker.sessions.send_command("adx_1", KIND, SessionCommand.INTERRUPT)
        [event] = await watch.read()
    finally:
        await watch.close()
    assert (event.sid, event.ticket, event.ask) == (
        "adx_1",
        ticket.number,
        SessionCommand.INTERRUPT,
    )
    assert event.state is SessionState.ACTIVE
    row = await broker.sessions.get("adx_1")
    assert row is not None
    assert row.state is SessionState.ACTIVE


async def test_no_other_session_receives_the_command(broker: Broker) -> None:
    assert not await broker.sessions.send_command("unknown", KIND, SessionCommand.INTERRUPT)
    await serve(broker)
    await join(broker, "adx_1")
    assert not await broker.sessions.send_command(
        "adx_1", KIND, SessionCommand.INTERRUPT
    )  # it waits
    await activate(broker, await claim(broker))
    assert not await broker.sessions.send_command(
        "adx_1", SessionKind.HALF_DUPLEX, SessionCommand.INTERRUPT
    )
