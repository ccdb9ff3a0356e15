"""A client's connection as sessions use it, and the encoding of its frames."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from antiphon.edge.errors import CLOSE_REASONS, ClientGone, Close
from antiphon.edge.json_text import ClientFrame
from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.wire import (
    BINARY_PROTOCOL,
    MAP_PROTOCOL,
    OPENAI_PROTOCOL,
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


def choose_subprotocol(offered: Sequence[str], own: Sequence[str] = ()) -> str | None:
    """The subprotocol to accept; never the one that carries the client's key."""
    known = (*own, BINARY_PROTOCOL, PLAIN_PROTOCOL, MAP_PROTOCOL, OPENAI_PROTOCOL)
    return next((name for name in known if name in offered), None)


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


class SocketControls(Protocol):
    """What ASGI lacks: the methods of `EdgeWebSocketProtocol`, which is `scope["state"]["controls"]`."""

    @property
    def closed_normally(self) -> bool: ...

    async def receive_frame(self, *, binary: bool) -> ClientFrame: ...

    def send_now(self, frame: ServerFrame) -> bool: ...

    def force_close(self, code: int, reason: str) -> None: ...

    def probe(self, answered: Callable[[], None]) -> None: ...


class SocketConnection:
    """An accepted WebSocket. Every coroutine raises ClientGone once the client has left."""

    def __init__(self, socket: WebSocket) -> None:
        self.encoding = JSON
        self._socket = socket
        self._controls: SocketControls = socket.scope["state"]["controls"]

    def choose_encoding(self) -> None:
        """Use the encoding that the client asks for in its URL and by its subprotocol. Raises InvalidInput."""
        offered = self._socket.scope.get("subprotocols", ())
        pcm = self._socket.query_params.get("pcm")
        self.encoding = choose_encoding(choose_subprotocol(offered), pcm)

    async def receive(self) -> ClientFrame:
        return await self._controls.receive_frame(binary=self.encoding.binary)

    def send_now(self, frame: ServerFrame) -> bool:
        return self._controls.send_now(frame)

    def force_close(self, code: Close, reason: str) -> None:
        self._controls.force_close(code, reason)

    def probe(self, answered: Callable[[], None]) -> None:
        self._controls.probe(answered)

    async def send(self, frame: ServerFrame) -> None:
        """Returns once the socket's buffer has space again; a slow client delays it no longer."""
        if isinstance(frame, TextParts):
            frame = frame.text()
        kind = "text" if isinstance(frame, str) else "bytes"
        try:
            await self._socket.send({"type": "websocket.send", kind: frame})
        except WebSocketDisconnect:
            raise ClientGone(normal=self._controls.closed_normally) from None

    async def close(self, code: Close) -> None:
        """Close after everything that was sent."""
        try:
            await self._socket.close(code, CLOSE_REASONS.get(code))
        except WebSocketDisconnect:
            raise ClientGone(normal=self._controls.closed_normally) from None
