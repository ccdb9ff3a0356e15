"""A full-duplex conversation over `/ws/duplex/{session_id}`: speak and listen at the same time.

async with connect_duplex("ws://127.0.0.1:8006") as session:
    await session.wait_for_turn(lambda place: print(f"number {place.position} in the queue"))
    await session.prepare("You are a helpful assistant.")
    async for unit in session.converse(question):  # float32, 16 kHz
        play(unit.audio)                           # float32, 24 kHz
"""

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Unpack

from antiphon.client.arguments import (
    check_frames,
    check_function,
    check_json,
    config_fields,
    names_setting,
    sent_number,
    sent_text,
)
from antiphon.client.errors import ClientError, SessionOver
from antiphon.client.link import Link, checked_session_id, new_session_id, open_link
from antiphon.client.options import ClientOptions, with_options
from antiphon.client.results import Parser, Unit
from antiphon.client.session import Session, run_session
from antiphon.client.sound import (
    microphone_chunks,
    paced,
    padded_chunks,
    read_source,
    silence,
)
from antiphon.client.turns import TurnCounter
from antiphon.shared_schemas.audio import INPUT_RATE, Samples
from antiphon.shared_schemas.config import USUAL_CHUNK_MS, DuplexConfig
from antiphon.shared_schemas.messages.duplex import (
    DEFAULT_SYSTEM_PROMPT,
    DuplexServerMessage,
    Paused,
    Prepared,
    Result,
)
from antiphon.shared_schemas.wire import Queued, Resumed, Stopped

__all__ = ["PARSER", "DuplexSession", "Unit", "connect_duplex"]

PARSER = Parser(DuplexServerMessage)


