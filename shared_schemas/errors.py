"""Errors that are reported to clients, and the texts for invalid input."""

from collections.abc import Sequence
from enum import StrEnum

from pydantic import ValidationError

from antiphon.shared_schemas.long_bytes import LongText


class ErrorCode(StrEnum):
    """Machine-readable cause of an error message."""

    INVALID_JSON = "invalid_json"
    UNKNOWN_TYPE = "unknown_type"
    MISSING_FIELD = "missing_field"
    INVALID_FIELD = "invalid_field"
    UNKNOWN_FIELD = "unknown_field"
    MESSAGE_TOO_LARGE = "message_too_large"
    TOO_COMPLEX = "too_complex"
    NOT_READY = "not_ready"
    PAUSED = "paused"
    INVALID_SESSION_ID = "invalid_session_id"
    SESSION_EXISTS = "session_exists"
    QUEUE_FULL = "queue_full"
    STORE_FULL = "store_full"
    NO_WORKER = "no_worker"
    SLOW_CONSUMER = "slow_consumer"
    INPUT_BACKPRESSURE = "input_backpressure"
    INFERENCE_ERROR = "inference_error"
    CONTEXT_FULL = "context_full"
    WORKER_LOST = "worker_lost"
    CANCELLED = "cancelled"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    ORIGIN_NOT_ALLOWED = "origin_not_allowed"
    HOST_NOT_ALLOWED = "host_not_allowed"
    RATE_LIMITED = "rate_limited"
    PAGE_OFF = "page_off"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UPGRADE_REQUIRED = "upgrade_required"
    VOICES_FULL = "voices_full"
    SHARES_FULL = "shares_full"
    NO_RECORDINGS = "no_recordings"
    DISK_FULL = "disk_full"
    BROKER_UNAVAILABLE = "broker_unavailable"
    SERVER_SHUTDOWN = "server_shutdown"
    INTERNAL = "internal"


PART_TAGS = frozenset({"text", "audio", "image", "video"})
"""Tags of content parts, which pydantic adds to the path of an error."""

_MAX_PART_CHARS = 64
_MAX_NAME_CHARS = 256
_MAX_TEXT_CHARS = 500
"""Names and texts of errors are cut here: a client chooses the names of unknown fields."""


class InvalidInput(ValueError):
    """Invalid input of a client; the session continues.

    `field` is the wire name of the invalid field, or None for the message as a whole.
    """

    def __init__(
        self, message: str, *, field: str | None = None, code: ErrorCode = ErrorCode.INVALID_FIELD
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.code = code


def from_validation(error: ValidationError, *, skip: int = 0) -> InvalidInput:
    """Name the first invalid field of a pydantic error; `skip` drops leading union tags.

    In a list of variants, the tag after an index (`content.0.image.data`) is not a field either.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    text = "is too long" if isinstance(first["input"], LongText) else first["msg"]
    return name_field(first["type"], text, first["loc"][skip:])


def name_field(kind: str, text: str, location: Sequence[int | str]) -> InvalidInput:
    """The error of a field, from the parts of a pydantic error."""
    name = field_name(_path(location))
    if kind == "missing":
        text = f"{name or 'a body'} is required"
        return InvalidInput(text, field=name, code=ErrorCode.MISSING_FIELD)
    if kind == "extra_forbidden":
        return InvalidInput(f"{name}: unknown field", field=name, code=ErrorCode.UNKNOWN_FIELD)
    text = text[0].lower() + text[1:_MAX_TEXT_CHARS]
    return InvalidInput(f"{name or 'message'}: {text}", field=name)


def field_name(path: Sequence[int | str]) -> str | None:
    """The path of a field, such as `messages.0.content`; None for the message as a whole."""
    return ".".join(str(part)[:_MAX_PART_CHARS] for part in path)[:_MAX_NAME_CHARS] or None


def _path(location: Sequence[int | str]) -> list[int | str]:
    return [
        part
        for index, part in enumerate(location)
        if not (part in PART_TAGS and index and isinstance(location[index - 1], int))
    ]
