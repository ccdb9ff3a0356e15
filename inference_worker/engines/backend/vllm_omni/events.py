"""The events of a full-duplex session on vLLM-Omni, as far as the engine uses them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson
import pybase64

from antiphon.shared_schemas.audio import (
    OUTPUT_RATE,
    SILENCE,
    PcmFormat,
    Samples,
    samples_from_bytes,
)


class EventKind(StrEnum):
    """What an event means to the engine."""

    CREATED = "session.created"
    RESUMED = "session.resumed"
    LISTENS = "response.listen"
    ANSWER_BEGINS = "response.created"
    SOUND = "response.output_audio.delta"
    TEXT = "response.output_audio_transcript.delta"
    ANSWER_ENDS = "response.done"
    RESYNC = "session.resync_required"
    ERROR = "error"
    ENDED = "session.closed"
    EXPIRED = "session.expired"
    REPLACED = "session.replaced"
    UNUSED = "(not used)"
    UNKNOWN = "(not known)"


_OTHER_NAMES = {
    "response.output_text.delta": EventKind.TEXT,
    "response.text.delta": EventKind.TEXT,
}
_UNUSED = frozenset(
    {
        "session.updated",
        "session.heartbeat_ack",
        "rate_limits.updated",
        "turn.event",
        "overlap.decision",
        "playback.acknowledged",
        "response.speak",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.output_text.done",
        "response.text.done",
    }
)
_UNUSED_GROUPS = (
    "conversation.item.",
    "input_audio_buffer.",
    "output_audio_buffer.",
    "response.content_part.",
    "response.function_call_arguments.",
    "response.output_item.",
    "duplex.",
)


class UnreadableOmniEvent(ValueError):
    """A message that is no event, or whose content cannot be decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OmniEvent:
    """One message of the server. `name` is its type on the wire."""

    kind: EventKind
    name: str
    number: int | None = None
    """Events are numbered, so that a resumed connection repeats none. Some have no number."""
    response_id: str = ""
    text: str = ""
    """Words of an answer, or what an error or the end of the session says."""
    code: str = ""
    """Of an error."""
    sound: Samples = field(default_factory=lambda: SILENCE, repr=False)
    session: dict[str, Any] = field(default_factory=dict, repr=False)
    session_id: str = ""
    resume_token: str = field(default="", repr=False)


def read_event(raw: str | bytes) -> OmniEvent:
    """Raises UnreadableOmniEvent."""
    try:
        message = orjson.loads(raw)
        name = message["type"]
        kind = _kind(name)
        return OmniEvent(
            kind=kind,
            name=name,
            number=_number(message.get("server_event_seq")),
            response_id=_response_id(message),
            text=_text(kind, message),
            code=_code(message) if kind is EventKind.ERROR else "",
            sound=_sound(message) if kind is EventKind.SOUND else SILENCE,
            session=dict(message.get("session") or {}),
            session_id=_session_id(message),
            resume_token=str(message.get("resume_token") or ""),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        shown = raw[:80].decode(errors="replace") if isinstance(raw, bytes) else raw[:80]
        raise UnreadableOmniEvent(f"{type(error).__name__}: {error}; {shown!r}") from error


def _kind(name: str) -> EventKind:
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name]
    if name in _UNUSED or name.startswith(_UNUSED_GROUPS):
        return EventKind.UNUSED
    try:
        return EventKind(name)
    except ValueError:
        return EventKind.UNKNOWN


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _response_id(message: dict[str, Any]) -> str:
    """`response.listen` has it only if it ends an answer."""
    response = message.get("response")
    nested = response.get("id") if isinstance(response, dict) else None
    return str(message.get("response_id") or nested or "")


def _session_id(message: dict[str, Any]) -> str:
    session = message.get("session") or {}
    return str(message.get("session_id") or session.get("id") or "")


def _text(kind: EventKind, message: dict[str, Any]) -> str:
    if kind is EventKind.TEXT:
        return str(message.get("delta") or "")
    if kind is EventKind.ERROR:
        error = message.get("error")
        said = error.get("message") if isinstance(error, dict) else error or message.get("message")
        return str(said or "no reason given")
    return str(message.get("reason") or "")


def _code(message: dict[str, Any]) -> str:
    error = message.get("error")
    fields = error if isinstance(error, dict) else message
    return str(fields.get("code") or "")


def _sound(message: dict[str, Any]) -> Samples:
    """PCM with 16 bits, as the session has asked for."""
    form, rate = message.get("format", "pcm16"), message.get("sample_rate_hz") or OUTPUT_RATE
    if form != "pcm16" or rate != OUTPUT_RATE:
        raise ValueError(f"the sound is {form} at {rate} Hz, and not pcm16 at {OUTPUT_RATE} Hz")
    data = pybase64.b64decode(message["delta"], validate=True)
    return samples_from_bytes(data, PcmFormat.S16)
