"""Every way a session can go wrong, as the error message and the close code that a client gets."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.broker.errors import BrokerUnavailable, QueueFull, SessionExists, StaleFence
from antiphon.edge.protocols.contract import Close
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.server_messages import Error
from antiphon.shared_schemas.states import EndReason


class ClientGone(Exception):
    """The client closed the connection, or it broke."""


class SlowConsumer(Exception):
    """The client does not read what it is sent."""


class NotJson(Exception):
    """A frame that is not JSON text: the connection cannot go on."""


class Draining(Exception):
    """This edge is shutting down and takes no new session."""


class Replaced(Exception):
    """The client has another connection to its session by now."""


class ResumeExpired(Exception):
    """There is nothing that a client could come back to with this token."""


class PageOff(Exception):
    """An operator has switched this page off."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is currently disabled")


class TooManyConnections(Exception):
    """One address has, or opens, more connections than it may."""


class NoRoom(Exception):
    """This edge holds as many bytes of waiting requests as it may."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What to tell the client. `close` is None where the session goes on."""

    message: Error
    close: Close | None = None
    expected: bool = True


def error_message(
    code: ErrorCode | str, text: str, *, field: str | None = None, retryable: bool | None = None
) -> Error:
    """An `error` with its text under both names that clients look for."""
    return Error(error=text, message=text, code=str(code), field=field, retryable=retryable)


def explain(error: Exception) -> Fault:
    """The one place where exceptions become messages and close codes."""
    match error:
        case InvalidInput(code=ErrorCode.INVALID_SESSION_ID):
            return Fault(error_message(error.code, error.message, field=error.field), Close.POLICY)
        case InvalidInput():
            return Fault(error_message(error.code, error.message, field=error.field))
        case NotJson():
            return _closing(ErrorCode.INVALID_JSON, str(error), Close.UNSUPPORTED)
        case SessionExists():
            text = str(error)
            message = error_message(ErrorCode.SESSION_EXISTS, text, field="session_id")
            return Fault(message, Close.POLICY)
        case QueueFull() | NoRoom() | TooManyConnections() | Draining() | BrokerUnavailable():
            return _try_later(error)
        case PageOff():
            return _closing(ErrorCode.PAGE_OFF, str(error), Close.POLICY)
        case StaleFence():
            text = "the session was taken over or is over"
            return _closing(ErrorCode.SESSION_EXISTS, text, Close.POLICY)
        case _:
            message = error_message(ErrorCode.INTERNAL, "internal error", retryable=True)
            return Fault(message, Close.INTERNAL, expected=False)


def _try_later(error: Exception) -> Fault:
    match error:
        case QueueFull() | NoRoom():
            return _retryable(ErrorCode.QUEUE_FULL, str(error))
        case TooManyConnections():
            return _retryable(ErrorCode.RATE_LIMITED, str(error))
        case Draining():
            return _retryable(ErrorCode.SERVER_SHUTDOWN, "this server is shutting down; reconnect")
        case _:
            return _retryable(ErrorCode.BROKER_UNAVAILABLE, "the server's store does not answer")


def _closing(code: ErrorCode, text: str, close: Close) -> Fault:
    return Fault(error_message(code, text, retryable=False), close)


def _retryable(code: ErrorCode, text: str) -> Fault:
    return Fault(error_message(code, text, retryable=True), Close.TRY_LATER)


def explain_end(reason: EndReason | None) -> Fault:
    """What to tell a client whose session ended under it, for a reason that is not its own."""
    match reason:
        case EndReason.CANCELLED:
            return _closing(ErrorCode.CANCELLED, "the session was cancelled", Close.POLICY)
        case EndReason.WORKER_LOST:
            return _retryable(ErrorCode.WORKER_LOST, "the worker was lost and no other took over")
        case EndReason.SERVER_SHUTDOWN:
            return _retryable(ErrorCode.SERVER_SHUTDOWN, "the worker is shutting down; reconnect")
        case EndReason.CONTEXT_FULL:
            return _closing(ErrorCode.CONTEXT_FULL, "the context is full", Close.INTERNAL)
        case EndReason.EDGE_LOST | None:
            return _retryable(
                ErrorCode.BROKER_UNAVAILABLE, "the server lost sight of this session; start anew"
            )
        case _:
            message = error_message(
                ErrorCode.INTERNAL, f"the session ended ({reason})", retryable=True
            )
            return Fault(message, Close.INTERNAL)
