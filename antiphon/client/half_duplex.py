"""A conversation in turns over `/ws/half_duplex/{session_id}`: the server detects the end of your speech.

async with connect_half_duplex("ws://127.0.0.1:8006") as session:
    await session.wait_for_turn()
    await session.prepare("You are a fun assistant.")
    async for event in session.converse(question):  # float32, 16 kHz
        match event:
            case Piece(): play(event.audio)         # float32, 24 kHz
            case Interrupted(): drop_unplayed()
            case TurnDone(): print(event.text)
"""

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

from antiphon.client.arguments import check_json, config_fields, names_setting, sent_text
from antiphon.client.errors import ServerError, SessionOver
from antiphon.client.link import Link, checked_session_id, new_session_id, open_link
from antiphon.client.options import ClientOptions, with_options
from antiphon.client.results import Parser, Piece
from antiphon.client.session import Session, run_session
from antiphon.client.sound import (
    microphone_chunks,
    padded_chunks,
    read_source,
    silence,
)
from antiphon.shared_schemas.audio import INPUT_RATE, OUTPUT_RATE, Samples
from antiphon.shared_schemas.config import HalfDuplexConfig
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT
from antiphon.shared_schemas.messages.half_duplex import (
    Generating,
    HalfDuplexPrepared,
    HalfDuplexServerMessage,
    Interrupted,
    TurnDone,
    VadState,
)
from antiphon.shared_schemas.wire import Queued, Stopped

__all__ = [
    "Event",
    "Generating",
    "HalfDuplexSession",
    "Interrupted",
    "Piece",
    "TurnDone",
    "VadState",
    "connect_half_duplex",
]

Event = VadState | Generating | Piece | TurnDone | Interrupted

PARSER = Parser(HalfDuplexServerMessage)

_CHUNK_S = 0.5
_SHORT_CHUNK_S = 0.2
"""Of a microphone that may interrupt: the end of a chunk decides."""

_FAILED_ANSWER = {ErrorCode.INFERENCE_ERROR, ErrorCode.INVALID_FIELD, ErrorCode.RATE_LIMITED}
"""Codes of the errors that a worker sends in place of an answer, and after which the session continues."""


class HalfDuplexSession(Session[Queued, Event]):
    """One connected session. `connect_half_duplex` creates it; calls may raise ServerError or SessionOver."""

    def __init__(self, link: Link, session_id: str) -> None:
        super().__init__(link, PARSER)
        self.session_id = session_id
        self.prepared: HalfDuplexPrepared | None = None
        self._barge_in = True
        self._playback = _Playback()

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
        barge_in: bool = True,
    ) -> HalfDuplexPrepared:
        """Initialise the session; also possible while it waits in the queue.

        `config` has the settings of the protocol. `greeting` is what the model says before the user
        speaks. `system` is a text, or texts and sounds in a row. Sounds are float32 mono at 16 kHz. The
        first one is the voice to speak with, unless `ref_audio` is. With `barge_in`, unless `config` has
        it, the user's speech ends an answer; set it to False if the microphone hears the loudspeakers.
        """
        fields = config_fields(config, HalfDuplexConfig)
        if greeting is not None and (said := sent_text("greeting", greeting)):
            fields["greeting"] = said
        if not names_setting(config, "barge_in"):
            check_json("barge_in", barge_in)
            fields["barge_in"] = barge_in
        self._barge_in = bool(fields["barge_in"])
        message: dict[str, Any] = {"type": "prepare", "config": fields}
        if isinstance(system, list | tuple):
            message["system_content"] = [
                self._part(part, f"system[{number}]") for number, part in enumerate(system)
            ]
        else:
            message["system_prompt"] = _system_text(system)
        if ref_audio is not None:
            message["ref_audio_base64"] = self._sound(ref_audio, "ref_audio")
        self.prepared = await self._request(message, HalfDuplexPrepared)
        return self.prepared

    async def send_audio(self, samples: Samples) -> None:
        """Send microphone audio (float32 mono 16 kHz) of any length that the edge takes, by default 5 s.

        Raises InvalidAudio.
        """
        await self._send({"type": "audio_chunk", "audio_base64": self._sound(samples)})

    async def converse(
        self, source: str | Path | Samples | AsyncIterable[Samples], *, rate: int = INPUT_RATE
    ) -> AsyncGenerator[Event, None]:
        """Send audio in real time and yield the events, until the session ends.

        `source` is a recording (a sound file or an array), or pieces of any length as a microphone
        yields them. Silence follows its end. While an answer is generated and played, a recording pauses.
        Without `barge_in`, what a microphone yields during playback is dropped: it may contain the answer.
        Playback begins with the first piece of an answer, and ends with `Interrupted`. Leave the loop to
        stop sending. Raises InvalidAudio.
        """
        drops = False
        if isinstance(source, AsyncIterable):
            drops = not self._barge_in
            chunks = microphone_chunks(source, _CHUNK_S if drops else _SHORT_CHUNK_S, rate)
        else:
            recording = padded_chunks(await asyncio.to_thread(read_source, source, rate), _CHUNK_S)
            chunks = self._playback.pause_during_answers(chain(recording, silence(_CHUNK_S)))
        async with aclosing(self._events_while(partial(self._send_all, chunks, drops))) as events:
            async for event in events:
                yield event

    async def _send_all(self, chunks: AsyncGenerator[Samples, None], drops: bool) -> None:
        """With `drops`, leaves out chunks during answers.

        `events` reports the end of the session, so it is no error here.
        """
        with suppress(SessionOver):
            async with aclosing(chunks):
                async for chunk in chunks:
                    if not drops or self._playback.is_over:
                        await self.send_audio(chunk)

    def _item(self, message: Any) -> Event | None:
        event = super()._item(message)
        self._playback.take(event)
        return event

    def _take_error(self, error: ServerError) -> None:
        if error.code in _FAILED_ANSWER:
            self._playback.fail()
        super()._take_error(error)

    async def stop(self) -> Stopped:
        """End the session."""
        return await self._request({"type": "stop"}, Stopped)

    def _part(self, part: str | Samples, where: str) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": sent_text(where, part)}
        return {"type": "audio", "data": self._sound(part, where)}


