"""Which chat a browser began last: its page's stop button names none, so a cookie does."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from antiphon.shared_schemas.ids import is_session_id

_COOKIE = "antiphon_chat"


def remember_chat(socket: HTTPConnection, name: str) -> list[tuple[bytes, bytes]]:
    """Headers of a handshake; none for a client that comes back to its chat.

    Pages of other origins can neither read the cookie nor send it.
    """
    if "resume_token" in socket.query_params:
        return []
    secure = "; Secure" if socket.url.scheme == "wss" else ""
    value = f"{_COOKIE}={name}; Path=/; HttpOnly; SameSite=Strict{secure}"
    return [(b"set-cookie", value.encode())]


def remembered_chat(request: HTTPConnection) -> str | None:
    """The chat's id, if the client has one."""
    name = request.cookies.get(_COOKIE)
    return name if name and is_session_id(name) else None
