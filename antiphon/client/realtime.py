"""Full-duplex conversations, or chat requests one after the other, over `/v1/realtime`.

async with connect_realtime("ws://127.0.0.1:8006", mode="audio") as session:
    await session.wait_for_turn()
    await session.update("You are a fun assistant.")
    await session.append(one_second)              # float32, 16 kHz; again every second
    async for item in session.events():          # usually in a separate task
        if isinstance(item, Spoken):
            play(item.audio)                     # float32, 24 kHz

async with connect_realtime_chat("ws://127.0.0.1:8006") as chat:
    async for piece in chat.ask("Who are you?"):
        print(piece.text, end="")
    print(chat.done.usage)
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Literal, Unpack

from antiphon.client.arguments import (
    check_frames,
    check_json,
    config_fields,
    sent_number,
    sent_text,
)
from antiphon.client.chat import History, arrived, request_fields
from antiphon.client.errors import InvalidAudio
from antiphon.client.link import Link, open_link
from antiphon.client.options import ClientOptions, with_options
from antiphon.client.results import Parser, Spoken
from antiphon.client.session import Session, run_session
from antiphon.shared_schemas.audio import Samples
from antiphon.shared_schemas.messages.chat import ChatGeneration, ChatTts
from antiphon.shared_schemas.messages.duplex import DEFAULT_SYSTEM_PROMPT
from antiphon.shared_schemas.messages.realtime import (
    MIN_SAMPLES,
    Listen,
    RealtimeServerEvent,
    SessionClosed,
    SessionCreated,
    SessionQueued,
    SessionQueueUpdate,
)
from antiphon.shared_schemas.messages.realtime_v2 import (
    RealtimeV2ServerEvent,
    ResponseDone,
    SdkConfig,
    SessionClosedV2,
    SessionCreatedV2,
)

__all__ = [
    "Listen",
    "RealtimeChatClient",
    "RealtimeSession",
    "Spoken",
    "connect_realtime",
    "connect_realtime_chat",
]

RealtimePlace = SessionQueued | SessionQueueUpdate
RealtimeItem = Spoken | Listen

PARSER = Parser(RealtimeServerEvent)
_SETTINGS_V1 = frozenset({"voice", "barge_in", "record"})
PARSER_V2 = Parser(RealtimeV2ServerEvent)


class RealtimeSession(Session[RealtimePlace, RealtimeItem]):
    """One connected session. `connect_realtime` creates it; calls may raise ServerError or SessionOver.

    After the server has closed it, `ended_by` is the reason: `stopped` (in version 2 `client_closed`),
    `timeout`, `context_full`, `server_shutdown` or `error`. `usage` are the token counts of the session in
    version 2, if the engine counts. In version 2 every error ends the session.
    """

    def __init__(self, link: Link, version: Literal[1, 2] = 1) -> None:
        super().__init__(link, PARSER if version == 1 else PARSER_V2)
        self.created: SessionCreated | SessionCreatedV2 | None = None
        self.usage: dict[str, Any] | None = None
        self._version = version

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
        interim_transcripts: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> SessionCreated:
        """Configure the session once it has its turn. The references are float32 mono at 16 kHz.

        `interim_transcripts` asks for the user's words while the user speaks: `interim_user_text`.

        `config` are further settings: `voice`, `barge_in` and `record`, and in version 2 any other one, such
        as `{"length_penalty": 1.05}`.
        """
        settings = self._settings(config)
        check_json("max_slice_nums", max_slice_nums)
        references = {"ref_audio": ref_audio, "tts_ref_audio": tts_ref_audio}
        voices = {
            name: self._sound(pcm, name) for name, pcm in references.items() if pcm is not None
        }
        instructions = sent_text("instructions", instructions)
        slices = {} if max_slice_nums is None else {"max_slice_nums": max_slice_nums}
        interim = {"interim_transcripts": True} if interim_transcripts else {}
        if self._version == 1:
            fields = {"instructions": instructions, **voices, **slices, **interim, **settings}
            message = {"type": "session.update", "session": fields}
            self.created = await self._request(message, SessionCreated)
        else:
            named = {f"{name}_base64": pcm for name, pcm in voices.items()}
            payload = {"system_prompt": instructions, "voice": named, **slices}
            payload["config"] = {**settings, **interim}
            message = {"type": "session.init", "payload": payload}
            self.created = await self._request(message, SessionCreatedV2)
        return self.created

    def _settings(self, config: Mapping[str, Any] | None) -> dict[str, Any]:
        """Raises TypeError, and in version 1 ValueError for a setting of version 2."""
        if config is None:
            return {}
        settings = config_fields(config, SdkConfig)
        if self._version == 1 and (others := sorted(set(settings) - _SETTINGS_V1)):
            text = f"config: {', '.join(others)}"
            raise ValueError(f"{text} needs connect_realtime(..., version=2)")
        return settings

    async def append(
        self, samples: Samples, *, frames: Sequence[bytes] = (), force_listen: bool = False
    ) -> None:
        """Send a chunk of audio (float32 mono 16 kHz) with its JPEG frames: usually a second.

        Raises InvalidAudio, in version 1 also for less than a quarter of a second, or TypeError for frames that
        are not bytes.
        """
        unit: dict[str, Any] = {"audio": self._sound(samples)}
        if self._version == 1 and len(samples) < MIN_SAMPLES:
            text = f"audio has {len(samples)} samples, at least {MIN_SAMPLES} are needed"
            raise InvalidAudio(f"{text}: send one second at a time, or use version 2")
        if pictures := check_frames(frames):
            unit["video_frames"] = pictures
        if force_listen:
            unit["force_listen"] = True
        if self._version == 1:
            await self._send({"type": "input_audio_buffer.append", **unit})
        else:
            await self._send({"type": "input.append", "input": unit})

    async def playback_ack(self, played_ms: float) -> None:
        """As `DuplexSession.playback_ack`; needs `connect_realtime(..., playback_ack=True)`."""
        played_ms = sent_number("played_ms", played_ms)
        await self._send({"type": "output_audio_buffer.playback_ack", "played_ms": played_ms})

    async def stop(self, reason: str = "user_stop") -> SessionClosed | SessionClosedV2:
        """End the session."""
        message = {"type": "session.close", "reason": sent_text("reason", reason)}
        if self._version == 1:
            return await self._request(message, SessionClosed)
        return await self._request(message, SessionClosedV2)

    def _take(self, message: Any) -> None:
        self.usage = getattr(message, "usage", None) or self.usage
        super()._take(message)


@with_options
def connect_realtime(
    url: str,
    *,
    mode: Literal["video", "audio"] = "video",
    version: Literal[1, 2] = 1,
    playback_ack: bool = False,
    **how: Unpack[ClientOptions],
) -> AbstractAsyncContextManager[RealtimeSession]:
    """Connect to an edge for a full-duplex conversation; leaving the block ends the session.

    Args:
        url: Address of an edge, such as `ws://127.0.0.1:8006`.
        mode: With or without camera frames; `connect_realtime_chat` is the mode `chat`.
        version: Version of the realtime API.
        playback_ack: Allow `RealtimeSession.playback_ack`.
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
    if version not in (1, 2):
        raise ValueError(f"version is {version!r}, 1 or 2 is needed")
    if mode not in ("video", "audio"):
        raise ValueError(f"mode is {mode!r}, 'video' or 'audio' is needed")
    asked = "1" if playback_ack else None
    path, flags = "/v1/realtime", {"notices": "1", "capabilities": "1"}
    link = partial(open_link, url, path, how, mode=mode, playback_ack=asked, **flags)
    return run_session(link, partial(RealtimeSession, version=version))


