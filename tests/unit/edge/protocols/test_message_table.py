"""Every client message in every state: the document equals the code, cell by cell."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pytest

from antiphon.edge.protocols import chat, duplex, half_duplex, realtime, realtime_v2
from antiphon.edge.protocols.machine import Phase, SessionMachine
from antiphon.edge.protocols.realtime_chat import RealtimeChatMachine
from support import chat_mode_samples
from support.message_table import FILE, TABLE, answer, render, rows
from support.protocol_driver import Protocol
from support.protocol_samples import (
    CHAT,
    DUPLEX,
    HALF_DUPLEX,
    NO_REQUEST,
    REALTIME,
    REALTIME_V2,
)


def _cells() -> Iterator[tuple[str, str, str, str]]:
    """(path, message, state, answer) of every cell of the document."""
    path, states = "", [""]
    for line in FILE.read_text().splitlines():
        if line.startswith("## "):
            path = line.removeprefix("## ").replace("`", "")
        elif line.startswith("| message |"):
            states = _row(line)[1:]
        elif line.startswith("| ") and not line.startswith("| ---"):
            name, *answers = _row(line)
            yield from ((path, name, *cell) for cell in zip(states, answers, strict=True))


def _row(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(("path", "message", "state", "expected"), list(_cells()))
async def test_answer(path: str, message: str, state: str, expected: str) -> None:
    protocol = TABLE[path]
    assert await answer(protocol, state, rows(protocol)[message]) == expected


def test_the_document_is_complete() -> None:
    assert FILE.read_text() == render(), "run: PYTHONPATH=tests python -m support.message_table"


def _states(machine: type[SessionMachine[Any]]) -> set[str]:
    return {machine.PHASE_TEXT[phase] for phase in machine.LEGAL if phase is not Phase.OVER}


@pytest.mark.parametrize(
    ("protocol", "states", "messages"),
    [
        (DUPLEX, _states(duplex.DuplexMachine), duplex.WIRE_NAMES.values()),
        (HALF_DUPLEX, _states(half_duplex.HalfDuplexMachine), half_duplex.WIRE_NAMES.values()),
        (REALTIME, _states(realtime.RealtimeMachine), realtime.WIRE_NAMES.values()),
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
        (CHAT, {NO_REQUEST} | _states(chat.ChatMachine), ("the request", "stop")),
    ],
    ids=lambda value: value.name if isinstance(value, Protocol) else "",
)
def test_every_state_and_every_message_is_in_the_table(
    protocol: Protocol, states: Collection[str], messages: Collection[str]
) -> None:
    assert set(protocol.setup) == states
    assert set(protocol.messages) == set(messages)
