"""`/v1/realtime?mode=chat`: decoding of its events, and the state machine of each request."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from antiphon.edge.errors import Close, Fault
from antiphon.edge.json_text import ClientFrame
from antiphon.edge.media.decode import InputReader, decode_frame
from antiphon.edge.media.voices import UploadedVoices
from antiphon.edge.protocols import chat
from antiphon.edge.protocols.chat import ChatMachine, decode_input
from antiphon.edge.protocols.machine import Action, Actions, Phase, QueuePlace, Send
from antiphon.edge.protocols.realtime_codec import encode_v2_error, ended_by, report_place
from antiphon.edge.protocols.realtime_v2 import usage_fields
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.entries import (
    ChatDoneOut,
    ChatIn,
    DeltaOut,
    ErrorOut,
    InEntry,
    OutEntry,
    PrefillDoneOut,
    ProgressOut,
    StopIn,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.messages.realtime import SessionClose, SessionQueueDone
from antiphon.shared_schemas.messages.realtime_v2 import (
    ChatAppend,
    ClosedReasonV2,
    OutputDelta,
    ResponseDone,
    SessionClosedV2,
    SessionInit,
    parse_chat_mode_event,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import ServerMessage


async def decode_chat_event(
    frame: ClientFrame, settings: EdgeSettings, uploads: UploadedVoices
) -> SessionInit | ChatIn | SessionClose:
    """One frame between requests. Raises InvalidInput or NotJson."""
    data, payload = await asyncio.to_thread(decode_frame, frame, settings.max_chat_bytes)
    event = parse_chat_mode_event(data, payload)
    if isinstance(event, ChatAppend):
        return await decode_input(event.input, payload, settings, uploads)
    return event


def check_order(event: SessionInit | ChatIn, *, created: bool) -> None:
    """Raises InvalidInput for a request before `session.created`, and for a second `session.init`."""
    if isinstance(event, SessionInit) is created:
        name = "session.init" if created else "input.append"
        when = "twice" if created else "before session.init"
        text = f"{name}: not allowed {when}"
        raise InvalidInput(text, field="type", code=ErrorCode.NOT_READY)


def closed_by_client(sid: str) -> SessionClosedV2:
    return SessionClosedV2(reason=ClosedReasonV2.CLIENT_CLOSED, session_id=sid)


class RealtimeChatDecoder:
    """Decodes what follows a request before it is answered: only `session.close` is legal."""

    def __init__(self, settings: EdgeSettings) -> None:
        self._reader = InputReader(settings)

    async def decode(self, frame: ClientFrame) -> StopIn:
        """The command in one frame. Raises InvalidInput or NotJson."""
        event = parse_chat_mode_event(*self._reader.read_frame(frame))
        if isinstance(event, SessionClose):
            return StopIn()
        text = f"{event.type}: not allowed before `response.done`; allowed now: session.close"
        raise InvalidInput(text, field="type", code=ErrorCode.NOT_READY)


class RealtimeChatMachine(ChatMachine):
    """One request of a connection that may carry several.

    It ends with `response.done`, or with the `session.closed` of its connection: `closing`.
    """

    LEGAL: ClassVar = {**chat.LEGAL, Phase.STOPPING: frozenset({StopIn})}
    WIRE_NAMES: ClassVar = {StopIn: "session.close"}

    def __init__(
        self,
        sid: str,
        number: int,
        *,
        resumable: bool = False,
        notices: bool = False,
    ) -> None:
        super().__init__(recording="", resumable=resumable)
        self.closing = False
        self.recording: str | None = None
        """The id of the request's recording, if the client asked for it."""
        self._notices = notices
        self._sid = sid
        self._ids: dict[str, Any] = {
            "response_id": f"resp_{sid.removeprefix('chat_')}_{number}",
            "session_id": sid,
        }

    def apply_input(self, entry: InEntry) -> None:
        super().apply_input(entry)
        self.closing |= isinstance(entry, StopIn)

    def _handle(self, command: StopIn) -> list[Action]:
        self.closing = True
        if self.phase is Phase.QUEUED:
            return self._closed()
        return [] if self.phase is Phase.STOPPING else self._forward(command)

    def placed(self, place: QueuePlace) -> Sequence[Action]:
        """`session.queue_done` was sent before the first request; a client that may resume needs a token."""
        return report_place(place, notices=self._notices) if self._resumable else []

    def _grant_messages(self) -> list[Action]:
        return [Send(SessionQueueDone())] if self._resumable else []

    def ended(self, reason: EndReason | None) -> Actions:
        if reason is not EndReason.STOPPED or self.phase is Phase.OVER:
            return super().ended(reason)
        self.closing = True
        return self._closed()

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:
        if isinstance(entry, ProgressOut | PrefillDoneOut):
            return []
        return super().deliver(entry, now_ms)

    def report(self, fault: Fault) -> Actions:
        """Every error ends the connection."""
        actions = super().report(fault)
        self.phase, self.closing = Phase.OVER, True
        return [*actions, ended_by(fault)]

    def _error_messages(self, fault: Fault) -> Sequence[ServerMessage]:
        return encode_v2_error(fault, self._sid)

    def _delta(self, entry: DeltaOut) -> list[Action]:
        deltas: list[Action] = []
        if entry.text_delta:
            deltas.append(Send(OutputDelta(kind="text", text=entry.text_delta, **self._ids)))
        if entry.audio:
            deltas.append(Send(OutputDelta(kind="audio", audio=entry.audio, **self._ids)))
        return deltas

    def _done(self, entry: ChatDoneOut) -> list[Action]:
        if self.closing:
            return self._closed()
        return super()._done(entry)

    def _answer(self, entry: ChatDoneOut) -> ServerMessage:
        return ResponseDone(
            text=entry.text,
            audio=entry.audio or None,
            reason="stopped" if entry.stopped else "turn_end",
            usage=usage_fields(entry.usage, video=False),
            tool_calls=entry.tool_calls or None,
            recording_session_id=self.recording,
            **self._ids,
        )

    def _failed(self, entry: ErrorOut) -> list[Action]:
        if entry.code == ErrorCode.CONTEXT_FULL:
            self.closing = True
            full = SessionClosedV2.of(ClosedReasonV2.CONTEXT_FULL, entry.message, self._sid)
            return self._finish(full, Close.NORMAL, EndReason.CONTEXT_FULL)
        fault, _ = chat.explain_failure(entry)
        return [*self.report(fault)]

    def _closed(self) -> list[Action]:
        return self._finish(closed_by_client(self._sid), Close.NORMAL, EndReason.STOPPED)
