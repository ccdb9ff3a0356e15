"""What every door does first: one frame's size, its header if it is binary, and its JSON."""

from __future__ import annotations

import orjson

from edge.errors import NotJson
from shared_schemas.binary_frames import split_frame
from shared_schemas.errors import ErrorCode, InvalidInput
from shared_schemas.media import Payload


def open_frame(frame: str | bytes, max_bytes: int) -> tuple[object, Payload | None]:
    """One frame's JSON value, and what follows it in a binary frame.

    Raises NotJson, or InvalidInput for a frame that is too long or not in one piece.
    """
    check_size(len(frame), max_bytes)
    if isinstance(frame, str):
        return load_json(frame), None
    header, payload = split_frame(frame)
    return load_json(header), payload


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
