"""Writes docs/message-table.md from the edge's decoders and machines.

`PYTHONPATH=tests python -m support.message_table` writes the file.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from antiphon.edge.protocols.machine import Action, Finish, Forward, Send
from antiphon.shared_schemas.wire import ServerMessage
from support.chat_mode_samples import CHAT_MODE
from support.protocol_driver import Frame, Protocol
from support.protocol_samples import PROTOCOLS

TABLE = PROTOCOLS | {CHAT_MODE.name: CHAT_MODE}
FILE = Path(__file__).parents[2] / "docs" / "message-table.md"

_HEAD = """# Message × state

What the edge answers to every message of a client in every state of its session. The states are those that its
errors name. Written by `PYTHONPATH=tests python -m support.message_table`; a test holds every cell.

- *taken*: goes to the worker, which answers later. *kept*: waits for the worker, or a frame for its chunk.
- *ignored*: the session is closing; its client may not have received that yet.
- *→ paused*: the state that follows. Where none is named, nothing changes.
- `not_ready` and other codes: an `error` with that code, after which the session continues, unless a close code
  follows.
- `stopped`, 1000: that message (or an `error` with that code), then the connection closes with this number
  and nothing follows. A number alone closes without a message.

A binary frame that was not agreed on (subprotocol `antiphon.binary.v1`) closes with 1003 in every state.

A session that loses its worker keeps its state. While it waits for another one, the server sends `queue_update`
(`session.queue_update`) and answers every message as in the table.
"""


def render() -> str:
    return asyncio.run(_document())


async def _document() -> str:
    return "\n".join([_HEAD, *[await _section(protocol) for protocol in TABLE.values()]])


async def _section(protocol: Protocol) -> str:
    head = ["message", *protocol.setup]
    lines = [head, ["---"] * len(head)]
    for name, frame in rows(protocol).items():
        lines.append([name, *[await answer(protocol, state, frame) for state in protocol.setup]])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"## `{protocol.path}`{protocol.version}\n\n{table}\n"


def rows(protocol: Protocol) -> dict[str, Frame]:
    """The client's messages, under the names of the table's rows."""
    named = {name if " " in name else f"`{name}`": f for name, f in protocol.messages.items()}
    return {**named, **protocol.mistakes}


async def answer(protocol: Protocol, state: str, frame: Frame) -> str:
    """The result of one message in one state, in a few words."""
    connection = await protocol.at(state)
    actions = await connection.step(frame)
    after = "" if connection.closed or connection.state == state else f" → {connection.state}"
    silent = "ignored" if connection.state in ("closing", "being stopped") else "kept"
    return (", ".join(_word(action) for action in actions) or silent) + after


def _word(action: Action) -> str:
    match action:
        case Forward():
            return "taken"
        case Finish(close=close):
            return str(int(close))
        case Send(message=message):
            return f"`{_name(message)}`"


def _name(message: ServerMessage) -> str:
    """An error is named by its code, everything else by its type."""
    wire = message.wire()
    error = wire.get("error")
    return str(error["code"] if isinstance(error, dict) else wire.get("code", wire["type"]))


if __name__ == "__main__":
    FILE.write_text(render())
