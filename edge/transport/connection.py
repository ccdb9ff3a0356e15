"""A client's connection as sessions use it, and the encoding of its frames."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from antiphon.edge.errors import CLOSE_REASONS, ClientGone, Close
from antiphon.edge.json_text import ClientFrame
from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.wire import (
    BINARY_PROTOCOL,
    PLAIN_PROTOCOL,
    ServerMessage,
    TextParts,
    encode_binary,
    encode_text,
)

ServerFrame = str | TextParts | bytes
"""A text message, or a binary one."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How messages become frames: JSON text, or binary frames if they carry audio."""

    binary: bool = False
    encode: Callable[[ServerMessage], ServerFrame] = encode_text


JSON = Encoding()


def choose_subprotocol(offered: Sequence[str]) -> str | None:
    """The subprotocol to accept; never the one that carries the client's key."""
    return next((name for name in (BINARY_PROTOCOL, PLAIN_PROTOCOL) if name in offered), None)


def choose_encoding(subprotocol: str | None, pcm: str | None) -> Encoding:
    """The encoding for a subprotocol and the value of `?pcm=`. Raises InvalidInput."""
    binary = subprotocol == BINARY_PROTOCOL
    if pcm is not None and (pcm not in tuple(PcmFormat) or not binary):
        text = f"pcm: must be one of {', '.join(PcmFormat)}, and goes with {BINARY_PROTOCOL} only"
        raise InvalidInput(text, field="pcm")
    if not binary:
        return JSON
    return Encoding(binary=True, encode=partial(encode_binary, pcm=PcmFormat(pcm or PcmFormat.F32)))


class ClientConnection(Protocol):
    """What a session needs of a connection. `receive`, `send` and `close` raise ClientGone."""

    encoding: Encoding

    async def receive(self) -> ClientFrame: ...

    async def send(self, frame: ServerFrame) -> None: ...

    def send_now(self, frame: ServerFrame) -> bool:
        """Send at once; False if the frame must be queued, because earlier ones are not sent yet."""
        ...

    async def close(self, code: Close) -> None: ...

    def force_close(self, code: Close, reason: str) -> None:
        """Close at once, even if the client does not read."""
        ...

    def probe(self, answered: Callable[[], None]) -> None:
        """Call `answered` once the client has read everything sent so far."""
        ...


class SocketConnection:
    """An accepted WebSocket. Every coroutine raises ClientGone once the client has left."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        state = socket.scope["state"]
        self._receive_frame: Callable[..., Coroutine[Any, Any, ClientFrame]] = state[
            "receive_frame"
        ]
        self.send_now: Callable[[ServerFrame], bool] = state["send_now"]
        self.force_close: Callable[[Close, str], None] = state["force_close"]
        self.probe: Callable[[Callable[[], None]], None] = state["probe"]
        self._use(JSON)

    def choose_encoding(self) -> None:
        """Use the encoding that the client asks for in its URL and by its subprotocol. Raises InvalidInput."""
        offered = self._socket.scope.get("subprotocols", ())
        pcm = self._socket.query_params.get("pcm")
        self._use(choose_encoding(choose_subprotocol(offered), pcm))

    def _use(self, encoding: Encoding) -> None:
        self.encoding = encoding
        self.receive = partial(self._receive_frame, binary=encoding.binary)
        """See `EdgeWebSocketProtocol.receive_frame`."""

    async def send(self, frame: ServerFrame) -> None:
        """Returns once the socket's buffer has space again; a slow client delays it no longer."""
        if isinstance(frame, TextParts):
            frame = frame.text()
        kind = "text" if isinstance(frame, str) else "bytes"
        try:
            await self._socket.send({"type": "websocket.send", kind: frame})
        except WebSocketDisconnect:
            raise ClientGone from None

    async def close(self, code: Close) -> None:
        """Close after everything that was sent."""
        try:
            await self._socket.close(code, CLOSE_REASONS.get(code))
        except WebSocketDisconnect:
            raise ClientGone from None
