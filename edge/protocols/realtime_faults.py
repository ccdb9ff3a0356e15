"""Faults and ends in the words of `/v1/realtime`, which knows nine codes and five reasons."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.edge.errors import Close, Fault
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.realtime_messages import (
    ClosedReason,
    ErrorEvent,
    RealtimeCode,
    SessionClosed,
)
from antiphon.shared_schemas.states import EndReason
from antiphon.shared_schemas.wire import ServerMessage

_SILENT = frozenset({ErrorCode.INPUT_BACKPRESSURE, ErrorCode.INVALID_JSON})
"""Too much audio is dropped without a word, and bad JSON is answered by the close code alone."""

_CODES: dict[str, RealtimeCode] = {
    ErrorCode.NOT_READY: RealtimeCode.NOT_READY,
    ErrorCode.UNKNOWN_TYPE: RealtimeCode.UNKNOWN_EVENT,
    ErrorCode.MISSING_FIELD: RealtimeCode.MISSING_FIELD,
    ErrorCode.INVALID_FIELD: RealtimeCode.INVALID_PAYLOAD,
    ErrorCode.MESSAGE_TOO_LARGE: RealtimeCode.INVALID_PAYLOAD,
    ErrorCode.QUEUE_FULL: RealtimeCode.QUEUE_FULL,
    ErrorCode.WORKER_LOST: RealtimeCode.WORKER_CONNECT_FAILED,
    ErrorCode.BROKER_UNAVAILABLE: RealtimeCode.SERVICE_UNAVAILABLE,
    ErrorCode.SERVER_SHUTDOWN: RealtimeCode.SERVICE_UNAVAILABLE,
    ErrorCode.RATE_LIMITED: RealtimeCode.SERVICE_UNAVAILABLE,
    ErrorCode.PAGE_OFF: RealtimeCode.SERVICE_UNAVAILABLE,
    ErrorCode.INFERENCE_ERROR: RealtimeCode.INFERENCE_ERROR,
}

CLOSED_AS: dict[EndReason, tuple[ClosedReason, Close]] = {
    EndReason.STOPPED: (ClosedReason.STOPPED, Close.NORMAL),
    EndReason.PAUSE_TIMEOUT: (ClosedReason.TIMEOUT, Close.NORMAL),
    EndReason.CONTEXT_FULL: (ClosedReason.CONTEXT_FULL, Close.NORMAL),
    EndReason.SERVER_SHUTDOWN: (ClosedReason.SERVER_SHUTDOWN, Close.RESTART),
    EndReason.CANCELLED: (ClosedReason.ERROR, Close.POLICY),
    EndReason.ERROR: (ClosedReason.ERROR, Close.INTERNAL),
}
"""Ends that are told by `session.closed`; the others are an `error` and 1013."""


def error_event(code: str, text: str) -> ErrorEvent:
    """An error of the pipeline under the document's code; what has none failed in the engine."""
    return ErrorEvent.of(_CODES.get(code, RealtimeCode.INFERENCE_ERROR), text)


def realtime(fault: Fault) -> Sequence[ServerMessage]:
    """What to tell of a fault."""
    code = fault.message.code
    if code in _SILENT:
        return []
    if fault.close is Close.RESTART:
        return [SessionClosed(reason=ClosedReason.SERVER_SHUTDOWN)]
    if fault.close is None or code in _CODES:
        return [error_event(code, fault.message.message)]
    return [SessionClosed(reason=ClosedReason.ERROR)]
