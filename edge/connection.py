"""One accepted WebSocket in plain verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from edge.errors import ClientGone
from edge.protocols.contract import Close


class Line(Protocol):
    """What a session asks of its client's connection."""

    async def receive(self) -> str | bytes:
        """The next frame. Raises ClientGone."""
        ...

    async def send(self, text: str) -> None:
        """Raises ClientGone."""
        ...

    async def close(self, code: Close) -> None:
        """Raises ClientGone."""
        ...

    def force_close(self, code: Close, reason: str) -> None:
        """At once, whatever was not read."""
        ...


class Connection:
    """Frames in, text out. Every call raises ClientGone once the client has left."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._force_close: Callable[[int, str], None] = socket.scope["state"]["force_close"]

    async def receive(self) -> str | bytes:
        """The next frame: text as str, binary as bytes."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise ClientGone
        text: str | None = message.get("text")
        return text if text is not None else bytes(message["bytes"])

    async def send(self, text: str) -> None:
        """Returns once the socket has room again: that is all the waiting a slow client causes."""
        try:
            await self._socket.send({"type": "websocket.send", "text": text})
        except WebSocketDisconnect:
            raise ClientGone from None

    async def close(self, code: Close) -> None:
        """Say goodbye behind whatever was sent."""
        try:
            await self._socket.close(code)
        except WebSocketDisconnect:
            raise ClientGone from None

    def force_close(self, code: Close, reason: str) -> None:
        """Close at once; a client that does not read is cut off."""
        self._force_close(code, reason)
