"""Messages of the server, parsed from the wire, and results with playable audio: float32 mono at 24 kHz."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec
import numpy as np
import orjson
import pybase64
from msgspec import structs

from antiphon.client.errors import UnreadableMessage
from antiphon.shared_schemas.audio import Samples, float_bytes, samples_from_bytes
from antiphon.shared_schemas.messages.chat import ChatChunk
from antiphon.shared_schemas.messages.duplex import Result
from antiphon.shared_schemas.messages.half_duplex import TurnChunk
from antiphon.shared_schemas.messages.realtime import AudioDelta, Listen
from antiphon.shared_schemas.messages.realtime_v2 import OutputDelta
from antiphon.shared_schemas.unit_result import TimedText
from antiphon.shared_schemas.wire import MediaBytes, Payload, ServerMessage, split_frame


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unit:
    """The answer to one second: the result message, its audio and its arrival time.

    `audio` is empty while listening; `received_at` is `time.monotonic()`.
    """

    message: Result
    audio: Samples = field(repr=False)
    received_at: float
    turn: int | None = None
    """The number of the model's turn, from 0; None while it listens. Texts of two turns are two sentences."""

    @classmethod
    def of(cls, message: Result, turn: int | None = None) -> Unit:
        audio = _samples(message.audio_data)
        return cls(message=message, audio=audio, received_at=time.monotonic(), turn=turn)

    @property
    def is_listen(self) -> bool:
        return self.message.is_listen

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def end_of_turn(self) -> bool:
        return self.message.end_of_turn

    @property
    def interrupted(self) -> bool:
        """The answer before was cut: drop its audio that has not been played."""
        return bool(self.message.interrupted)

    @property
    def user_text(self) -> str | None:
        """What the user said up to this unit, if `transcript` was requested."""
        return self.message.user_text

    @property
    def interim_user_text(self) -> str | None:
        """What the user has said so far, empty in silence, if the config has `interim_transcripts`."""
        return self.message.interim_user_text

    @property
    def words(self) -> list[TimedText] | None:
        """The words of `text`, each with its begin in ms of `audio`, if `word_times` was requested."""
        return self.message.words

    @property
    def timing(self) -> dict[str, float] | None:
        """Milliseconds per hop, if `timing` was requested."""
        return self.message.timing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """A piece of an answer; either part may be empty. `received_at` is `time.monotonic()`."""

    text: str
    audio: Samples = field(repr=False)
    received_at: float

    @classmethod
    def of(cls, message: TurnChunk | ChatChunk) -> Piece:
        audio = _samples(message.audio_data or b"")
        return cls(text=message.text_delta or "", audio=audio, received_at=time.monotonic())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spoken:
    """Speech of a realtime session. `received_at` is `time.monotonic()`.

    In version 2 it has text or audio, and no end of the turn: that is the next `Listen`. `user_text`
    is what the user said, if `transcript` was requested, and `interim_user_text` what the user has said
    so far, if the session asked for it; both also in `Listen`.
    """

    text: str
    audio: Samples = field(repr=False)
    end_of_turn: bool
    kv_cache_length: int
    received_at: float
    user_text: str | None = None
    interim_user_text: str | None = None

    @classmethod
    def of(cls, message: AudioDelta) -> Spoken:
        return cls(
            text=message.text,
            audio=_samples(message.audio),
            end_of_turn=message.end_of_turn,
            kv_cache_length=message.kv_cache_length,
            received_at=time.monotonic(),
            user_text=message.user_text,
            interim_user_text=message.interim_user_text,
        )


def _output(message: OutputDelta) -> Spoken | Listen:
    tokens = (message.metrics or {}).get("kv_cache_length", 0)
    said: dict[str, Any] = {
        "user_text": message.user_text,
        "interim_user_text": message.interim_user_text,
    }
    if message.kind == "listen":
        return Listen(kv_cache_length=tokens, interrupted=message.interrupted, **said)
    return Spoken(
        text=message.text or "",
        audio=_samples(message.audio or b""),
        end_of_turn=False,
        kv_cache_length=tokens,
        received_at=time.monotonic(),
        **said,
    )


def _samples(data: bytes) -> Samples:
    """The parser has converted the audio to float32."""
    return np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False)


CONVERSIONS: dict[type[ServerMessage], Callable[[Any], Any]] = {
    Result: Unit.of,
    TurnChunk: Piece.of,
    ChatChunk: Piece.of,
    AudioDelta: Spoken.of,
    OutputDelta: _output,
}
"""Messages with audio, and how each becomes a result."""


_BLANKS: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: False, bytes: b""}
_SOUND = (bytes, bytes | None)


@dataclass(frozen=True, slots=True)
class _Kind:
    cls: type[ServerMessage]
    blanks: dict[str, Any]
    sounds: tuple[str, ...]

    @classmethod
    def of(cls, kind: type[ServerMessage]) -> _Kind:
        items = structs.fields(kind)
        blanks = {item.name: _BLANKS.get(item.type) for item in items if item.required}
        return cls(kind, blanks, tuple(item.name for item in items if item.type in _SOUND))


class Parser:
    """Parses the messages of one protocol, given as a union; audio of any format becomes float32."""

    def __init__(self, messages: Any) -> None:
        self._kinds = {kind.type: _Kind.of(kind) for kind in get_args(messages)}

    def parse(self, frame: str | bytes) -> ServerMessage | None:
        """Parse one message; None for a type that this version does not know.

        Ignores unknown fields and leaves missing ones blank, for compatibility with older and newer
        servers. Raises UnreadableMessage for any other mismatch.
        """
        data, payload = read_frame(frame)
        try:
            kind = self._kinds.get(data["type"])
            if kind is None:
                return None
            sounds = {n: _sound(data[n], payload) for n in kind.sounds if data.get(n) is not None}
            message = msgspec.convert(kind.blanks | data | sounds, kind.cls, builtin_types=(bytes,))
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(error) from error
        return message


def read_frame(frame: str | bytes) -> tuple[dict[str, Any], Payload | None]:
    """The fields of a message, which has a `type`, and its payload. Raises UnreadableMessage."""
    try:
        header, payload = (frame, None) if isinstance(frame, str) else split_frame(frame)
        data: dict[str, Any] = orjson.loads(header)
    except ValueError as error:
        raise _unreadable(error) from error
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise _unreadable("a message has no type")
    return data, payload


class SoundLimits(msgspec.Struct, frozen=True):
    """The longest sounds that an edge takes in one message, in seconds; None: not known."""

    chunk_s: float | None = None
    reference_audio_s: float | None = None

    @classmethod
    def of(cls, capabilities: Mapping[str, Any]) -> SoundLimits:
        """Ignores all other limits. Raises UnreadableMessage."""
        limits = capabilities.get("limits")
        try:
            return cls() if limits is None else msgspec.convert(limits, cls)
        except msgspec.ValidationError as error:
            raise _unreadable(f"`limits` of capabilities: {error}") from None


def _unreadable(error: Exception | str) -> UnreadableMessage:
    return UnreadableMessage(f"the server sent something unreadable: {error}")


def _sound(value: Any, payload: Payload | None) -> bytes:
    if isinstance(value, dict) and payload is not None:
        raw = payload.part(value)
    else:
        raw = MediaBytes(pybase64.b64decode(value, validate=True))
    return float_bytes(samples_from_bytes(raw.data, raw.pcm))
