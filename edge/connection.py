"""One accepted WebSocket in plain verbs, and how its messages lie in frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from antiphon.edge.errors import ClientGone, NotJson
from antiphon.edge.protocols.contract import CLOSE_REASONS, Close
from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.binary_frames import BINARY_PROTOCOL, PLAIN_PROTOCOL
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.wire import ServerMessage, encode, encode_binary


@dataclass(frozen=True, slots=True)
class Form:
    """JSON text only, or binary frames too, with what is said in the format `pcm`."""

    binary: bool = False
    pcm: PcmFormat = PcmFormat.F32

    def encode(self, message: ServerMessage) -> str | bytes:
        """One message as one frame."""
        return encode_binary(message, self.pcm) if self.binary else encode(message)


PLAIN = Form()


def choose_protocol(offered: Sequence[str]) -> str | None:
    """The subprotocol that a client gets: never the one that carries its key."""
    return next((name for name in (BINARY_PROTOCOL, PLAIN_PROTOCOL) if name in offered), None)


def read_form(protocol: str | None, pcm: str | None) -> Form:
    """The form that a client chose by subprotocol and `?pcm=`. Raises InvalidInput."""
    binary = protocol == BINARY_PROTOCOL
    if pcm is None:
        return Form(binary)
    if pcm not in tuple(PcmFormat) or not binary:
        text = f"pcm: must be one of {', '.join(PcmFormat)}, and goes with {BINARY_PROTOCOL} only"
        raise InvalidInput(text, field="pcm")
    return Form(binary, PcmFormat(pcm))


class Line(Protocol):
    """What a session asks of its client's connection."""

    form: Form

    async def receive(self) -> str | bytes:
        """The next frame. Raises ClientGone."""
        ...

    async def send(self, frame: str | bytes) -> None:
        """Raises ClientGone."""
        ...

    async def close(self, code: Close) -> None:
        """Raises ClientGone."""
        ...

    def force_close(self, code: Close, reason: str) -> None:
        """At once, whatever was not read."""
        ...

    def probe(self, answered: Callable[[], None]) -> None:
        """Call back once the client has read all that was sent so far."""
        ...


class Connection:
    """Frames in, frames out. Every call raises ClientGone once the client has left."""

    def __init__(self, socket: WebSocket, form: Form = PLAIN) -> None:
        self.form = form
        self._socket = socket
        self._force_close: Callable[[int, str], None] = socket.scope["state"]["force_close"]
        self._probe: Callable[[Callable[[], None]], None] = socket.scope["state"]["probe"]

    async def receive(self) -> str | bytes:
        """The next frame. Raises NotJson for a binary one where only text was agreed on."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise ClientGone
        text: str | None = message.get("text")
        if text is not None:
            return text
        if not self.form.binary:
            raise NotJson(f"send JSON text, or offer the subprotocol {BINARY_PROTOCOL}")
        return bytes(message["bytes"])

    async def send(self, frame: str | bytes) -> None:
        """Returns once the socket has room again: that is all the waiting a slow client causes."""
        kind = "text" if isinstance(frame, str) else "bytes"
        try:
            await self._socket.send({"type": "websocket.send", kind: frame})
        except WebSocketDisconnect:
            raise ClientGone from None

    async def close(self, code: Close) -> None:
        """Say goodbye behind whatever was sent."""
        try:
            await self._socket.close(code, CLOSE_REASONS.get(code))
        except WebSocketDisconnect:
            raise ClientGone from None

    def force_close(self, code: Close, reason: str) -> None:
        """Close at once; a client that does not read is cut off."""
        self._force_close(code, reason)

    def probe(self, answered: Callable[[], None]) -> None:
        """Call back once the client has read all that was sent so far."""
        self._probe(answered)
