"""A full-duplex conversation over `/ws/duplex/{session_id}`: speak and listen at the same time.

async with connect_duplex("ws://127.0.0.1:8006") as session:
    await session.wait_for_turn(lambda place: print(f"number {place.position} in the queue"))
    await session.prepare("You are a fun assistant.")
    await session.send_audio(one_second)          # float32, 16 kHz; again every second
    async for unit in session.results():          # usually in a task of its own
        play(unit.audio)                          # float32, 24 kHz
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal

import orjson
import pybase64
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from client.address import duplex_url, is_loopback, new_session_id
from client.errors import CannotConnect, DuplexError
from client.inbox import Inbox, Reply, Unit
from shared_schemas.audio import Samples, float_bytes
from shared_schemas.client_messages import DEFAULT_SYSTEM_PROMPT
from shared_schemas.config import DuplexConfig
from shared_schemas.server_messages import Paused, Prepared, Queued, Resumed, Stopped

__all__ = ["DuplexSession", "Unit", "connect_duplex"]

_MAX_MESSAGE = 16 * 1024 * 1024
_GOODBYE_S = 2.0


class DuplexSession:
    """One connected session. Made by `connect_duplex`; any call may raise ServerError or SessionOver."""

    def __init__(self, socket: ClientConnection, session_id: str) -> None:
        self.session_id = session_id
        self.prepared: Prepared | None = None
        self._socket = socket
        self._inbox = Inbox(socket)

    @property
    def ended_by(self) -> Literal["stopped", "timeout"] | None:
        """How the server ended the session, once it has."""
        return self._inbox.ended_by

    async def queue(self) -> AsyncIterator[Queued]:
        """Places in the queue as they change; ends when a worker holds the session."""
        async for place in self._inbox.places():
            yield place

    async def wait_for_turn(self, on_update: Callable[[Queued], None] | None = None) -> None:
        """Return when a worker holds the session; `on_update` hears of every place before that."""
        async for place in self.queue():
            if on_update is not None:
                on_update(place)

    async def prepare(
        self,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        config: DuplexConfig | None = None,
        *,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
        ref_audio_path: str | None = None,
    ) -> Prepared:
        """Initialise the session; may be called while it still waits in the queue.

        The references are float32 mono at 16 kHz: the voice to speak with.
        """
        message: dict[str, Any] = {
            "type": "prepare",
            "prefix_system_prompt": system_prompt,
            "config": (config or DuplexConfig()).model_dump(),
        }
        references = {"ref_audio_base64": ref_audio, "tts_ref_audio_base64": tts_ref_audio}
        message |= {name: _base64(pcm) for name, pcm in references.items() if pcm is not None}
        if ref_audio_path is not None:
            message["ref_audio_path"] = ref_audio_path
        self.prepared = await self._request(message, Prepared)
        return self.prepared

    async def send_audio(
        self, samples: Samples, *, frames: Sequence[bytes] = (), force_listen: bool = False
    ) -> float:
        """Send one chunk (float32 mono 16 kHz) with its JPEG frames; returns `time.monotonic()` before."""
        sent_at = time.monotonic()
        message: dict[str, Any] = {"type": "audio_chunk", "audio": _base64(samples)}
        if frames:
            message["frame_base64_list"] = [pybase64.b64encode_as_string(f) for f in frames]
        if force_listen:
            message["force_listen"] = True
        await self._send(message)
        return sent_at

    async def send_diagnostic(self, metrics: dict[str, Any]) -> None:
        """Figures measured here; the server keeps them with the recording."""
        await self._send({"type": "client_diagnostic", "metrics": metrics})

    async def results(self) -> AsyncIterator[Unit]:
        """Units as they come, until the session has ended.

        Raises ServerError for each error that no other call was waiting for (call again to go on),
        and SessionOver when the connection broke.
        """
        async for unit in self._inbox.units():
            yield unit

    async def pause(self, timeout_s: float | None = None) -> Paused:
        """Rest for at most `timeout_s` (default: the server's). Send no audio until `resume`."""
        message: dict[str, Any] = {"type": "pause"}
        if timeout_s is not None:
            message["timeout"] = timeout_s
        return await self._request(message, Paused)

    async def resume(self) -> Resumed:
        """Go on after a pause."""
        return await self._request({"type": "resume"}, Resumed)

    async def stop(self) -> Stopped:
        """End the session; what was still to come remains readable from `results`."""
        return await self._request({"type": "stop"}, Stopped)

    async def close(self) -> None:
        """Say `stop` if the session still runs, and close the connection."""
        with suppress(DuplexError, TimeoutError):  # the server may have been quicker, or be gone
            async with asyncio.timeout(_GOODBYE_S):
                await self.stop()
        await self._socket.close()

    async def listen(self) -> None:
        """Read the socket until it closes; `connect_duplex` runs this in a task."""
        await self._inbox.listen()

    async def _request(self, message: dict[str, Any], kind: type[Reply]) -> Reply:
        with self._inbox.reply(kind) as answer:
            await self._send(message)
            return await answer

    async def _send(self, message: dict[str, Any]) -> None:
        if self._inbox.over is not None:
            raise self._inbox.over
        try:
            await self._socket.send(orjson.dumps(message), text=True)
        except ConnectionClosed:
            raise self._inbox.farewell() from None


@asynccontextmanager
async def connect_duplex(
    url: str,
    *,
    session_id: str | None = None,
    video: bool = False,
    timing: bool = False,
    api_key: str | None = None,
    tls: ssl.SSLContext | None = None,
    open_timeout_s: float = 10.0,
) -> AsyncIterator[DuplexSession]:
    """Connect to an edge such as `ws://127.0.0.1:8006`; leaving the block ends the session.

    `video` asks for the kind that takes frames (ignored with a `session_id` of your own); `timing`
    for the milliseconds of each hop in every result; `api_key` is what an edge with keys asks for.
    Raises CannotConnect.
    """
    sid = session_id or new_session_id(video=video)
    address = duplex_url(url, sid, timing=timing)
    session = DuplexSession(await _open(address, api_key, tls, open_timeout_s), sid)
    reader = asyncio.create_task(session.listen(), name=f"duplex-{sid}")
    try:
        yield session
    finally:
        await session.close()
        reader.cancel()
        await asyncio.wait([reader])


async def _open(
    address: str, api_key: str | None, tls: ssl.SSLContext | None, open_timeout_s: float
) -> ClientConnection:
    try:
        return await connect(
            address,
            ssl=tls,
            additional_headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
            compression=None,
            max_size=_MAX_MESSAGE,
            open_timeout=open_timeout_s,
            close_timeout=_GOODBYE_S,
            proxy=None if is_loopback(address) else True,
        )
    except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
        raise CannotConnect(f"cannot connect to {address}: {error}") from error


def _base64(samples: Samples) -> str:
    return pybase64.b64encode_as_string(float_bytes(samples))
