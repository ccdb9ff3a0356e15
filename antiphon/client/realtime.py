"""A full-duplex conversation over `/v1/realtime`.

async with connect_realtime("ws://127.0.0.1:8006", mode="audio") as session:
    await session.wait_for_turn()
    await session.update("You are a fun assistant.")
    await session.append(one_second)              # float32, 16 kHz; again every second
    async for item in session.events():          # usually in a separate task
        if isinstance(item, Spoken):
            play(item.audio)                     # float32, 24 kHz
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Unpack

from antiphon.client.link import ClientOptions, Link, open_link, with_options
from antiphon.client.parsing import Parser
from antiphon.client.results import Spoken
from antiphon.client.session import Session, run_session
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT
from antiphon.shared_schemas.messages.realtime import (
    Listen,
    RealtimeServerEvent,
    SessionClosed,
    SessionCreated,
    SessionQueued,
    SessionQueueUpdate,
)

__all__ = ["Listen", "RealtimeSession", "Spoken", "connect_realtime"]

RealtimePlace = SessionQueued | SessionQueueUpdate
RealtimeItem = Spoken | Listen

PARSER = Parser(RealtimeServerEvent)


class RealtimeSession(Session[RealtimePlace, RealtimeItem]):
    """One connected session. `connect_realtime` creates it; calls may raise ServerError or SessionOver.

    After the server has closed it, `ended_by` is the reason: `stopped`, `timeout`, `context_full`,
    `server_shutdown` or `error`.
    """

    def __init__(self, link: Link) -> None:
        super().__init__(link, PARSER)
        self.created: SessionCreated | None = None

    @property
    def recording_id(self) -> str | None:
        """Id of the server's recording, after `update`."""
        return self.created.recording_session_id if self.created else None

    async def update(
        self,
        instructions: str = DEFAULT_SYSTEM_PROMPT,
        *,
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
        max_slice_nums: int | None = None,
    ) -> SessionCreated:
        """Configure the session once it has its turn. The references are float32 mono at 16 kHz."""
        settings: dict[str, Any] = {"instructions": instructions}
        references = {"ref_audio": ref_audio, "tts_ref_audio": tts_ref_audio}
        sound = self._link.sound
        settings |= {name: sound(pcm) for name, pcm in references.items() if pcm is not None}
        if max_slice_nums is not None:
            settings["max_slice_nums"] = max_slice_nums
        message = {"type": "session.update", "session": settings}
        self.created = await self._request(message, SessionCreated)
        return self.created

    async def append(
        self, samples: Samples, *, frames: Sequence[bytes] = (), force_listen: bool = False
    ) -> None:
        """Send a second of audio (float32 mono 16 kHz, at least 4000 samples) with its JPEG frames."""
        message: dict[str, Any] = {
            "type": "input_audio_buffer.append",
            "audio": self._link.sound(samples),
        }
        if frames:
            message["video_frames"] = list(frames)
        if force_listen:
            message["force_listen"] = True
        await self._send(message)

    async def playback_ack(self, played_ms: float) -> None:
        """As `DuplexSession.playback_ack`; needs `connect_realtime(..., playback_ack=True)`."""
        await self._send({"type": "output_audio_buffer.playback_ack", "played_ms": played_ms})

    async def stop(self, reason: str = "user_stop") -> SessionClosed:
        """End the session."""
        return await self._request({"type": "session.close", "reason": reason}, SessionClosed)


@with_options
@asynccontextmanager
async def connect_realtime(
    url: str,
    *,
    mode: Literal["video", "audio"] = "video",
    playback_ack: bool = False,
    **how: Unpack[ClientOptions],
) -> AsyncIterator[RealtimeSession]:
    """Connect to an edge such as `ws://127.0.0.1:8006`; leaving the block ends the session.

    Raises CannotConnect.
    """
    asked = "1" if playback_ack else None
    link = await open_link(url, "/v1/realtime", how, mode=mode, notices="1", playback_ack=asked)
    async with run_session(RealtimeSession(link)) as session:
        yield session
