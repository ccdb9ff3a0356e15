"""The messages that all protocols share, and how messages become WebSocket frames.

Media are base64 in JSON text, or raw bytes in frames of `antiphon.binary.v1`. A binary frame is a 4-byte
little-endian header length, the header, and the payload. The header is the message as JSON with
`{"at", "bytes", "format"}` instead of base64; `at` is an offset in the payload.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args

import msgspec
import orjson
import pybase64
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetPydanticSchema,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
)
from pydantic_core import PydanticCustomError, core_schema

from antiphon.shared_schemas.audio import PcmFormat, pcm16_bytes, samples_from_bytes
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput, from_validation
from antiphon.shared_schemas.long_bytes import LongText, copy_bytes
from antiphon.shared_schemas.tagged import TaggedStruct, plain

BINARY_PROTOCOL = "antiphon.binary.v1"
PLAIN_PROTOCOL = "antiphon.v1"
MAP_PROTOCOL = "map.realtime"
"""The subprotocol that the model makers' SDKs offer; a browser fails if none of its offers is chosen."""
OPENAI_PROTOCOL = "realtime"
"""The subprotocol that OpenAI's clients offer beside their key."""

_LENGTH_BYTES = 4
_ALIGNMENT = 4
"""The payload starts at a multiple of this, so that an array of floats can use it without a copy."""

_FORMATS = ", ".join(PcmFormat)


@dataclass(frozen=True, slots=True)
class MediaBytes:
    """Media as bytes; `pcm` is the encoding of audio and has no meaning for an image."""

    data: bytes = field(repr=False)
    pcm: PcmFormat = PcmFormat.F32


class Payload:
    """The payload of a frame, and how many of its bytes the header has used so far."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._used = 0

    def part(self, reference: Mapping[Any, Any]) -> MediaBytes:
        """The bytes of `{at, bytes, format?}`. Raises ValueError with the reason.

        Bytes may be used once only: a small frame must not grow into a large request.
        """
        at, size = _count(reference, "at"), _count(reference, "bytes")
        if at + size > len(self._data):
            raise ValueError(
                f"{size} bytes from {at} on, but {len(self._data)} bytes follow the header"
            )
        self._used += size
        if self._used > len(self._data):
            raise ValueError("shares bytes with another field")
        return MediaBytes(
            copy_bytes(self._data[at : at + size]), _format(reference.get("format", "f32"))
        )


def _count(reference: Mapping[Any, Any], name: str) -> int:
    value = reference.get(name)
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} must be a number of bytes")
    return value


def _format(name: Any) -> PcmFormat:
    if name not in tuple(PcmFormat):
        raise ValueError(f"format must be one of {_FORMATS}")
    return PcmFormat(name)


def _validate_media(
    value: Any, read_text: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> str | MediaBytes | LongText:
    """Accept a reference only if the message has a payload."""
    if isinstance(value, LongText):
        return value
    payload = info.context
    if not (isinstance(value, dict) and isinstance(payload, Payload)):
        text: str = read_text(value)
        return text
    try:
        return payload.part(value)
    except ValueError as error:
        raise PydanticCustomError("media", "{reason}", {"reason": str(error)}) from None


Media = Annotated[
    str | MediaBytes | LongText,
    GetPydanticSchema(
        lambda _source, _handler: core_schema.with_info_wrap_validator_function(
            _validate_media, core_schema.str_schema(strict=True)
        )
    ),
]
"""A field of a client's message: base64 text, or, in a binary frame, a reference into its payload."""


_OPTIONS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_SERIALIZE_NUMPY
"""Of messages of a program, which may have numbers of numpy."""


def to_text(message: Mapping[str, Any]) -> str:
    """JSON text; `bytes` and `MediaBytes` values become base64."""
    return orjson.dumps(message, encode_media, _OPTIONS).decode()


def to_frame(message: Mapping[str, Any]) -> str | bytes:
    """A binary frame, or text when the message has no bytes.

    Audio is a `MediaBytes` value and sent with its format; an image is `bytes`.
    """
    payload = bytearray()

    def refer(value: object) -> Any:
        data = value.data if isinstance(value, MediaBytes) else value
        if not isinstance(data, bytes):
            raise TypeError(f"{type(data).__name__} does not belong in a message")
        if not data:
            return ""
        reference: dict[str, Any] = {"at": len(payload), "bytes": len(data)}
        payload.extend(data)
        return reference | ({"format": str(value.pcm)} if isinstance(value, MediaBytes) else {})

    header = orjson.dumps(message, refer, _OPTIONS)
    if not payload:
        return header.decode()
    header += b" " * (-(_LENGTH_BYTES + len(header)) % _ALIGNMENT)
    return len(header).to_bytes(_LENGTH_BYTES, "little") + header + payload


def split_frame(frame: bytes | bytearray) -> tuple[bytes, Payload]:
    """Split a binary frame into its unparsed header and its payload. Raises InvalidInput."""
    room = len(frame) - _LENGTH_BYTES
    if room < 0:
        text = f"header: a binary frame begins with 4 bytes of length, this one has {len(frame)}"
        raise InvalidInput(text, field="header")
    length = int.from_bytes(frame[:_LENGTH_BYTES], "little")
    if length > room:
        text = f"header: {length} bytes announced, but {room} bytes follow"
        raise InvalidInput(text, field="header")
    end = _LENGTH_BYTES + length
    view = memoryview(frame)
    return copy_bytes(view[_LENGTH_BYTES:end]), Payload(view[end:])


def encode_media(value: object) -> str:
    """Base64 of `bytes` or `MediaBytes`, for an encoder of JSON. Raises TypeError for any other value."""
    data = value.data if isinstance(value, MediaBytes) else value
    if not isinstance(data, bytes):
        raise TypeError(f"{type(data).__name__} does not belong in a message")
    return pybase64.b64encode_as_string(data)


