"""A call as sessions see it: events on the data channel, sound on the track."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import structlog

from antiphon.edge.errors import ClientGone, Close
from antiphon.edge.json_text import ClientFrame, Utf8Text
from antiphon.edge.protocols.openai_realtime.events import error_event
from antiphon.edge.protocols.openai_realtime.track import (
    HeardSound,
    OrderFrame,
    PlaybackReport,
    ReportFrame,
    TrackOrder,
)
from antiphon.edge.transport.connection import JSON, ServerFrame
from antiphon.edge.webrtc.peer import CallPeer
from antiphon.edge.webrtc.sound import CallPlayer
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.wire import ServerMessage, TextParts, encode_text

log = structlog.get_logger()

_MOST_UNREAD_BYTES = 8 * 1024 * 1024
_MESSAGE_BYTES = 256
"""What an unread message takes in addition to its text."""

_MOST_UNREAD_SOUND = 20 * 2 * INPUT_RATE
_MOST_UNSENT_BYTES = 256 * 1024
_MOST_UNPLAYED_S = 600.0
"""Sound of answers, 29 MB. A client can ask for more and more of them, which are made faster than played."""

_FLUSH_S = 2.0


def _encode(message: ServerMessage) -> ServerFrame:
    return OrderFrame.of(message) if isinstance(message, TrackOrder) else encode_text(message)


class CallConnection:
    """One call whose data channel is open. Every coroutine raises ClientGone once the client has left."""

    def __init__(self, peer: CallPeer, message_bytes: int) -> None:
        self.encoding = replace(JSON, encode=_encode)
        self._peer = peer
        self._channel = channel = peer.channel
        self._message_bytes = message_bytes
        self._player = CallPlayer(self._report)
        self._frames: deque[ClientFrame] = deque()
        self._unread = 0
        self._sound = bytearray()
        self._wake = asyncio.Event()
        self._sent = asyncio.Event()
        self._gone = False
        channel.bufferedAmountLowThreshold = _MOST_UNSENT_BYTES // 2
        channel.on("close", self._leave)
        channel.on("bufferedamountlow", self._sent.set)
        peer.pass_messages(self._receive)
        if channel.readyState != "open":
            self._leave()

    async def stream(self) -> None:
        """Carry the sound until the client has left."""
        stream = asyncio.create_task(self._peer.stream(self._player, self._hear), name="call-sound")
        lost = asyncio.create_task(self._peer.lost.wait(), name="call-lost")
        try:
            await asyncio.wait([stream, lost], return_when=asyncio.FIRST_COMPLETED)
            if stream.done():
                stream.result()
        finally:
            self._leave()
            for task in (stream, lost):
                task.cancel()
            await asyncio.wait([stream, lost])

    async def receive(self) -> ClientFrame:
        while not (self._frames or self._sound):
            if self._gone:
                raise ClientGone
            self._wake.clear()
            await self._wake.wait()
        if self._sound:
            sound, self._sound = HeardSound(self._sound), bytearray()
            return sound
        frame = self._frames.popleft()
        if not isinstance(frame, ReportFrame):
            self._unread -= len(frame) + _MESSAGE_BYTES
        return frame

    def send_now(self, frame: ServerFrame) -> bool:
        if isinstance(frame, OrderFrame):
            self._player.obey(frame.order)
            if self._player.seconds > _MOST_UNPLAYED_S:
                log.info("call_flooded", unplayed_s=round(self._player.seconds))
                self._leave()
            return True
        if self._channel.readyState != "open":  # "closing" comes a round trip before the close
            self._leave()
        if self._gone or self._channel.bufferedAmount > _MOST_UNSENT_BYTES:
            return False
        self._put(frame)
        return True

    async def send(self, frame: ServerFrame) -> None:
        """Returns once it is sent to the client, or nearly."""
        self._sent.clear()
        while not (self._gone or self.send_now(frame)):
            await self._sent.wait()
            self._sent.clear()
        if self._gone:
            raise ClientGone

    async def close(self, code: Close) -> None:
        """Close after the events that were sent."""
        try:
            async with asyncio.timeout(_FLUSH_S):
                self._channel.bufferedAmountLowThreshold = 0
                while self._channel.bufferedAmount and not self._gone:
                    self._sent.clear()
                    await self._sent.wait()
        except TimeoutError:
            log.info("call_closed_early", close=code)
        self._leave()

    def force_close(self, code: Close, reason: str) -> None:
        log.info("call_forced_closed", close=code, reason=reason)
        self._leave()

    def probe(self, answered: Callable[[], None]) -> None:
        """Calls are not resumed, so this is never asked."""
        raise NotImplementedError

    def _put(self, frame: ServerFrame) -> None:
        text = frame if isinstance(frame, str) else _text(frame)
        if self._message_bytes and len(text.encode()) > self._message_bytes:
            limit = self._message_bytes
            text = f"an event is not sent: it is longer than the {limit} bytes that this client receives"
            failed = error_event(text, "message_too_large", kind="server_error")
            text = encode_text(failed).text()
        self._channel.send(text)

    def _receive(self, message: str | bytes) -> None:
        frame = Utf8Text(message.encode()) if isinstance(message, str) else message
        self._unread += len(frame) + _MESSAGE_BYTES
        if self._gone:
            return
        if self._unread > _MOST_UNREAD_BYTES:
            log.info("call_flooded", unread_bytes=self._unread)
            self._leave()
            return
        self._add(frame)

    def _hear(self, pcm: bytes) -> None:
        if len(self._sound) < _MOST_UNREAD_SOUND:
            self._sound += pcm
            self._wake.set()

    def _report(self, report: PlaybackReport) -> None:
        self._add(ReportFrame.of(report))

    def _add(self, frame: ClientFrame) -> None:
        self._frames.append(frame)
        self._wake.set()

    def _leave(self) -> None:
        self._gone = True
        self._peer.lost.set()
        self._wake.set()
        self._sent.set()


def _text(frame: TextParts | bytes) -> str:
    assert isinstance(frame, TextParts)
    return frame.text()
