"""Every client message in every state: the document equals the code."""

from collections.abc import Collection
from typing import Any, get_args

import pytest

from antiphon.edge.protocols import (
    chat,
    duplex,
    half_duplex,
    live,
    realtime,
    realtime_v1,
    realtime_v2,
    twilio,
)
from antiphon.edge.protocols.machine import Phase, SessionMachine
from antiphon.edge.protocols.realtime_chat import RealtimeChatMachine
from antiphon.shared_schemas.messages.openai_realtime import ClientEvent
from support import chat_mode_samples, live_samples
from support.message_table import FILE, render
from support.openai_realtime_samples import OPENAI_REALTIME
from support.protocol_driver import Protocol
from support.protocol_samples import (
    CHAT,
    DUPLEX,
    HALF_DUPLEX,
    NO_REQUEST,
    REALTIME,
    REALTIME_V2,
)
from support.twilio_samples import TWILIO


def test_the_document_is_complete() -> None:
    assert FILE.read_text() == render(), "run: PYTHONPATH=tests python -m support.message_table"


def _states(machine: type[SessionMachine[Any]]) -> set[str]:
    return {machine.PHASE_TEXT[phase] for phase in machine.LEGAL if phase is not Phase.OVER}


@pytest.mark.parametrize(
    ("protocol", "states", "messages"),
    [
        (DUPLEX, _states(duplex.DuplexMachine), duplex.WIRE_NAMES.values()),
        (HALF_DUPLEX, _states(half_duplex.HalfDuplexMachine), half_duplex.WIRE_NAMES.values()),
        (REALTIME, _states(realtime.RealtimeMachine), realtime_v1.WIRE_NAMES.values()),
        (
            REALTIME_V2,
            {text for phase, text in realtime_v2.PHASE_TEXT.items() if phase is not Phase.OVER},
            realtime_v2.WIRE_NAMES.values(),
        ),
        (
            chat_mode_samples.CHAT_MODE,
            {chat_mode_samples.NOT_CREATED, chat_mode_samples.NO_REQUEST}
            | _states(RealtimeChatMachine),
            ("session.init", "input.append", "session.close"),
        ),
        (live_samples.LIVE, _states(live.LiveMachine), live.WIRE_NAMES.values()),
        (
            OPENAI_REALTIME,
            {
                *("waiting for a worker", "waiting for a worker, with a response"),
                *("active", "active, with a response"),
            },
            [get_args(kind.model_fields["type"].annotation)[0] for kind in get_args(ClientEvent)],
        ),
        (TWILIO, _states(twilio.TwilioMachine), twilio.WIRE_NAMES.values()),
        (CHAT, {NO_REQUEST} | _states(chat.ChatMachine), ("the request", "stop")),
    ],
    ids=lambda value: value.name if isinstance(value, Protocol) else "",
)
def test_every_state_and_every_message_is_in_the_table(
    protocol: Protocol, states: Collection[str], messages: Collection[str]
) -> None:
    assert set(protocol.setup) == states
    assert set(protocol.messages) == set(messages)
