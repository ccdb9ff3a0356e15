"""What every door does first: one frame's size and JSON."""

from __future__ import annotations

import orjson

from edge.errors import NotJson
from shared_schemas.errors import ErrorCode, InvalidInput


def parse_json(frame: str | bytes, max_bytes: int) -> object:
    """One frame's JSON value. Raises NotJson, or InvalidInput when it is too long."""
    if isinstance(frame, bytes):
        raise NotJson("binary frames are not taken here; send JSON text")
    check_size(len(frame), max_bytes)
    return load_json(frame)


def load_json(text: str | bytes) -> object:
    """Raises NotJson."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NotJson(f"not valid JSON: {error}") from None


def check_size(size: int, max_bytes: int) -> None:
    """Raises InvalidInput with `message_too_large`."""
    if size > max_bytes:
        raise InvalidInput(
            f"message of {size} bytes, the limit is {max_bytes}",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )
