"""A link that comes back to its session when the connection breaks, through whichever edge answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from antiphon.client.errors import CannotConnect
from antiphon.client.link import Link
from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.binary_frames import split_frame

_PAUSES_S = (0.1, 0.3, 0.5, 1.0)
"""Between two attempts; the last one again and again."""

_BROKEN = frozenset({None, 1005, 1006, 1001, 1012})
"""Close codes of a broken link and of an edge that leaves; all others mean what they say."""

_EXPIRED = 4410
_NOT_NOW = ("not_ready", "paused")

Reopen = Callable[[str, int], Awaitable[ClientConnection]]
"""Opens a new socket to the session, given a token and the number of the last message."""


class ResumingLink(Link):
    """Looks like one connection. While it is broken, sending waits, and nothing comes."""

    resumes = True

    def __init__(
        self, socket: ClientConnection, pcm: PcmFormat, reopen: Reopen, patience_s: float
    ) -> None:
        super().__init__(socket, pcm)
        self._reopen = reopen
        self._patience_s = patience_s
        self._token = ""
        self._seq = 0
        self._asked: Mapping[str, Any] | None = None
        self._asked_twice = False
        self._over = False
        self._connected = asyncio.Event()
        self._connected.set()

    async def frames(self) -> AsyncIterator[str | bytes]:
        """Every frame once, in order, until the session is over or cannot be come back to."""
        while True:
            with suppress(ConnectionClosed):
                async for frame in self.socket:
                    if self._is_news(frame):
                        yield frame
            if not await self._come_back():
                self._over = True
                self._connected.set()
                return

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send one message, perhaps later. Raises ConnectionClosed once it is over."""
        while True:
            await self._connected.wait()
            socket = self.socket
            try:
                return await super().send(message)
            except ConnectionClosed:
                if self._over:
                    raise
                if socket is self.socket:
                    self._connected.clear()

    async def ask(self, message: Mapping[str, Any]) -> None:
        """Send what will be answered; asked again where the link breaks before it is."""
        self._asked = message
        await self.send(message)

    def answered(self) -> None:
        """No need to ask again."""
        self._asked = None

    async def close(self) -> None:
        """For good."""
        self._over = True
        await super().close()

    def _note(self, frame: str | bytes) -> dict[str, Any]:
        """A frame's message, whose number and token count from now on."""
        header = frame if isinstance(frame, str) else split_frame(frame)[0]
        message: dict[str, Any] = orjson.loads(header)
        self._seq = message.get("seq", self._seq)
        self._token = message.get("resume_token", self._token)
        return message

    def _is_welcome(self, frame: str | bytes) -> bool:
        kind: str = self._note(frame)["type"]
        return kind == "resumed"

    def _is_news(self, frame: str | bytes) -> bool:
        """False for the complaint that something was asked twice."""
        message = self._note(frame)
        if not (self._asked_twice and message["type"] == "error"):
            return True
        error = message["error"] if isinstance(message["error"], dict) else message
        self._asked_twice = False
        return error.get("code") not in _NOT_NOW

    async def _come_back(self) -> bool:
        broken = self.socket.close_code in _BROKEN or self.socket.close_reason == "slow_consumer"
        if self._over or not self._token or not broken:
            return False
        self._connected.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                for attempt in range(10_000):
                    if (resumed := await self._attempt()) is not None:
                        return resumed
                    await asyncio.sleep(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)])
        return False

    async def _attempt(self) -> bool | None:
        """True when the session is ours again, False when it is gone for good."""
        socket: ClientConnection | None = None
        try:
            socket = await self._reopen(self._token, self._seq)
            if not self._is_welcome(await socket.recv()):
                await socket.close()
                return None
            if self._asked is not None:
                self._asked_twice = True
                await self._pass_on(socket, self._asked)
        except CannotConnect:
            return None
        except ConnectionClosed:
            if socket is None or socket.close_code != _EXPIRED:
                return None
            self.socket = socket
            return False
        self.socket = socket
        self._connected.set()
        return True
