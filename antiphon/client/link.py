"""The socket to an edge: opened, and spoken over in text or in binary frames."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypedDict

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidURI
from websockets.typing import Subprotocol

from antiphon.client.address import is_loopback
from antiphon.client.errors import CannotConnect
from antiphon.shared_schemas.audio import PcmFormat, Samples, float_bytes, to_pcm16
from antiphon.shared_schemas.binary_frames import BINARY_PROTOCOL, to_frame, to_text
from antiphon.shared_schemas.media import Raw

GOODBYE_S = 2.0
_MAX_MESSAGE = 16 * 1024 * 1024


class Connecting(TypedDict, total=False):
    """How to connect; what every `connect_...` takes beside its own.

    `api_key` is what an edge with keys asks for; `tls` replaces the default checks; `open_timeout_s`
    is 10 by default. `binary` sends media as they are instead of base64, where the edge can do that;
    `pcm` is then the format of sound both ways: 16-bit halves the traffic once more, and rounds it.

    `resume`: when the connection breaks, come back to the session for up to `resume_for_s` (15 by
    default, as the edges wait), through the same edge or one of `other_edges`.
    """

    api_key: str | None
    tls: ssl.SSLContext | None
    open_timeout_s: float
    binary: bool
    pcm: PcmFormat
    resume: bool
    resume_for_s: float
    other_edges: Sequence[str]


class Link:
    """One open socket. `binary` says whether the edge agreed to binary frames."""

    resumes = False

    def __init__(self, socket: ClientConnection, pcm: PcmFormat) -> None:
        self.socket = socket
        self.binary = socket.subprotocol == BINARY_PROTOCOL
        self._pcm = pcm if self.binary else PcmFormat.F32

    def sound(self, samples: Samples) -> Raw:
        """Sound as it is put into a message (float32 mono 16 kHz)."""
        if self._pcm is PcmFormat.S16:
            return Raw(to_pcm16(samples).tobytes(), self._pcm)
        return Raw(float_bytes(samples))

    async def frames(self) -> AsyncIterator[str | bytes]:
        """What comes, until the socket closes. Raises ConnectionClosed if that is no orderly end."""
        async for frame in self.socket:
            yield frame

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send one message; media in it are `Raw` sound or `bytes`. Raises ConnectionClosed."""
        await self._pass_on(self.socket, message)

    async def ask(self, message: Mapping[str, Any]) -> None:
        """Send what will be answered. Raises ConnectionClosed."""
        await self.send(message)

    def answered(self) -> None:
        """What was asked last has its answer, or needs none any more."""

    async def close(self) -> None:
        """Close the socket."""
        await self.socket.close()

    async def _pass_on(self, socket: ClientConnection, message: Mapping[str, Any]) -> None:
        await socket.send(to_frame(message) if self.binary else to_text(message))


async def open_socket(address: str, how: Connecting) -> ClientConnection:
    """Raises CannotConnect."""
    key, tls = how.get("api_key"), how.get("tls")
    own_trust: dict[str, Any] = (
        {} if tls is None else {"ssl": tls}
    )  # None would mean: no TLS at all
    try:
        return await connect(
            address,
            **own_trust,
            additional_headers={"Authorization": f"Bearer {key}"} if key else None,
            subprotocols=[Subprotocol(BINARY_PROTOCOL)] if how.get("binary") else None,
            compression=None,
            max_size=_MAX_MESSAGE,
            open_timeout=how.get("open_timeout_s", 10.0),
            close_timeout=GOODBYE_S,
            proxy=None if is_loopback(address) else True,
        )
    except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
        raise CannotConnect(f"cannot connect to {address}: {error}") from error
