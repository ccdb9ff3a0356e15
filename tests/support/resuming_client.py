"""A client that resumes: it keeps every numbered message, and its newest token."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import connect

from support.raw_client import PATIENCE_S, Wire

_OF_THE_MOMENT = ("server_send_ts", "resume_token", "timing")
"""Fields that may differ when a message is sent again."""


def content(message: dict[str, Any]) -> dict[str, Any]:
    """A message without the fields that change when it is sent again."""
    return {name: value for name, value in message.items() if name not in _OF_THE_MOMENT}


class Resumer(Wire):
    """One client over several sockets. Asserts that the numbers grow, and that a number means one message."""

    def __init__(self, path: str, tls: ssl.SSLContext | None = None) -> None:
        self.received: dict[int, dict[str, Any]] = {}
        self.token = ""
        self.last = 0
        self._path = path
        self._tls = tls

    def _url(self, base: str, **query: object) -> str:
        more = "&".join(f"{name}={value}" for name, value in query.items())
        return f"{base}{self._path}{'&' if '?' in self._path else '?'}{more}"

    @asynccontextmanager
    async def connected(self, base: str) -> AsyncIterator[None]:
        async with self._open(self._url(base, resume=1)):
            yield

    @asynccontextmanager
    async def back(
        self, base: str, *, seq: int | None = None, token: str | None = None, attempt: int = 0
    ) -> AsyncIterator[dict[str, Any]]:
        """Opens another socket that resumes after `seq` (default: the last message); yields the `resumed`."""
        after = self.last if seq is None else seq
        query = {"resume": 1, "resume_token": token or self.token, "seq": after}
        if attempt:
            query["attempt"] = attempt
        async with self._open(self._url(base, **query)):
            resumed = await self.receive()
            assert resumed["type"] == "resumed", resumed
            assert resumed["seq"] == after
            assert resumed["resume_token"] not in ("", query["resume_token"])
            self.last = after
            yield resumed

    @asynccontextmanager
    async def _open(self, url: str) -> AsyncIterator[None]:
        how = {"max_size": None, "compression": None, "proxy": None, "ssl": self._tls}
        patient = {"open_timeout": PATIENCE_S, "ping_interval": None}
        async with connect(url, **how, **patient) as socket:
            self.socket = socket
            try:
                yield
            finally:
                socket.transport.abort()  # a normal close would end the session

    async def receive(self) -> dict[str, Any]:
        """One message, unchecked; stores its token."""
        message = await super().message()
        self.token = message.get("resume_token", self.token)
        return message

    async def message(self) -> dict[str, Any]:
        """The next message: newer than the last one, and equal to the earlier one with its number."""
        while (message := await self.receive()).get("position") == 0 or message.get("stale"):
            pass  # the present, which is stated after each resume, or is not known
        if "seq" not in message:
            return message
        seq = message["seq"]
        assert seq > self.last, (self.last, message)
        assert content(self.received.get(seq, message)) == content(message)
        self.received[seq], self.last = message, seq
        return message
