"""What the server sends."""

import secrets
from collections.abc import Sequence
from typing import Any

from antiphon.edge.errors import Fault
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.wire import ServerMessage

_CODES: dict[str, str] = {
    ErrorCode.INVALID_FIELD: "invalid_value",
    ErrorCode.UNKNOWN_TYPE: "invalid_value",
    ErrorCode.MISSING_FIELD: "missing_required_parameter",
    ErrorCode.INPUT_BACKPRESSURE: "rate_limit_exceeded",
    ErrorCode.RATE_LIMITED: "rate_limit_exceeded",
    ErrorCode.CONTEXT_FULL: "context_length_exceeded",
}
_CLIENTS_FAULT = frozenset(
    {
        *(ErrorCode.INVALID_FIELD, ErrorCode.UNKNOWN_TYPE, ErrorCode.MISSING_FIELD),
        *(ErrorCode.INVALID_JSON, ErrorCode.TOO_COMPLEX, ErrorCode.MESSAGE_TOO_LARGE),
        *(ErrorCode.INPUT_BACKPRESSURE, ErrorCode.CONTEXT_FULL, ErrorCode.NOT_READY),
        *(ErrorCode.PAGE_OFF, ErrorCode.RATE_LIMITED),
    }
)


class RealtimeEvent(ServerMessage, type="event"):
    """One event. Sound in `body` is bytes in the session's output format."""

    kind: str
    body: dict[str, Any]

    def wire(self) -> dict[str, Any]:
        return {"type": self.kind, "event_id": f"event_{secrets.token_hex(10)}", **self.body}


def event(kind: str, **body: Any) -> RealtimeEvent:
    return RealtimeEvent(kind=kind, body=body)


def error_event(
    message: str,
    code: str,
    param: str | None = None,
    event_id: str | None = None,
    kind: str = "invalid_request_error",
) -> RealtimeEvent:
    """`event_id` is that of the client's event which is not possible."""
    error = {"type": kind, "code": code, "message": message, "param": param, "event_id": event_id}
    return event("error", error=error)


def error_kind(code: str) -> str:
    return "invalid_request_error" if code in _CLIENTS_FAULT else "server_error"


def error_name(code: str) -> str:
    """The code that OpenAI's clients know, or our own."""
    return _CODES.get(code, str(code))


def encode_fault(
    fault: Fault, code: str | None = None, event_id: str | None = None
) -> Sequence[RealtimeEvent]:
    """`code` replaces that of the fault."""
    error = fault.message
    kind = error_kind(error.code)
    return [error_event(error.message, code or error_name(error.code), error.field, event_id, kind)]
