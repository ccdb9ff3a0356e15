"""Clients that talk over both edges, resume whenever they can, and check each message they receive."""

import asyncio
import base64
import random
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from antiphon.shared_schemas.audio import INPUT_RATE, Samples

CHUNK_MS = 500
_MARKS = 1024
_LEVEL_STEPS = 32767
_REPEATED_REQUEST = ("not_ready", "paused")
_BROKEN = frozenset({None, 1001, 1005, 1006, 1012, 1013, 4409})
"""Close codes after which a client resumes. 4409: an attempt that the client gave up took over."""


def marked_chunk(number: int) -> Samples:
    """Half a second of a constant level that survives the conversion to 16 bits."""
    level = number % _MARKS / _MARKS
    return np.full(INPUT_RATE * CHUNK_MS // 1000, level, np.float32)


def mark_of(level: int) -> int:
    """The number, modulo 1024, of the chunk that has this 16-bit level."""
    return round(level * _MARKS / _LEVEL_STEPS)


class Outcome(StrEnum):
    """How a session ended for its client."""

    STOPPED = "stopped"
    """It received `stopped`, which it had asked for."""
    REPORTED = "reported"
    """It received an error that ends the session."""
    EXPIRED = "expired"
    """Its token was refused."""
    NOT_STARTED = "not started"
    """It never received a token."""


@dataclass(frozen=True)
class ReceivedResult:
    """What a client or a recording has of one result."""

    is_listen: bool
    text: str


class ChaosSession:
    """One full-duplex session of a client. `violations` are the promises that the server has broken."""

    def __init__(
        self,
        sid: str,
        edges: Sequence[str],
        rng: random.Random,
        lasts_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.sid = sid
        self.results: list[ReceivedResult] = []
        self.sent = 0
        self.recording = ""
        self.outcome: Outcome | None = None
        self.code = ""
        """Why it ended early."""
        self.closed_with = ""
        """How its last connection was closed."""
        self.resumes = 0
        self.violations: list[str] = []
        self.longest_silence_s = 0.0
        self.away_s = 0.0
        """How long the last connection has been broken."""
        self.starts_within_s = 3.0
        """A client without a token cannot try again: how long it waits for an edge that is slow."""
        self.pong_within_s = rng.uniform(1.5, 6.0)
        """After this time without an answer to a ping it resumes. It does not repeat its last audio."""
        self._edges = edges
        self._rng = rng
        self._lasts_s = lasts_s
        self._tls = tls
        self._token = ""
        self._last = 0
        self._attempts = 0
        self._connected = False
        self._granted = asyncio.Event()
        self._prepared = asyncio.Event()
        self._last_message_at = time.monotonic()

    async def run(self, over: asyncio.Event) -> None:
        """Ends with `stop` after its time, or when the run is over."""
        edge = self._rng.randrange(len(self._edges))
        broken_at = time.monotonic()
        while self.outcome is None:
            self._connected = False
            try:
                await self._connect(self._edges[edge % len(self._edges)], over)
            except (OSError, InvalidHandshake, TimeoutError) as error:
                self.closed_with = f"{type(error).__name__}: {error}"
            if self._connected:
                broken_at = time.monotonic()
            self.away_s = time.monotonic() - broken_at
            if self.outcome is None and not self._token:
                self.outcome, self.code = Outcome.NOT_STARTED, self.closed_with
            edge += 1
            await asyncio.sleep(self._rng.uniform(0.05, 0.4))

    def _url(self, base: str) -> str:
        path, _, query = self._path.partition("?")
        url = f"{base}{path}?resume=1&{query}"
        if not self._token:
            return url
        self._attempts += 1
        return f"{url}&resume_token={self._token}&seq={self._last}&attempt={self._attempts}"

    @property
    def _path(self) -> str:
        return f"/ws/duplex/{self.sid}"

    async def _connect(self, base: str, over: asyncio.Event) -> None:
        opens_within_s = 3.0 if self._token else self.starts_within_s
        keep_alive = {"ping_interval": 1.0, "ping_timeout": self.pong_within_s}
        quick = {
            "open_timeout": opens_within_s,
            "close_timeout": 0.5,
            "compression": None,
            "proxy": None,
        }
        quick |= {"max_size": None, "ssl": self._tls}
        async with connect(self._url(base), **keep_alive, **quick) as socket:
            sending = asyncio.create_task(self._send(socket, over))
            try:
                async for frame in socket:
                    self._take(orjson.loads(frame))
                    if self.outcome is not None:
                        return
            except ConnectionClosed as error:
                self.closed_with = str(error)
            else:
                self.closed_with = f"{socket.close_code} {socket.close_reason}"
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
            self._closed(socket)

    def _closed(self, socket: ClientConnection) -> None:
        if socket.close_code == 4410:
            self.outcome = Outcome.EXPIRED
        elif socket.close_code not in _BROKEN:
            self.code = f"{socket.close_code} {socket.close_reason}"
            self.outcome = Outcome.REPORTED
            self._violation(f"closed with {self.code} and no message")

    def _take(self, message: dict[str, Any]) -> None:
        now = time.monotonic()
        if self._prepared.is_set():
            self.longest_silence_s = max(self.longest_silence_s, now - self._last_message_at)
        self._last_message_at = now
        self._token = message.get("resume_token", self._token)
        if not self._connected and message["type"] == "resumed":
            self._connected = True
            self.resumes += 1
            self._expect("resumed", message["seq"], self._last)
            return
        if "seq" in message:
            self._connected = True
            if message["seq"] <= self._last:
                self._violation(f"{message['type']} has the number {message['seq']} again")
            self._last = message["seq"]
        elif message["type"] == "error" and not self._connected:
            return  # a refusal of this connection
        self._connected = True
        self._take_message(message)

    def _take_message(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "queue_done":
                self._granted.set()
            case "prepared":
                self.recording = message["recording_session_id"]
                self._prepared.set()
            case "result":
                self.results.append(ReceivedResult(message["is_listen"], message["text"]))
                expected = CHUNK_MS * len(self.results)
                self._expect("current_time", message["current_time"], expected)
            case "stopped":
                self.outcome = Outcome.STOPPED
            case "error" if message["code"] not in _REPEATED_REQUEST:
                self.outcome, self.code = Outcome.REPORTED, message["code"]
            case _:
                pass

    async def _send(self, socket: ClientConnection, over: asyncio.Event) -> None:
        """Repeats a request after each resume until it has its answer. Audio is not repeated."""
        with suppress(ConnectionClosed):
            await self._granted.wait()
            if not self._prepared.is_set():
                await self._prepare(socket)
                await self._prepared.wait()
            await self._talk(socket, over)
            await self._stop(socket)

    async def _prepare(self, socket: ClientConnection) -> None:
        await self._message(socket, "prepare", config={"force_listen_count": 1})

    async def _talk(self, socket: ClientConnection, over: asyncio.Event) -> None:
        ends_at = time.monotonic() + self._lasts_s
        while not over.is_set() and time.monotonic() < ends_at:
            self.sent += 1
            sound = marked_chunk(self.sent).astype("<f4").tobytes()
            await self._append(socket, base64.b64encode(sound).decode())
            pause_s = self._rng.uniform(0.7, 1.3) * CHUNK_MS / 1000
            self._lasts_s -= pause_s
            await asyncio.sleep(pause_s)

    async def _append(self, socket: ClientConnection, audio: str) -> None:
        await self._message(socket, "audio_chunk", audio=audio)

    async def _stop(self, socket: ClientConnection) -> None:
        await self._message(socket, "stop")

    @staticmethod
    async def _message(socket: ClientConnection, kind: str, **fields: Any) -> None:
        await socket.send(orjson.dumps({"type": kind, **fields}).decode())

    def _expect(self, what: str, actual: object, expected: object) -> None:
        if actual != expected:
            self._violation(f"{what} is {actual}, expected {expected}")

    def _violation(self, text: str) -> None:
        self.violations.append(f"{self.sid}: {text}")


async def keep_talking(
    name: str, edges: Sequence[str], rng: random.Random, over: asyncio.Event
) -> list[ChaosSession]:
    """One session after another until the run is over."""
    sessions: list[ChaosSession] = []
    while not over.is_set():
        sid = f"adx_{name}_{len(sessions) + 1}"
        sessions.append(ChaosSession(sid, edges, rng, lasts_s=rng.uniform(4.0, 20.0)))
        await sessions[-1].run(over)
    return sessions
