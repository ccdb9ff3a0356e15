"""What can go wrong in a conversation, as a caller meets it."""

from __future__ import annotations

from antiphon.shared_schemas.wire import Error


class ClientError(Exception):
    """Base of everything the client raises on purpose. `message` is fit for showing to a person."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CannotConnect(ClientError):
    """No WebSocket could be opened; the message names the URL and the cause."""


class UnreadableMessage(ClientError):
    """The server sent something that is not of the protocol."""


class ServerError(ClientError):
    """The server's `error` message. `field` is the offending field's wire name, where there is one.

    The session goes on unless the connection closes as well (`SessionOver` follows then).
    """

    def __init__(self, error: Error) -> None:
        super().__init__(error.message)
        self.code = error.code
        self.field = error.field
        self.retryable = error.retryable


class SessionOver(ClientError):
    """The session has ended: nothing more can be asked of it. `close_code` is the WebSocket's."""

    def __init__(self, message: str, close_code: int | None = None) -> None:
        super().__init__(message)
        self.close_code = close_code
