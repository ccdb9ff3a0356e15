"""The decoder and the machine of OpenAI's Realtime API, without a connection and without a worker."""

import asyncio
import json
from typing import Any

from antiphon.edge.errors import explain
from antiphon.edge.protocols.machine import Action, Forward, Send
from antiphon.edge.protocols.openai_realtime.decoder import Engines, OpenAiRealtimeDecoder
from antiphon.edge.protocols.openai_realtime.machine import OpenAiRealtimeMachine
from antiphon.edge.protocols.openai_realtime.settings import RealtimeState, new_session
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.entries import InEntry, OutEntry
from antiphon.shared_schemas.errors import InvalidInput


class RealtimeClient:
    """A decoder and a machine. The answers of `send` are the events for the client."""

    def __init__(self, **session: Any) -> None:
        self.state = RealtimeState(new_session("sess_1", "m", 1, **session))
        self.engines = Engines(known=False, voices=frozenset())
        self.decoder = OpenAiRealtimeDecoder(
            EdgeSettings(),
            None,  # type: ignore[arg-type]  # no test names an uploaded voice
            self.state,
            self._engines,
        )
        self.machine = OpenAiRealtimeMachine(self.state, 0.0, 3600.0)
        self.forwarded: list[InEntry] = []

    async def _engines(self) -> Engines:
        return self.engines

    def send(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        frame = json.dumps({"type": kind, **fields})
        try:
            command = asyncio.run(self.decoder.decode(frame))
            return self.take(self.machine.receive(command))
        except InvalidInput as error:
            return self.take(self.machine.report(explain(error)))

    def deliver(self, entry: OutEntry) -> list[dict[str, Any]]:
        return self.take(self.machine.deliver(entry, 0.0))

    def grant(self) -> list[InEntry]:
        self.take(self.machine.granted())
        taken, self.forwarded = self.forwarded, []
        return taken

    def take(self, actions: Any) -> list[dict[str, Any]]:
        events = []
        action: Action
        for action in actions:
            if isinstance(action, Send):
                events.append(action.message.wire())
            elif isinstance(action, Forward):
                self.forwarded.append(action.entry)
        return events

    def update(self, **fields: Any) -> list[dict[str, Any]]:
        return self.send("session.update", session={"type": "realtime", **fields})
