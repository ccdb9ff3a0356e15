"""A machine restored from its snapshot sends the same messages as the lost one would have sent."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.edge.protocols.chat import ChatMachine
from antiphon.edge.protocols.duplex import DuplexMachine
from antiphon.edge.protocols.machine import Action, Finish, Send, SessionMachine
from antiphon.edge.protocols.realtime import RealtimeMachine
from antiphon.shared_schemas.entries import ResultOut
from support.protocol_driver import Protocol, Step
from support.protocol_samples import PROTOCOLS


def _fresh(protocol: Protocol) -> SessionMachine[object]:
    machine: SessionMachine[object] | None = protocol.open()[1]
    if machine is not None:
        return machine
    return ChatMachine(None, "rec")


def _messages(actions: list[Action]) -> list[object]:
    return [a.message.wire() if isinstance(a, Send) else a for a in actions]


@pytest.mark.parametrize("path", PROTOCOLS)
@given(data=st.data())
async def test_a_restored_machine_sends_the_same_messages(path: str, data: st.DataObject) -> None:
    protocol = PROTOCOLS[path]
    steps: list[Step] = [*protocol.messages.values(), *protocol.entries]
    way = data.draw(st.sampled_from(list(protocol.setup.values())), label="way")
    before = data.draw(st.lists(st.sampled_from(steps), max_size=8), label="before")
    after = data.draw(st.lists(st.sampled_from(list(protocol.entries)), max_size=6), label="after")
    connection = protocol.connection(protocol)
    for step in [*way, *before]:
        await connection.step(step)
        if connection.closed:
            return
    machine = connection._machine
    if machine is None:
        return  # a chat without a request yet
    again = _fresh(protocol)
    again.restore(json.loads(json.dumps(machine.snapshot())), machine.held)
    assert (again.waiting, list(again.held)) == (machine.waiting, list(machine.held))
    assert again.snapshot() == machine.snapshot()
    if machine.waiting:
        assert _messages(list(again.granted())) == _messages(list(machine.granted()))
    for entry in after:
        one, other = list(machine.deliver(entry, 7.0)), list(again.deliver(entry, 7.0))
        assert _messages(one) == _messages(other)
        assert again.snapshot() == machine.snapshot()
        if any(isinstance(action, Finish) for action in one):
            return


@pytest.mark.parametrize("make", [DuplexMachine, RealtimeMachine])
def test_a_notice_is_sent_once_in_any_phase(make: type) -> None:
    unit = next(e for e in PROTOCOLS["/ws/duplex/{session_id}"].entries if isinstance(e, ResultOut))
    entries = [
        replace(unit, kv_cache_length=4000 + 200 * n, current_time=1000 * n) for n in range(20)
    ]

    def open_() -> SessionMachine[object]:
        sid = "adx_1" if make is DuplexMachine else "rt_1714200000000"
        machine: SessionMachine[object] = make(sid, "rec", notices=True)
        return machine

    machine, notices = open_(), 0
    for entry in entries:
        again = open_()
        again.restore(json.loads(json.dumps(machine.snapshot())), [])
        sent = _types(list(again.deliver(entry, 0.0)))
        assert sent == _types(list(machine.deliver(entry, 0.0)))
        notices += sum(kind.endswith("notice") for kind in sent)
    assert notices == 1


def _types(actions: list[Action]) -> list[str]:
    return [action.message.type for action in actions if isinstance(action, Send)]