def _system_text(system: Any) -> str:
    """Raises TypeError."""
    if not isinstance(system, str):
        kind = type(system).__name__
        raise TypeError(f"system is a {kind}, a str or a list of texts and sounds is needed")
    return sent_text("system", system)


class _Playback:
    """Knows when an answer is generated or played, if playback begins when its first piece arrives."""

    def __init__(self) -> None:
        self._complete = asyncio.Event()
        self._complete.set()
        self._ends_at = 0.0

    @property
    def is_over(self) -> bool:
        return self._complete.is_set() and time.monotonic() >= self._ends_at

    def take(self, event: Event | None) -> None:
        if isinstance(event, Generating):
            self._complete.clear()
        elif isinstance(event, Piece):
            self._ends_at = max(self._ends_at, time.monotonic()) + len(event.audio) / OUTPUT_RATE
        elif isinstance(event, TurnDone):
            self._complete.set()
        elif isinstance(event, Interrupted):
            self._ends_at = time.monotonic()

    def fail(self) -> None:
        """The answer has no more pieces, and no end."""
        self._complete.set()

    async def pause_during_answers(
        self, chunks: Iterable[Samples]
    ) -> AsyncGenerator[Samples, None]:
        """The chunks in real time."""
        due = time.monotonic()
        for chunk in chunks:
            while not self.is_over:
                await self._complete.wait()
                await asyncio.sleep(self._ends_at - time.monotonic())
                due = time.monotonic()
            due += _CHUNK_S
            await asyncio.sleep(due - time.monotonic())
            yield chunk


@with_options
def connect_half_duplex(
    url: str, *, session_id: str | None = None, **how: Unpack[ClientOptions]
) -> AbstractAsyncContextManager[HalfDuplexSession]:
    """Connect to an edge for a conversation in turns; leaving the block ends the session.

    Args:
        url: Address of an edge, such as `ws://127.0.0.1:8006`.
        session_id: Id of the session; by default a new one.
        api_key: Key of an edge with API keys.
        tls: Replaces the default checks of the certificate of a `wss://` address.
        open_timeout_s: Time to connect, in seconds.
        binary: Send and receive media as bytes instead of base64, if the edge supports it: 25 % less
            traffic.
        pcm: With `binary`: `"s16"` halves the traffic again, and rounds the audio to 16 bits.
        transcript: Ask for the user's words, `user_text` of the results, if the worker recognises them. Not
            in chat.
        resume: Reconnect to the session after a lost connection, and repeat no message.
        resume_for_s: How long to try to reconnect, in seconds.
        other_edges: Addresses of further edges to reconnect through.

    Raises CannotConnect.
    """
    sid = checked_session_id(session_id) or new_session_id("hdx")
    link = partial(open_link, url, f"/ws/half_duplex/{sid}", how, capabilities="1")
    return run_session(link, partial(HalfDuplexSession, session_id=sid))
