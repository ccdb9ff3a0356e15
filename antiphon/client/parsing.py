"""Parses server messages from the wire into the records of `shared_schemas`."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any, get_args, get_type_hints

import orjson
import pybase64
from pydantic import TypeAdapter, ValidationError

from antiphon.client.errors import UnreadableMessage
from antiphon.shared_schemas.audio import float_bytes, samples_from_bytes
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.wire import MediaBytes, Payload, ServerMessage, split_frame

_BLANKS: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: False, bytes: b""}
_SOUND = (bytes, bytes | None)


@dataclass(frozen=True, slots=True)
class _Kind:
    adapter: TypeAdapter[Any]
    blanks: dict[str, Any]
    sounds: tuple[str, ...]

    @classmethod
    def of(cls, kind: type[ServerMessage]) -> _Kind:
        hints = get_type_hints(kind)
        names = [item.name for item in fields(kind)]
        required = [item.name for item in fields(kind) if item.default is MISSING]
        blanks = {name: _BLANKS.get(hints[name]) for name in required}
        return cls(TypeAdapter(kind), blanks, tuple(n for n in names if hints[n] in _SOUND))


class Parser:
    """Parses the messages of one protocol, given as a union; audio of any format becomes float32."""

    def __init__(self, messages: Any) -> None:
        self._kinds = {kind.type: _Kind.of(kind) for kind in get_args(messages)}

    def parse(self, frame: str | bytes) -> ServerMessage | None:
        """Parse one message; None for a type that this version does not know.

        Ignores unknown fields and leaves missing ones blank, for compatibility with older and newer
        servers. Raises UnreadableMessage for any other mismatch.
        """
        try:
            data, payload = _open(frame)
            kind = self._kinds.get(data["type"])
            if kind is None:
                return None
            sounds = {n: _sound(data[n], payload) for n in kind.sounds if data.get(n) is not None}
            message: ServerMessage = kind.adapter.validate_python(kind.blanks | data | sounds)
        except (KeyError, TypeError, ValueError, InvalidInput, ValidationError) as error:
            raise UnreadableMessage(f"the server sent something unreadable: {error}") from error
        return message


def _open(frame: str | bytes) -> tuple[dict[str, Any], Payload | None]:
    header, payload = (frame, None) if isinstance(frame, str) else split_frame(frame)
    return orjson.loads(header), payload


def _sound(value: Any, payload: Payload | None) -> bytes:
    if isinstance(value, dict) and payload is not None:
        raw = payload.part(value)
    else:
        raw = MediaBytes(pybase64.b64decode(value, validate=True))
    return float_bytes(samples_from_bytes(raw.data, raw.pcm))
