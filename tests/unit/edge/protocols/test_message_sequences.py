"""Any sequence of frames, answers, places and ends: one terminal message, and nothing after it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.errors import Close
from antiphon.edge.protocols.machine import Action, Finish, QueuePlace, Send
from antiphon.shared_schemas.registry import SessionCommand
from antiphon.shared_schemas.states import EndReason
from support.live_samples import LIVE
from support.openai_realtime_samples import OPENAI_REALTIME
from support.protocol_driver import Ended, Protocol, Step, kind_of
from support.protocol_samples import GRANTED
from support.protocol_samples import PROTOCOLS as RESUMABLE
from support.twilio_samples import TWILIO

PROTOCOLS = RESUMABLE | {protocol.name: protocol for protocol in (LIVE, OPENAI_REALTIME, TWILIO)}
_NEW_ID = re.compile(r"(item|resp)_[0-9a-f]{20}")
PLACES = [QueuePlace("7", 2, 3, 4.5, first=first) for first in (True, False)]
ENDS = [Ended(reason) for reason in (*EndReason, None)]


def _steps(protocol: Protocol) -> st.SearchStrategy[list[Step]]:
    """Mostly valid messages and entries, so that sequences get far."""
    good = st.sampled_from([*protocol.messages.values(), *protocol.entries, GRANTED])
    odd = st.sampled_from([*protocol.mistakes.values(), *PLACES, SessionCommand.INTERRUPT])
    setup = st.sampled_from(list(protocol.setup.values()))
    begun = st.tuples(setup, st.lists(good | good | odd, max_size=30))
    return begun.map(lambda parts: [*parts[0], *parts[1]])


async def _actions(protocol: Protocol, steps: list[Step]) -> list[Action]:
    """All actions until the connection closes, as the edge would run them."""
    connection = protocol.connection(protocol)
    actions: list[Action] = []
    for step in steps:
        actions += await connection.step(step)
        if connection.closed:
            break
    return actions


@pytest.mark.parametrize("path", PROTOCOLS)
@given(data=st.data(), end=st.sampled_from(ENDS))
async def test_one_terminal_message_and_nothing_after_it(
    path: str, data: st.DataObject, end: Ended
) -> None:
    protocol = PROTOCOLS[path]
    steps = data.draw(_steps(protocol), label="steps")
    # A chat without a request has no session that could end.
    actions = await _actions(protocol, [*steps, *_request(protocol), end])
    *before, finish = actions
    assert isinstance(finish, Finish)
    assert not [action for action in before if isinstance(action, Finish)]
    sent = [kind_of(action.message) for action in before if isinstance(action, Send)]
    assert not set(sent[:-1]) & protocol.terminal
    if protocol.terminal and finish.close is not Close.UNSUPPORTED:  # bad JSON needs no message
        assert sent[-1] in protocol.terminal | {"error"}


def _request(protocol: Protocol) -> list[Step]:
    return [request] if (request := protocol.messages.get("the request")) else []


@pytest.mark.parametrize("path", [path for path, p in PROTOCOLS.items() if not p.errors_end])
@given(data=st.data())
async def test_an_invalid_message_changes_nothing(path: str, data: st.DataObject) -> None:
    """A session with invalid messages has the same effects as one without them."""
    protocol = PROTOCOLS[path]
    mistakes = [m for name, m in protocol.mistakes.items() if name != "no JSON"]
    good = [*_request(protocol), *data.draw(_steps(protocol), label="good")]
    good = [step for step in good if step not in protocol.mistakes.values()]
    bent = list(good)
    for mistake in data.draw(st.lists(st.sampled_from(mistakes), max_size=5)):
        bent.insert(data.draw(st.integers(len(_request(protocol)), len(bent))), mistake)
    assert _effects(await _actions(protocol, bent)) == _effects(await _actions(protocol, good))


def _effects(actions: list[Action]) -> list[Action | str]:
    errors = [a for a in actions if isinstance(a, Send) and kind_of(a.message) == "error"]
    return [_without_ids(a) for a in actions if a not in errors]


def _without_ids(action: Action) -> Action | str:
    """New ids are random."""
    shown = _NEW_ID.sub("id", repr(action))
    return action if shown == repr(action) else shown