class RealtimeChatClient(Session[RealtimePlace, Spoken | ResponseDone]):
    """One connection with a request at a time. Every error ends it: ServerError, then SessionOver."""

    created: SessionCreatedV2

    def __init__(self, link: Link) -> None:
        super().__init__(link, PARSER_V2)
        self._done: ResponseDone | None = None

    @property
    def done(self) -> ResponseDone:
        """The end of the last answer: its text, `recording_session_id`, `tool_calls` and `usage`, if any.

        Raises RuntimeError before it has arrived.
        """
        return arrived(self._done)

    async def ask(
        self,
        history: History,
        *,
        streaming: bool = True,
        generation: ChatGeneration | Mapping[str, Any] | None = None,
        tts: ChatTts | Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        options: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Spoken]:
        """The pieces of an answer, with text or audio; none with `streaming=False` (see `done`).

        The arguments are those of `antiphon.ask`. Read an answer to its end before the next request.
        """
        self._done = None
        asked = request_fields(history, streaming, generation, tts, tools, options)
        await self._send({"type": "input.append", "input": asked})
        async for item in self.events():
            if isinstance(item, ResponseDone):
                self._done = item
                return
            yield item

    async def whole(
        self,
        history: History,
        *,
        generation: ChatGeneration | Mapping[str, Any] | None = None,
        tts: ChatTts | Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        options: Mapping[str, Any] | None = None,
    ) -> ResponseDone:
        """The end of the answer, which has the whole text and `audio` as bytes of float32 at 24 kHz.

        The arguments are those of `antiphon.ask`.
        """
        asked = self.ask(
            history, streaming=False, generation=generation, tts=tts, tools=tools, options=options
        )
        async for _ in asked:
            pass
        return self.done

    async def begin(self) -> None:
        await self.wait_for_turn()
        message = {"type": "session.init", "payload": {}}
        self.created = await self._request(message, SessionCreatedV2)

    async def stop(self, reason: str = "user_stop") -> SessionClosedV2:
        """Stop the answer and close the connection."""
        message = {"type": "session.close", "reason": sent_text("reason", reason)}
        return await self._request(message, SessionClosedV2)


@with_options
def connect_realtime_chat(
    url: str, **how: Unpack[ClientOptions]
) -> AbstractAsyncContextManager[RealtimeChatClient]:
    """Connect to an edge for several questions; leaving the block closes the connection.

    The edge holds a worker only while it answers. With `resume` a broken connection loses nothing of an
    answer; one that breaks between two answers ends with SessionOver: connect again.

    Args:
        url: Address of an edge, such as `ws://127.0.0.1:8006`.
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

    Raises CannotConnect, ServerError or SessionOver.
    """
    link = partial(open_link, url, "/v1/realtime", how, mode="chat", notices="1")
    return run_session(link, RealtimeChatClient)
