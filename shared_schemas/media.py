"""Media in messages: base64 in JSON text, or raw bytes in frames of `antiphon.binary.v1`.

A binary frame is a 4-byte little-endian header length, the header, and the payload. The header is the
message as JSON with `{"at", "bytes", "format"}` instead of base64; `at` is an offset in the payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
import pybase64
from pydantic import GetPydanticSchema, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic_core import PydanticCustomError, core_schema

from antiphon.shared_schemas.audio import PcmFormat
from antiphon.shared_schemas.errors import InvalidInput

BINARY_PROTOCOL = "antiphon.binary.v1"
PLAIN_PROTOCOL = "antiphon.v1"

_LENGTH_BYTES = 4
_ALIGNMENT = 4
"""The payload starts at a multiple of this, so that an array of floats can use it without a copy."""

_FORMATS = ", ".join(PcmFormat)


@dataclass(frozen=True, slots=True)
class Raw:
    """Media as bytes; `pcm` is the encoding of audio and has no meaning for an image."""

    data: bytes = field(repr=False)
    pcm: PcmFormat = PcmFormat.F32


class Payload:
    """The payload of a frame, and how many of its bytes the header has used so far."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._used = 0

    def part(self, reference: Mapping[Any, Any]) -> Raw:
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
        return Raw(bytes(self._data[at : at + size]), _format(reference.get("format", "f32")))


def _count(reference: Mapping[Any, Any], name: str) -> int:
    value = reference.get(name)
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} must be a number of bytes")
    return value


def _format(name: Any) -> PcmFormat:
    if name not in tuple(PcmFormat):
        raise ValueError(f"format must be one of {_FORMATS}")
    return PcmFormat(name)


def _read(value: Any, read_text: ValidatorFunctionWrapHandler, info: ValidationInfo) -> str | Raw:
    """Accept a reference only if the message has a payload."""
    payload = info.context
    if not (isinstance(value, dict) and isinstance(payload, Payload)):
        text: str = read_text(value)
        return text
    try:
        return payload.part(value)
    except ValueError as error:
        raise PydanticCustomError("media", "{reason}", {"reason": str(error)}) from None


Media = Annotated[
    str | Raw,
    GetPydanticSchema(
        lambda _source, _handler: core_schema.with_info_wrap_validator_function(
            _read, core_schema.str_schema(strict=True)
        )
    ),
]
"""A field of a client's message: base64 text, or, in a binary frame, a reference into its payload."""


def to_text(message: Mapping[str, Any]) -> str:
    """JSON text; `bytes` and `Raw` values become base64."""
    return orjson.dumps(message, encode_media, orjson.OPT_PASSTHROUGH_DATACLASS).decode()


def to_frame(message: Mapping[str, Any]) -> str | bytes:
    """A binary frame, or text when the message has no bytes.

    Audio is a `Raw` value and sent with its format; an image is `bytes`.
    """
    payload = bytearray()

    def refer(value: object) -> Any:
        data = value.data if isinstance(value, Raw) else value
        if not isinstance(data, bytes):
            raise TypeError(f"{type(data).__name__} does not belong in a message")
        if not data:
            return ""
        reference: dict[str, Any] = {"at": len(payload), "bytes": len(data)}
        payload.extend(data)
        return reference | ({"format": str(value.pcm)} if isinstance(value, Raw) else {})

    header = orjson.dumps(message, refer, orjson.OPT_PASSTHROUGH_DATACLASS)
    if not payload:
        return header.decode()
    header += b" " * (-(_LENGTH_BYTES + len(header)) % _ALIGNMENT)
    return len(header).to_bytes(_LENGTH_BYTES, "little") + header + payload


def split_frame(frame: bytes) -> tuple[bytes, Payload]:
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
    return frame[_LENGTH_BYTES:end], Payload(memoryview(frame)[end:])


def encode_media(value: object) -> str:
    """Base64 of `bytes` or `Raw`, for an encoder of JSON. Raises TypeError for any other value."""
    data = value.data if isinstance(value, Raw) else value
    if not isinstance(data, bytes):
        raise TypeError(f"{type(data).__name__} does not belong in a message")
    return pybase64.b64encode_as_string(data)
