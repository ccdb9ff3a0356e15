"""Audio and images in messages: base64 in JSON text, or bytes after the header of a binary frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import GetPydanticSchema, ValidationInfo, ValidatorFunctionWrapHandler
from pydantic_core import PydanticCustomError, core_schema

from antiphon.shared_schemas.audio import PcmFormat

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
