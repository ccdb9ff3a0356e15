"""A conversation in turns over `/ws/half_duplex/{session_id}`: the server detects the end of your speech.

async with connect_half_duplex("ws://127.0.0.1:8006") as session:
    await session.wait_for_turn()
    await session.prepare("You are a fun assistant.")
    await session.send_audio(half_a_second)       # float32, 16 kHz; again and again
    async for event in session.events():          # usually in a separate task
        match event:
            case Piece(): play(event.audio)       # float32, 24 kHz; send nothing while it plays
            case TurnDone(): print(event.text)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Unpack

from antiphon.client.link import (
    ClientOptions,
    Link,
    checked_session_id,
    new_session_id,
    open_link,
    with_options,
)
from antiphon.client.parsing import Parser
from antiphon.client.results import Piece
from antiphon.client.session import Session, config_fields, run_session
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT
from antiphon.shared_schemas.messages.half_duplex import (
    Generating,
    HalfDuplexPrepared,
    HalfDuplexServerMessage,
    TurnDone,
    VadState,
)
from antiphon.shared_schemas.wire import Queued, Stopped

__all__ = [
    "Event",
    "Generating",
    "HalfDuplexSession",
    "Piece",
    "TurnDone",
    "VadState",
    "connect_half_duplex",
]

Event = VadState | Generating | Piece | TurnDone

PARSER = Parser(HalfDuplexServerMessage)


class HalfDuplexSession(Session[Queued, Event]):
    """One connected session. `connect_half_duplex` creates it; calls may raise ServerError or SessionOver."""

    def __init__(self, link: Link, session_id: str) -> None:
        super().__init__(link, PARSER)
        self.session_id = session_id
        self.prepared: HalfDuplexPrepared | None = None

    @property
    def recording_id(self) -> str | None:
        """Id of the server's recording, after `prepare`."""
        return self.prepared.recording_session_id if self.prepared else None

    async def prepare(
        self,
        system: str | Sequence[str | Samples] = DEFAULT_SYSTEM_PROMPT,
        config: HalfDuplexConfig | Mapping[str, Any] | None = None,
        *,
        greeting: str = "",
        ref_audio: Samples | None = None,
    ) -> HalfDuplexPrepared:
        """Initialise the session; also possible while it waits in the queue.

        `config` has the settings of the protocol. `greeting` is what the model says before the user
        speaks. `system` is a text, or texts and sounds in a row. Sounds are float32 mono at 16 kHz. The
        first one is the voice to speak with, unless `ref_audio` is.
        """
        fields = config_fields(config or HalfDuplexConfig())
        if greeting:
            fields["greeting"] = greeting
        message: dict[str, Any] = {"type": "prepare", "config": fields}
        if isinstance(system, str):
            message["system_prompt"] = system
        else:
            message["system_content"] = [self._part(part) for part in system]
        if ref_audio is not None:
            message["ref_audio_base64"] = self._sound(ref_audio)
        self.prepared = await self._request(message, HalfDuplexPrepared)
        return self.prepared

    async def send_audio(self, samples: Samples) -> None:
        """Send microphone audio (float32 mono 16 kHz) of any length that the edge takes, by default 5 s.

        Raises InvalidAudio.
        """
        await self._send({"type": "audio_chunk", "audio_base64": self._sound(samples, "chunk_s")})

    async def stop(self) -> Stopped:
        """End the session."""
        return await self._request({"type": "stop"}, Stopped)

    def _part(self, part: str | Samples) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        return {"type": "audio", "data": self._sound(part)}


@with_options
@asynccontextmanager
async def connect_half_duplex(
    url: str, *, session_id: str | None = None, **how: Unpack[ClientOptions]
) -> AsyncIterator[HalfDuplexSession]:
    """Connect to an edge such as `ws://127.0.0.1:8006`; leaving the block ends the session.

    Raises CannotConnect.
    """
    sid = checked_session_id(session_id) or new_session_id("hdx")
    link = await open_link(url, f"/ws/half_duplex/{sid}", how, capabilities="1")
    async with run_session(HalfDuplexSession(link, sid)) as session:
        yield session
