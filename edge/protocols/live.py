"""`/v1/live/sessions`: OpenAI's Live API over a full-duplex session.

A connection is a session: the API has no way to resume one.
"""

import math
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from antiphon.edge.errors import Close, Fault, end_reason, explain_end, openai_error, openai_status
from antiphon.edge.media.audio_formats import FormatEncoder
from antiphon.edge.protocols.live_commands import (
    LiveCall,
    LiveCommand,
    LiveLink,
    Mute,
    Unmute,
    UpdateDelegation,
)
from antiphon.edge.protocols.machine import Action, Actions, Phase, Send
from antiphon.edge.protocols.sound_stream import (
    Sound,
    SoundRefusals,
    SoundStreamMachine,
    stream_phase_text,
)
from antiphon.shared_schemas.audio import OUTPUT_RATE, PcmFormat, samples_from_bytes
from antiphon.shared_schemas.entries import (
    ErrorOut,
    InEntry,
    OutEntry,
    PreparedOut,
    ResultOut,
    StopIn,
    StoppedOut,
    TextAddedOut,
    TextIn,
    TextKind,
    TimeoutOut,
)
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.messages import live as wire
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import spoken_ms, user_transcript
from antiphon.shared_schemas.wire import ServerMessage

LIVE_LIMIT_S = 7200.0
"""OpenAI ends its sessions after this time, too."""

_NOTICE_S = 30.0
"""How long before that end a client is notified."""

_MS_PER_CHARACTER = 70
"""Of speech whose beginning the engine does not tell."""

_USAGE_EVERY_MS = 10_000

_LONG_MS = 600
"""Of sound. A client may end the turn after 800 ms without a fragment of its transcript, as Pipecat does."""

_LOOK_S = 0.25
"""How often to look for a fragment that waits for its sound."""

_CODES: dict[str, str] = {
    ErrorCode.MISSING_FIELD: "missing_required_parameter",
    ErrorCode.INVALID_FIELD: "invalid_value",
    ErrorCode.UNKNOWN_FIELD: "unknown_parameter",
}


WIRE_NAMES: dict[type[LiveCommand], str] = {
    LiveCall: "session.start",
    Sound: "session.input_audio.append",
    Mute: "session.input_audio.mute",
    Unmute: "session.input_audio.unmute",
    TextIn: "session.{instructions,thinking,commentary}.append",
    UpdateDelegation: "session.update",
    StopIn: "session.close",
}

_STARTING: frozenset[type[LiveCommand]] = frozenset({LiveCall, StopIn})
_STARTED: frozenset[type[LiveCommand]] = frozenset(
    {Sound, Mute, Unmute, TextIn, UpdateDelegation, StopIn}
)

LEGAL: dict[Phase, frozenset[type[LiveCommand]]] = {
    Phase.QUEUED: _STARTING,
    Phase.QUEUED_PREPARED: frozenset({StopIn}),
    Phase.ASSIGNED: _STARTING,
    Phase.PREPARING: frozenset({StopIn}),
    Phase.ACTIVE: _STARTED,
    Phase.STOPPING: _STARTED,
    Phase.OVER: frozenset(),
}
"""While it is stopping, a session ignores what was in flight."""

_APPENDED: dict[TextKind, type[wire.LiveRange]] = {
    TextKind.INSTRUCTIONS: wire.LiveInstructionsAppended,
    TextKind.THINKING: wire.LiveThinkingAppended,
    TextKind.COMMENTARY: wire.LiveCommentaryAppended,
}


_PARAMS = {"config.voice": "session.audio.output.voice"}
"""The fields of the API for those of a stream entry that a worker names."""


