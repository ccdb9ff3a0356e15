"""Cookie with the last chat of a browser: the page's stop button sends no chat id."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from antiphon.shared_schemas.ids import is_session_id

_COOKIE = "antiphon_chat"


def remember_chat(socket: HTTPConnection, name: str) -> list[tuple[bytes, bytes]]:
    """Handshake headers that set the cookie; none for a client that resumes its chat.

    Pages of other origins can neither read nor send the cookie.
    """
    if "resume_token" in socket.query_params:
        return []
    secure = "; Secure" if socket.url.scheme == "wss" else ""
    value = f"{_COOKIE}={name}; Path=/; HttpOnly; SameSite=Strict{secure}"
    return [(b"set-cookie", value.encode())]


def remembered_chat(request: HTTPConnection) -> str | None:
    """The id of the browser's last chat, if it sent a valid one."""
    name = request.cookies.get(_COOKIE)
    return name if name and is_session_id(name) else None
