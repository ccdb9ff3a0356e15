"""Version 1 of `/v1/realtime`: its legal commands and its events."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from antiphon.edge.errors import Fault
from antiphon.edge.protocols.machine import Phase
from antiphon.edge.protocols.realtime_codec import (
    CLOSED_AS,
    RealtimeCodec,
    encode_realtime_error,
    phase_text,
)
from antiphon.shared_schemas.audio import OUTPUT_RATE
from antiphon.shared_schemas.entries import (
    ChunkIn,
    PlaybackIn,
    PreparedOut,
    PrepareIn,
    ResultOut,
    StopIn,
)
from antiphon.shared_schemas.messages.realtime import (
    AudioDelta,
    Listen,
    SessionClosed,
    SessionCreated,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.unit_result import TokenUsage
from antiphon.shared_schemas.wire import ServerMessage

WIRE_NAMES: Mapping[type[Any], str] = {
    PrepareIn: "session.update",
    ChunkIn: "input_audio_buffer.append",
    PlaybackIn: "output_audio_buffer.playback_ack",
    StopIn: "session.close",
}

LEGAL: Mapping[Phase, frozenset[type[Any]]] = {
    Phase.QUEUED: frozenset({PrepareIn}),
    Phase.QUEUED_PREPARED: frozenset(),
    Phase.ASSIGNED: frozenset({PrepareIn}),
    Phase.PREPARING: frozenset(),
    Phase.ACTIVE: frozenset({ChunkIn, PlaybackIn, StopIn}),
    Phase.STOPPING: frozenset(),
    Phase.OVER: frozenset(),
}

PHASE_TEXT = phase_text(WIRE_NAMES[PrepareIn])

SILENCE_10MS = bytes(4 * OUTPUT_RATE // 100)
"""Audio for text at the end of a turn that has none."""


class RealtimeV1(RealtimeCodec):
    """The version of the public document."""

    LEGAL: ClassVar = LEGAL
    WIRE_NAMES: ClassVar = WIRE_NAMES
    PHASE_TEXT: ClassVar = PHASE_TEXT
    ERRORS_END: ClassVar = False

    def created(self, entry: PreparedOut) -> ServerMessage:
        return SessionCreated(
            session_id=self._session.sid,
            prompt_length=entry.prompt_length,
            recording_session_id=self._recording,
        )

    def unit(self, entry: ResultOut, now_ms: float) -> Sequence[ServerMessage]:  # noqa: ARG002
        return self._with_transcript(entry, deltas(entry), entry.user_text_before)

    def closed(
        self,
        reason: EndReason,
        diagnostic: str,  # noqa: ARG002
        usage: TokenUsage | None,  # noqa: ARG002
    ) -> ServerMessage:
        return SessionClosed(reason=CLOSED_AS[reason][0])

    def errors(self, fault: Fault) -> Sequence[ServerMessage]:
        return encode_realtime_error(fault)


def deltas(entry: ResultOut) -> list[AudioDelta | Listen]:
    """The events of one unit.

    A delta needs audio, so text waits for the next audio or the end of the turn: a unit with text only
    has no event.
    """
    if entry.is_listen:
        rest = entry.text_before
        ended = [_delta(entry, rest, SILENCE_10MS, ends=True)] if rest else []
        return [*ended, Listen(kv_cache_length=entry.kv_cache_length)]
    if entry.audio or entry.end_of_turn:
        text = entry.text_before + entry.text
        return [_delta(entry, text, entry.audio or SILENCE_10MS, ends=entry.end_of_turn)]
    return []


def _delta(entry: ResultOut, text: str, audio: bytes, *, ends: bool) -> AudioDelta:
    return AudioDelta(
        text=text, audio=audio, end_of_turn=ends, kv_cache_length=entry.kv_cache_length
    )