@dataclass(frozen=True, slots=True)
class LiveTerms:
    """When a session began and ends. `clock`: seconds; `expires_at`: the end as a Unix time."""

    clock: Callable[[], float]
    began_at: float
    expires_at: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a transcript, and when it is due on the clock of the session."""

    due: float
    start_ms: int
    end_ms: int
    text: str


class LiveMachine(SoundStreamMachine[LiveCommand]):
    """One session."""

    LEGAL: ClassVar = LEGAL
    WIRE_NAMES: ClassVar = WIRE_NAMES
    PHASE_TEXT: ClassVar = stream_phase_text("session.start")

    def __init__(self, recording: str, link: LiveLink, terms: LiveTerms) -> None:
        super().__init__(terms.clock, link.audio_format)
        self._recording = recording
        self._link = link
        self._terms = terms
        self._refusals = SoundRefusals()
        self._warned = False
        self._events = 0
        self._resource: dict[str, Any] = {"model": ""}
        self._forwarded = 0
        self._asked: dict[int, tuple[TextIn | None, str | None]] = {}
        """Inputs that the worker answers: their numbers, their texts and their event ids."""
        self._input_ms = self._said_ms = self._transcribed_ms = 0
        self._said = self._turn_open = False
        self._rest: Fragment | None = None
        """The second half of what the newest unit says."""
        self._closed_by: str | None = None
        self._next_usage_ms = _USAGE_EVERY_MS

    def _handle(self, command: LiveCommand) -> list[Action]:
        actions = [] if self.phase is Phase.STOPPING else self._carry_out(command)
        self._link.event_id = None
        return actions

    def _carry_out(self, command: LiveCommand) -> list[Action]:
        self._buffer.touch()
        match command:
            case Sound(data=data):
                kind = self._link.audio_format
                self._refusals.accept(len(data) / (kind.width * kind.rate))
                return self._add_sound(data)
            case Mute():
                self._buffer.muted = True
                return [self._event(wire.LiveMuted)]
            case Unmute():
                self._buffer.muted = False
                return [self._event(wire.LiveUnmuted)]
            case TextIn():
                return self._ask(command, command)
            case UpdateDelegation():
                return [self._event(wire.LiveUpdated, session=self._session())]
            case LiveCall(prepare=prepare, audio_format=audio_format, resource=resource):
                self._link.audio_format, self._resource = audio_format, resource
                self._encoder = FormatEncoder(audio_format)
                return self._ask(prepare, None)
            case StopIn():
                self._closed_by = self._link.event_id
                if self.waiting:
                    return self._close("close_requested", EndReason.STOPPED)
                return self._forward(command)

    def _forward(self, entry: InEntry) -> list[Action]:
        self._forwarded += 1
        return super()._forward(entry)

    def refused(self, entry: InEntry) -> None:  # noqa: ARG002
        self._forwarded -= 1

    def _ask(self, entry: InEntry, text: TextIn | None) -> list[Action]:
        actions = self._forward(entry)
        self._asked[self._forwarded] = text, self._link.event_id
        return actions

    def _next_check(self) -> float:
        due = self._terms.began_at + LIVE_LIMIT_S - (0.0 if self._warned else _NOTICE_S)
        soon = self._rest.due if self._rest else self._clock() + _LOOK_S
        return min(due, soon, super()._next_check())

    def _check(self) -> Actions:
        """A fragment that is due, the session's limit, and silence for a client that sends no sound."""
        return [*self._say_rest(self._clock()), *self._check_limits()]

    def _check_limits(self) -> Actions:
        left_s = self._terms.began_at + LIVE_LIMIT_S - self._clock()
        if left_s <= 0:
            return self._close("expired", EndReason.PAUSE_TIMEOUT)
        if left_s <= _NOTICE_S and not self._warned:
            self._warned = True
            text = f"the session ends in {left_s:.0f} s"
            return [self._event(wire.LiveInfo, code="session_expires", message=text)]
        return super()._check()

    def deliver(self, entry: OutEntry, now_ms: float) -> list[Action]:  # noqa: ARG002
        return [*self._say_rest(), *self._actions_of(entry)]

    def _actions_of(self, entry: OutEntry) -> list[Action]:
        match entry:
            case ResultOut():
                return self._result(entry)
            case PreparedOut(input_n=n, chunk_ms=chunk_ms):
                _, event_id = self._asked.pop(n, (None, None))
                self._buffer.begin(self._link.audio_format, chunk_ms)
                started = wire.LiveStarted(
                    event_id=self._next_id(), client_event_id=event_id, session=self._session()
                )
                return self._prepared(started)
            case TextAddedOut(text_n=n):
                return self._added(n)
            case StoppedOut():
                return self._close("close_requested", EndReason.STOPPED)
            case TimeoutOut(reason=reason):
                info = self._event(wire.LiveInfo, code="session_expired", message=reason)
                return [info, *self._close("expired", EndReason.PAUSE_TIMEOUT)]
            case ErrorOut():
                return self._failed(entry)
            case _:
                raise TypeError(f"{entry.tag} does not belong in a live session")

    def _added(self, n: int) -> list[Action]:
        """A worker that takes over acknowledges some texts again, which is not shown."""
        text, event_id = self._asked.pop(n, (None, None))
        if text is None:
            return []
        message = _APPENDED[text.kind](
            event_id=self._next_id(),
            client_event_id=event_id,
            start_ms=self._input_ms,
            end_ms=self._input_ms,
        )
        return [Send(message)]

    def _result(self, entry: ResultOut) -> list[Action]:
        actions: list[Action] = []
        self._input_ms = entry.current_time
        if said := user_transcript(entry):
            actions.append(self._input_transcript(entry, said))
        if not entry.is_listen:
            actions += self._spoken(entry)
        self._turn_open = not (entry.is_listen or entry.end_of_turn)
        if entry.context_left_s is not None:
            text = f"the context is full in about {entry.context_left_s:.0f} s"
            actions.append(self._event(wire.LiveInfo, code="context_nearly_full", message=text))
        if self._input_ms >= self._next_usage_ms:
            self._next_usage_ms = self._input_ms + _USAGE_EVERY_MS
            ratio = min(1.0, entry.kv_cache_length / entry.context_tokens)
            window = {"usage_ratio": round(ratio, 4)}
            actions.append(self._event(wire.LiveUsage, usage=self._usage(), context_window=window))
        return actions

    def _input_transcript(self, entry: ResultOut, text: str) -> Action:
        """The transcript comes when an utterance has ended."""
        now, earlier = self._input_ms, self._transcribed_ms
        began_ms, ended_ms = spoken_ms(entry) or (len(text) * _MS_PER_CHARACTER, 0.0)
        end = max(earlier, now - round(ended_ms))
        start = min(end, max(earlier, now - round(began_ms)))
        self._transcribed_ms = end
        delta = f" {text}" if earlier else text
        return self._event(wire.LiveInputTranscript, start_ms=start, end_ms=end, delta=delta)

    def _spoken(self, entry: ResultOut) -> list[Action]:
        samples = samples_from_bytes(entry.audio, PcmFormat.F32)
        start = max(self._said_ms, self._input_ms)
        self._said_ms = start + len(samples) * 1000 // OUTPUT_RATE
        actions: list[Action] = []
        if text := entry.text:
            apart = self._said and not self._turn_open and not text.startswith(" ")
            self._said = True
            delta = f" {text}" if apart else text
            actions += self._say(delta, start, self._said_ms)
        if len(samples):
            actions.append(Send(wire.LiveOutputAudio(delta=self._encoder.encode(samples))))
        return actions

    def _say(self, text: str, start: int, end: int) -> list[Action]:
        """The second half of a long unit's words follows in the middle of its sound."""
        words = re.findall(r"\s*\S+", text)
        if end - start < _LONG_MS or len(words) < 2:
            return [self._transcript(start, end, text)]
        middle = (start + end) // 2
        first = "".join(words[: (len(words) + 1) // 2])
        due = self._clock() + (middle - start) / 1000
        self._rest = Fragment(due, middle, end, text.removeprefix(first))
        return [self._transcript(start, middle, first)]

    def _say_rest(self, now: float = math.inf) -> list[Action]:
        rest = self._rest
        if rest is None or rest.due > now:
            return []
        self._rest = None
        return [self._transcript(rest.start_ms, rest.end_ms, rest.text)]

    def _transcript(self, start: int, end: int, text: str) -> Action:
        return self._event(wire.LiveOutputTranscript, start_ms=start, end_ms=end, delta=text)

    def _failed(self, entry: ErrorOut) -> list[Action]:
        _, event_id = self._asked.pop(entry.input_n, (None, None))
        param = _PARAMS.get(entry.field or "", entry.field)
        text = entry.message.replace(entry.field or "\0", param or "")
        error = Send(live_error(entry.code, text, param, event_id))
        if entry.fatal:
            return [error, *self._close("connection_lost", end_reason(entry), Close.INTERNAL)]
        self._prepare_again()
        return [error]

    def draining(self, left_s: float) -> Actions:
        if self.phase is not Phase.ACTIVE:
            return []  # `session.started` is the first event
        text = f"the server shuts down: the session ends in {left_s:g} s"
        return [self._event(wire.LiveInfo, code="server_draining", message=text)]

    def ended(self, reason: EndReason | None) -> Actions:
        if reason is EndReason.STOPPED:
            return self._close("close_requested", reason)
        if reason is EndReason.PAUSE_TIMEOUT:
            return self._close("expired", reason)
        fault = explain_end(reason)
        message = fault.message
        error = Send(live_error(message.code, message.message, None))
        close = fault.close or Close.INTERNAL
        return [error, *self._close("connection_lost", reason or EndReason.ERROR, close)]

    def report(self, fault: Fault) -> Actions:
        """An error that closes the connection also ends the session."""
        if self._link.is_sound and not self._refusals.is_new(fault):
            return []
        actions = [*super().report(fault)]
        self._link.event_id = None
        if fault.close and self.phase in (Phase.ACTIVE, Phase.STOPPING):
            actions.append(Send(self._closed("connection_lost")))
        return actions

    def _error_messages(self, fault: Fault) -> Sequence[ServerMessage]:
        message = fault.message
        return [live_error(message.code, message.message, message.field, self._link.event_id)]

    def _close(
        self, why: wire.CloseReason, reason: EndReason, close: Close = Close.NORMAL
    ) -> list[Action]:
        return self._finish(self._closed(why), close, reason)

    def _closed(self, why: wire.CloseReason) -> ServerMessage:
        return wire.LiveClosed(
            event_id=self._next_id(),
            client_event_id=self._closed_by,
            reason=why,
            session=self._session(),
            usage=self._usage(),
        )

    def _usage(self) -> dict[str, Any]:
        return {"seconds": float(self._input_ms // 1000)}

    def _session(self) -> dict[str, Any]:
        fixed = {"id": self._recording, "expires_at": self._terms.expires_at, "status": "active"}
        return {**self._resource, **fixed}

    def _event(self, kind: type[wire.LiveEvent], **fields: Any) -> Send:
        event_id = self._link.event_id
        return Send(kind(event_id=self._next_id(), client_event_id=event_id, **fields))

    def _next_id(self) -> str:
        self._events += 1
        return f"event_{self._recording}_{self._events}"


def live_error(
    code: str, text: str, param: str | None, client_event_id: str | None = None
) -> wire.LiveError:
    """An error in the form of the Live API."""
    error = openai_error(openai_status(code), _CODES.get(code, code), text, param)["error"]
    if client_event_id is not None:
        error["client_event_id"] = client_event_id
    return wire.LiveError(event_id=f"event_{secrets.token_hex(8)}", error=error)


def encode_live_error(fault: Fault) -> Sequence[ServerMessage]:
    """Why a connection has no session."""
    return [live_error(fault.message.code, fault.message.message, fault.message.field)]
