"""The way of messages from a machine to the outbox, for clients that do not come back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from antiphon.edge.transport.connection import Encoding
from antiphon.edge.transport.send_queue import SendQueue
from antiphon.shared_schemas.stream_position import StreamPosition
from antiphon.shared_schemas.wire import ServerMessage


class Teller(Protocol):
    """Takes what a client is told; every event is closed by `settle`."""

    def tell(self, message: ServerMessage) -> None:
        """One message of the event in hand. Raises SlowConsumer."""
        ...

    def settle(self, heard: StreamPosition | None = None) -> None:
        """The event is complete; it was the output entry at `heard`, or something else."""
        ...

    def flush(self) -> None:
        """The session is over: what was told goes out whatever happens."""
        ...

    async def room(self) -> None:
        """Return once more may be told."""
        ...


class PlainTeller:
    """Sends at once; the first message also says what the server can do, where that was asked."""

    def __init__(
        self, outbox: SendQueue, form: Encoding, capabilities: dict[str, Any] | None
    ) -> None:
        self._outbox = outbox
        self._form = form
        self._capabilities = capabilities

    def tell(self, message: ServerMessage) -> None:
        """Send it. Raises SlowConsumer."""
        if self._capabilities is not None:
            message = replace(message, capabilities=self._capabilities)
            self._capabilities = None
        self._outbox.put(self._form.encode(message))

    def settle(self, heard: StreamPosition | None = None) -> None:
        """Nothing was put off."""

    def flush(self) -> None:
        """Nothing was put off."""

    async def room(self) -> None:
        """As the outbox has it."""
        await self._outbox.wait_for_space()
