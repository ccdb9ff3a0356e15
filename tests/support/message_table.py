"""Writes docs/message-table.md from the edge's decoders and machines.

`PYTHONPATH=tests python -m support.message_table` writes the file.
"""

import asyncio
from collections import defaultdict
from pathlib import Path

from antiphon.edge.protocols.machine import Action, Finish, Forward, Send
from antiphon.shared_schemas.wire import ServerMessage
from support.chat_mode_samples import CHAT_MODE
from support.live_samples import LIVE
from support.openai_realtime_samples import OPENAI_REALTIME
from support.protocol_driver import Frame, Protocol, kind_of
from support.protocol_samples import PROTOCOLS
from support.twilio_samples import TWILIO

OTHERS = (CHAT_MODE, LIVE, OPENAI_REALTIME, TWILIO)
TABLE = PROTOCOLS | {protocol.name: protocol for protocol in OTHERS}
FILE = Path(__file__).parents[2] / "docs" / "message-table.md"

_BAD_VALUES = ("no object", "a number out of range", "a binary frame cut short")

_HEAD = """# Message × state

What the edge answers to every message of a client in every state of its session. Errors name these states,
except those of OpenAI's Realtime API and Twilio. `PYTHONPATH=tests python -m support.message_table` writes
this page.

- *taken*: goes to the worker, which answers later. *kept*: waits for the worker, or a frame for its chunk.
- *ignored*: the session is closing, or a call cannot use it. *bad values*: a message that is no object, has a
  number out of range, or is a binary frame cut short.
- *→ paused*: the state that follows. Without one, nothing changes.
- `not_ready` and other codes: an `error` with that code. The session continues unless a close code follows.
- `stopped`, 1000: that message, then the connection closes with this number. A number alone closes without
  a message.

A binary frame that was not agreed on (subprotocol `antiphon.binary.v1`) closes with 1003 in every state. A
session that waits for another worker keeps its state.
"""


def render() -> str:
    return asyncio.run(_document())


async def _document() -> str:
    return "\n".join([_HEAD, *[await _section(protocol) for protocol in TABLE.values()]])


async def _section(protocol: Protocol) -> str:
    states, names = list(protocol.setup), defaultdict[str, list[str]](list)
    for name, frame in rows(protocol).items():
        answers = {state: await answer(protocol, state, frame) for state in states}
        names[_by_answer(answers)].append(name)
    head = [f"## `{protocol.path}`{protocol.version}", "", f"States: {', '.join(states)}.", ""]
    lines = [f"- {', '.join(_grouped(same))}: {text}" for text, same in names.items()]
    return "\n".join([*head, *lines, ""])


def _grouped(rows: list[str]) -> list[str]:
    """The rows with one name for those that all protocols have."""
    if not set(_BAD_VALUES) <= set(rows):
        return rows
    return ["*bad values*", *(row for row in rows if row not in _BAD_VALUES)]


def _by_answer(answers: dict[str, str]) -> str:
    """The states by answer; the most frequent answer comes last, without its states."""
    states = defaultdict[str, list[str]](list)
    for state, cell in answers.items():
        states[cell].append(state)
    usual = max(states, key=lambda cell: len(states[cell]))
    parts = [f"{', '.join(names)}: {cell}" for cell, names in states.items() if cell != usual]
    return "; ".join([*parts, f"otherwise {usual}"]) if parts else f"always {usual}"


def rows(protocol: Protocol) -> dict[str, Frame]:
    """The client's messages, under the names of the table's rows."""
    named = {name if " " in name else f"`{name}`": f for name, f in protocol.messages.items()}
    return {**named, **protocol.mistakes}


async def answer(protocol: Protocol, state: str, frame: Frame) -> str:
    """The result of one message in one state, in a few words."""
    connection = await protocol.at(state)
    waits = connection.waits
    actions = await connection.step(frame)
    after = "" if connection.closed or connection.state == state else f" → {connection.state}"
    closing = connection.state in ("closing", "being stopped")
    silent = "kept" if protocol.keeps and not closing else "ignored"
    words = [_word(action, waits=waits) for action in actions]
    return (", ".join(words) or silent) + after


def _word(action: Action, *, waits: bool) -> str:
    match action:
        case Forward():
            return "kept" if waits else "taken"
        case Finish(close=close):
            return str(int(close))
        case Send(message=message):
            return f"`{_name(message)}`"


def _name(message: ServerMessage) -> str:
    """An error is named by its code, everything else by its type."""
    wire = message.wire()
    error = wire.get("error")
    if isinstance(error, dict):
        return str(error["code"])
    return str(wire.get("code") or kind_of(message))


if __name__ == "__main__":
    FILE.write_text(render())