Message = TypeVar("Message")


class ClientMessage(BaseModel):
    """Base of what a client sends. Unknown fields are ignored, wrong types are rejected by name."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False, populate_by_name=True
    )


class ServerMessage(TaggedStruct, tag_field="type"):
    """Base of what the edge sends. Fields with their default are left out, `bytes` are float32 audio.

    The fields here are sent only to clients that request them in the URL (`resume`, `capabilities`).
    """

    type: ClassVar[str]
    bears_token: ClassVar[bool] = False
    """True if `resume_token` is sent with this message."""
    seq: int | None = None
    resume_token: str | None = None
    capabilities: dict[str, Any] | None = None

    def wire(self) -> dict[str, Any]:
        """The message as a dict; everything but its audio is ready for JSON."""
        message: dict[str, Any]
        message = msgspec.to_builtins(self, builtin_types=(bytes,), enc_hook=plain)
        return message


class Queued(ServerMessage, type="queued", bears_token=True):
    """The session waits; sent only when there is a wait. `position` is 1-based.

    The two estimates are the same number of seconds. They are missing while no worker can take the
    session; `reason` is a `WaitReason` then.
    """

    ticket_id: str
    position: int
    queue_length: int
    eta_seconds: float | None = None
    estimated_wait_s: float | None = None
    reason: str | None = None


class QueueUpdate(Queued, type="queue_update", bears_token=False):
    """The position in the queue, the estimate, or the reason has changed.

    After `queue_done`: the worker was lost and the session waits for another one, until an update with
    position 0. `stale` is true while the position cannot be read.
    """

    stale: bool | None = None


class QueueDone(ServerMessage, type="queue_done", bears_token=True):
    """A worker holds the session; the client may prepare."""


class Stopped(ServerMessage, type="stopped"):
    """The session has ended as the client asked."""

    session_id: str


class Resumed(ServerMessage, type="resumed"):
    """The session is active again after a pause.

    With a `resume_token`, in any protocol, it is the first message to a client that has resumed:
    everything after `seq` follows.
    """


class Notice(ServerMessage, type="notice"):
    """A limit is near. `limit`: `duration` or `context`; `seconds_left` is an estimate for the latter."""

    limit: str
    seconds_left: float


class Error(ServerMessage, type="error"):
    """Something went wrong. `error` and `message` are the same text."""

    error: str
    message: str
    code: str
    field: str | None = None
    retryable: bool | None = None


_IN_PLACE = secrets.token_hex(16)
"""Holds the place of media in a JSON text. It does not leave the process, so no message contains it."""
_IN_PLACE_UTF8 = _IN_PLACE.encode()


@dataclass(frozen=True, slots=True)
class TextParts:
    """A text message as UTF-8, in parts: `str` would be copied twice on its way to the socket."""

    parts: Sequence[bytes]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def text(self) -> str:
        return b"".join(self.parts).decode()


def encode_text(message: ServerMessage) -> TextParts:
    """The JSON text of one message, without a copy of its media.

    The encoder of JSON would look at each character of the media, and copy them twice.
    """
    media: list[bytes] = []

    def keep(value: object) -> str:
        if not isinstance(value, bytes):
            raise TypeError(f"{type(value).__name__} does not belong in a message")
        media.append(pybase64.b64encode(value))
        return _IN_PLACE

    text = orjson.dumps(message.wire(), keep, orjson.OPT_PASSTHROUGH_DATACLASS)
    first, *others = text.split(_IN_PLACE_UTF8) if media else (text,)
    parts = [first]
    for part in zip(media, others, strict=True):
        parts += part
    return TextParts(parts)


def encode_binary(message: ServerMessage, pcm: PcmFormat) -> str | bytes:
    """A binary frame with the message's audio in this format; text if it has none."""
    return to_frame(
        {
            name: _in_format(value, pcm) if isinstance(value, bytes) else value
            for name, value in message.wire().items()
        }
    )


def _in_format(sound: bytes, pcm: PcmFormat) -> MediaBytes:
    if pcm is PcmFormat.F32:
        return MediaBytes(sound)
    return MediaBytes(pcm16_bytes(samples_from_bytes(sound, PcmFormat.F32)), pcm)


class MessageReader(Generic[Message]):
    """Parses the client messages of one protocol, a union of classes, by their `type`."""

    def __init__(self, union: Any) -> None:
        self._adapter: TypeAdapter[Message] = TypeAdapter(
            Annotated[union, Field(discriminator="type")]
        )
        names = (get_args(kind.model_fields["type"].annotation) for kind in get_args(union))
        self._types = ", ".join(name for (name,) in names)

    def parse(self, data: object, payload: Payload | None = None) -> Message:
        """Check one decoded JSON value. Raises InvalidInput naming the field and the remedy.

        `payload`: the payload of a binary frame.
        """
        if not isinstance(data, dict):
            raise InvalidInput("message: must be a JSON object with a `type`", field="type")
        try:
            return self._adapter.validate_python(data, context=payload)
        except ValidationError as error:
            raise self._name_problem(error, data) from None

    def _name_problem(self, error: ValidationError, data: dict[str, Any]) -> InvalidInput:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        at_top = not first["loc"]
        if at_top and first["type"] == "union_tag_not_found":
            text = f"type is required; one of {self._types}"
            return InvalidInput(text, field="type", code=ErrorCode.MISSING_FIELD)
        if at_top and first["type"] == "union_tag_invalid":
            text = f"type: unknown message type {str(data['type'])[:40]!r}; one of {self._types}"
            return InvalidInput(text, field="type", code=ErrorCode.UNKNOWN_TYPE)
        return from_validation(error, skip=1)
