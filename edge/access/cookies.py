"""Cookies of handshakes: they let a browser stop its own answers by HTTP, and give no other access.

Pages of other origins can neither read them nor send them.
"""

from __future__ import annotations

import re

from starlette.requests import HTTPConnection

from antiphon.edge.access.guards import AccessPolicy
from antiphon.shared_schemas.ids import client_digest, is_session_id, new_client_secret

CHAT = "antiphon_chat"
"""The id of the chat that a browser began last: the stop button of its page sends no id."""

CLIENT = "antiphon_client"
"""A browser's secret: it proves that a request comes from the browser that opened a session."""

_SECRET = re.compile(r"[A-Za-z0-9_-]{32}")

Headers = list[tuple[bytes, bytes]]


def remember_chat(socket: HTTPConnection, sid: str) -> Headers:
    """The header of a handshake; none for a client that resumes its chat."""
    return [] if "resume_token" in socket.query_params else _header(socket, CHAT, sid)


def remembered_chat(request: HTTPConnection) -> str | None:
    sid = request.cookies.get(CHAT)
    return sid if sid and is_session_id(sid) else None


def identify_client(socket: HTTPConnection) -> tuple[str, Headers]:
    """The digest of the client's secret, and the header of a handshake that gives it a new one."""
    if owner := client_owner(socket):
        return owner, []
    secret = new_client_secret()
    return client_digest(secret), _header(socket, CLIENT, secret)


def client_owner(request: HTTPConnection) -> str:
    """The digest of the secret that a request presents; '' without one."""
    secret = request.cookies.get(CLIENT, "")
    return client_digest(secret) if _SECRET.fullmatch(secret) else ""


def _header(socket: HTTPConnection, name: str, value: str) -> Headers:
    access: AccessPolicy = socket.app.state.edge.access
    secure = "; Secure" if access.is_secure(socket) else ""
    cookie = f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}"
    return [(b"set-cookie", cookie.encode())]
