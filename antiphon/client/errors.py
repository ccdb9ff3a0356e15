"""The errors that the client raises."""

from __future__ import annotations

from antiphon.shared_schemas.wire import Error


class ClientError(Exception):
    """Base of all errors that the client raises. `message` is suitable for display to users."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CannotConnect(ClientError):
    """No WebSocket could be opened; the message names the server and the cause."""


class Unauthorized(CannotConnect):
    """The edge needs an API key, or does not know the given one (status 401)."""


class Forbidden(CannotConnect):
    """The edge refuses this client (status 403)."""


class ServiceUnavailable(CannotConnect):
    """The edge is full, or is stopping (status 503); a later try may succeed."""


class UnknownRecording(ClientError):
    """The edge has no such recording or file, or the client may not use the id of its session."""


class InvalidAudio(ClientError, ValueError):
    """The program's audio cannot be sent; the message says what is needed."""


class NoAnswer(ClientError):
    """The model did not answer a question in time, or no worker runs a model for it."""


class UnreadableMessage(ClientError):
    """The server sent a message that does not follow the protocol."""


class ServerError(ClientError):
    """The server's `error` message. `field` is the wire name of the invalid field, if any.

    The session continues unless the connection closes as well; then `SessionOver` follows.
    """

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.code = error.code
        self.field = error.field
        self.retryable = error.retryable


class SessionOver(ClientError):
    """The session has ended. `close_code` is that of the WebSocket."""

    def __init__(self, message: str, close_code: int | None = None) -> None:
        super().__init__(message)
        self.close_code = close_code
