"""Messages as WebSocket frames: JSON text with base64, or `antiphon.binary.v1` with raw bytes.

A binary frame is a 4-byte little-endian header length, the header, and the payload. The header is the
message as JSON with `{"at", "bytes", "format"}` instead of base64; `at` is an offset in the payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pybase64

from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.media import Payload, Raw

BINARY_PROTOCOL = "antiphon.binary.v1"
PLAIN_PROTOCOL = "antiphon.v1"

_LENGTH_BYTES = 4
_ALIGNMENT = 4
"""The payload starts at a multiple of this, so that an array of floats can use it without a copy."""


def to_text(message: Mapping[str, Any]) -> str:
    """JSON text; `bytes` and `Raw` values become base64."""
    return orjson.dumps(message, _base64, orjson.OPT_PASSTHROUGH_DATACLASS).decode()


def to_frame(message: Mapping[str, Any]) -> str | bytes:
    """A binary frame, or text when the message has no bytes.

    Audio is a `Raw` value and sent with its format; an image is `bytes`.
    """
    payload = bytearray()

    def refer(value: object) -> Any:
        raw = value if isinstance(value, Raw) else Raw(_bytes(value))
        if not raw.data:
            return ""
        reference: dict[str, Any] = {"at": len(payload), "bytes": len(raw.data)}
        payload.extend(raw.data)
        return reference | ({"format": str(raw.pcm)} if isinstance(value, Raw) else {})

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


def _base64(value: object) -> str:
    return pybase64.b64encode_as_string(value.data if isinstance(value, Raw) else _bytes(value))


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} does not belong in a message")
    return value