class DuplexSession(Session[Queued, Unit]):
    """One connected session. `connect_duplex` creates it; calls may raise ServerError or SessionOver."""

    def __init__(self, link: Link, session_id: str) -> None:
        super().__init__(link, PARSER)
        self.session_id = session_id
        self.prepared: Prepared | None = None
        self._chunk_ms: int | None = None
        self._turns = TurnCounter()
        self._pauses = False

    @property
    def recording_id(self) -> str | None:
        """Id of the server's recording, after `prepare`; None if the session is not recorded."""
        return self.prepared.recording_session_id if self.prepared else None

    @property
    def chunk_s(self) -> float:
        """The length of the chunks that `converse` sends, in seconds.

        It is `chunk_ms` of the settings given to `prepare`; without it, what suits the engine best.
        """
        if self._chunk_ms is None:
            asked = self.prepared.chunk_ms if self.prepared else None
            return (asked or USUAL_CHUNK_MS) / 1000
        return self._chunk_ms / 1000

    async def prepare(
        self,
        system_prompt: str = DEFAULT_SYSTEM_PROMPT,
        config: DuplexConfig | Mapping[str, Any] | None = None,
        *,
        greeting: str = "",
        ref_audio: Samples | None = None,
        tts_ref_audio: Samples | None = None,
        ref_audio_path: str | None = None,
    ) -> Prepared:
        """Initialise the session; also possible while it waits in the queue.

        `config` has the settings of the protocol, such as `{"temperature": 0.5}`. `greeting` is what the
        model says before the user speaks. The references are float32 mono at 16 kHz: the voice to speak
        with.
        """
        fields = config_fields(config, DuplexConfig)
        if greeting is not None and (said := sent_text("greeting", greeting)):
            fields["greeting"] = said
        message: dict[str, Any] = {
            "type": "prepare",
            "prefix_system_prompt": sent_text("system_prompt", system_prompt),
            "config": fields,
        }
        references = {"ref_audio": ref_audio, "tts_ref_audio": tts_ref_audio}
        message |= {
            f"{name}_base64": self._sound(pcm, name)
            for name, pcm in references.items()
            if pcm is not None
        }
        if ref_audio_path is not None:
            message["ref_audio_path"] = sent_text("ref_audio_path", ref_audio_path)
        self.prepared = await self._request(message, Prepared)
        self._chunk_ms = fields["chunk_ms"] if names_setting(config, "chunk_ms") else None
        return self.prepared

    async def send_audio(
        self, samples: Samples, *, frames: Sequence[bytes] = (), force_listen: bool = False
    ) -> float:
        """Send one chunk (float32 mono 16 kHz) with its JPEG frames; returns `time.monotonic()` before.

        Raises InvalidAudio, also for a chunk longer than the edge takes (by default 5 s), or TypeError
        for frames that are not bytes.
        """
        sent_at = time.monotonic()
        message: dict[str, Any] = {"type": "audio_chunk", "audio": self._sound(samples)}
        if pictures := check_frames(frames):
            message["frame_base64_list"] = pictures
        if force_listen:
            message["force_listen"] = True
        await self._send(message)
        return sent_at

    async def playback_ack(self, played_ms: float) -> None:
        """Report how much audio of the current (or else the last) answer has been played.

        Send it at intervals during playback, and again when an answer is complete or cut off. After an
        interruption the server keeps only the played part in the conversation.
        """
        played_ms = sent_number("played_ms", played_ms)
        await self._send({"type": "playback_ack", "played_ms": played_ms})

    async def send_diagnostic(self, metrics: dict[str, Any]) -> None:
        """Send measurements of the client; the server stores them with the recording."""
        check_json("metrics", metrics)
        await self._send({"type": "client_diagnostic", "metrics": metrics})

    async def converse(
        self,
        source: str | Path | Samples | AsyncIterable[Samples],
        *,
        rate: int = INPUT_RATE,
        frames: Callable[[], Sequence[bytes]] = tuple,
    ) -> AsyncGenerator[Unit, None]:
        """Send audio in real time and yield the results, until the session ends.

        `source` is a recording (a sound file or an array), or pieces of any length as a microphone
        yields them. Both are sent in chunks of `chunk_s`. Silence follows the end of either. `frames` returns
        the JPEG pictures of each second. Leave the loop to stop sending. Raises InvalidAudio,
        or TypeError for frames that are not bytes.
        """
        check_function("frames", frames)
        chunk_s = self.chunk_s
        if isinstance(source, AsyncIterable):
            chunks = microphone_chunks(source, chunk_s, rate)
        else:
            recording = padded_chunks(await asyncio.to_thread(read_source, source, rate), chunk_s)
            chunks = paced(chain(recording, silence(chunk_s)), time.monotonic(), chunk_s)
        async with aclosing(self._events_while(partial(self._send_all, chunks, frames))) as units:
            async for unit in units:
                yield unit

    async def _send_all(
        self, chunks: AsyncGenerator[Samples, None], frames: Callable[[], Sequence[bytes]]
    ) -> None:
        """`results` reports the end of the session, so it is no error here."""
        unseen = INPUT_RATE
        with suppress(SessionOver):
            async with aclosing(chunks):
                async for chunk in chunks:
                    if self._pauses:
                        continue
                    sees, unseen = unseen >= INPUT_RATE, unseen % INPUT_RATE + len(chunk)
                    await self.send_audio(chunk, frames=frames() if sees else ())

    def _item(self, message: Any) -> Unit | None:
        if isinstance(message, Result):
            return Unit.of(message, self._turns.take(message))
        return super()._item(message)

    def results(self) -> AsyncIterator[Unit]:
        """As `events`: units in order of their arrival."""
        return self.events()

    async def pause(self, timeout_s: float | None = None) -> Paused:
        """Pause for at most `timeout_s` (default: the server's). Send no audio until `resume`.

        `converse` leaves out the sound of the pause.
        """
        message: dict[str, Any] = {"type": "pause"}
        if timeout_s is not None:
            message["timeout"] = sent_number("timeout_s", timeout_s)
        self._pauses = True
        try:
            return await self._request(message, Paused)
        except ClientError:
            self._pauses = False
            raise

    async def resume(self) -> Resumed:
        """Continue after a pause."""
        resumed = await self._request({"type": "resume"}, Resumed)
        self._pauses = False
        return resumed

    async def stop(self) -> Stopped:
        """End the session; `results` still yields the remaining units."""
        return await self._request({"type": "stop"}, Stopped)


@with_options
def connect_duplex(
    url: str,
    *,
    session_id: str | None = None,
    video: bool = False,
    timing: bool = False,
    word_times: bool = False,
    **how: Unpack[ClientOptions],
) -> AbstractAsyncContextManager[DuplexSession]:
    """Connect to an edge for a full-duplex conversation; leaving the block ends the session.

    Args:
        url: Address of an edge, such as `ws://127.0.0.1:8006`.
        session_id: Id of the session; by default a new one.
        video: Send camera frames too; ignored with a `session_id`.
        timing: Add the milliseconds of each hop to every result.
        word_times: Add the times of the words to the results with text, if the engine knows them.
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
    sid = checked_session_id(session_id) or new_session_id("omni" if video else "adx")
    asked = {"timing": "1" if timing else None, "word_times": "1" if word_times else None}
    path = f"/ws/duplex/{sid}"
    link = partial(open_link, url, path, how, capabilities="1", **asked)
    return run_session(link, partial(DuplexSession, session_id=sid))
