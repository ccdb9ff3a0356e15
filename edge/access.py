"""Who may come in: one guard for requests and handshakes alike, by key, by origin, by role."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterator
from hashlib import sha256

from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from antiphon.edge.access_settings import AccessSettings, BadAccessSettings
from antiphon.edge.addresses import Proxies, host_name, household, is_loopback, parse, peer
from antiphon.edge.errors import HttpError
from antiphon.edge.origins import Origins
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.ids import is_share_token

KEY_PROTOCOL = "antiphon.key."
"""A browser cannot set headers on a WebSocket: it offers this with the base64url of its key behind."""

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class Access:
    """The rules of one edge. Raises BadAccessSettings, or OSError for a file that cannot be read.

    Keys are kept and compared as digests, in constant time.
    """

    def __init__(self, settings: AccessSettings, host: str) -> None:
        try:
            keys, token = settings.client_keys(), settings.admin_key()
            self._origins = Origins(settings.allowed_origins)
            self._proxies = Proxies(settings.trusted_proxies)
        except ValueError as error:
            raise BadAccessSettings(str(error)) from None
        self._keys = [_digest(key) for key in keys]
        self._admin = [_digest(token)] if token is not None else []
        self._loopback_only = is_loopback(host)
        self._metrics_open = settings.metrics_open

    def check_client(self, connection: HTTPConnection) -> None:
        """Raises HttpError: 403 for a foreign page, 401 for a missing or unknown key."""
        self.check_origin(connection)
        if self._keys and not _known(connection, self._keys + self._admin):
            raise HttpError(401, ErrorCode.UNAUTHORIZED, "an API key is required")

    def check_admin(self, connection: HTTPConnection) -> None:
        """Raises HttpError: 401 for a missing or wrong token, 403 where there is none to give."""
        self.check_client(connection)
        if self._admin:
            if not _known(connection, self._admin):
                raise HttpError(401, ErrorCode.UNAUTHORIZED, "the admin token is required")
        elif not (self._loopback_only and _is_local(connection)):
            text = "admin routes are closed: set an admin token on the server"
            raise HttpError(403, ErrorCode.FORBIDDEN, text)

    def check_metrics(self, connection: HTTPConnection) -> None:
        """Raises HttpError, unless anyone may read the metrics."""
        if not self._metrics_open:
            self.check_admin(connection)

    def visitor(self, connection: HTTPConnection) -> str | None:
        """By what limits count this connection; None for this machine's own."""
        caller = self._proxies.caller(connection)
        return None if caller is None or caller.is_loopback else household(caller)

    def knocker(self, host: str) -> str | None:
        """By what a peer that has said nothing yet is counted; None for this machine and for proxies."""
        address = parse(host)
        if address is None or address.is_loopback or self._proxies.trust(address):
            return None
        return household(address)

    def check_origin(self, connection: HTTPConnection) -> None:
        """Raises HttpError: 403 for a foreign page."""
        origin = connection.headers.get("origin")
        if not self._origins.allow(origin, self._proxies.host(connection)):
            text = "pages of this origin may not use this server"
            raise HttpError(403, ErrorCode.ORIGIN_NOT_ALLOWED, text)


class Guard(SecurityBase):
    """The dependency that every route and every socket has; it also names itself in OpenAPI."""

    def __init__(self, name: str, description: str, *, admin: bool) -> None:
        self.model = HTTPBearer(description=description)
        self.scheme_name = name
        self._admin = admin

    async def __call__(self, connection: HTTPConnection) -> None:
        """Raises HttpError, for a socket before it is accepted."""
        access: Access = connection.app.state.edge.access
        if self._admin:
            access.check_admin(connection)
        else:
            access.check_client(connection)


class ReaderGuard(Guard):
    """For what is read of a recording: the token of a share link, which the route looks up, does for a key."""

    async def __call__(self, connection: HTTPConnection) -> None:
        """Raises HttpError."""
        if is_share_token(connection.path_params.get("session_id", "")):
            access: Access = connection.app.state.edge.access
            access.check_origin(connection)
        else:
            await super().__call__(connection)


class MetricsGuard(Guard):
    """As for the admin routes, unless the settings say that anyone may read the metrics."""

    async def __call__(self, connection: HTTPConnection) -> None:
        """Raises HttpError."""
        access: Access = connection.app.state.edge.access
        access.check_metrics(connection)


CLIENT = Guard("key", "An API key, where the server asks for one. Or: `X-Api-Key`.", admin=False)
READER = ReaderGuard("key", CLIENT.model.description or "", admin=False)
METRICS = MetricsGuard("admin", "The admin token, where metrics are not open.", admin=True)
ADMIN = Guard("admin", "The admin token. Or: `X-Api-Key`.", admin=True)


def presented(connection: HTTPConnection) -> Iterator[str]:
    """Every key that came with a connection; never one from its URL."""
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        yield key.strip()
    if header := connection.headers.get("x-api-key"):
        yield header.strip()
    for name in connection.scope.get("subprotocols", ()):
        if name.startswith(KEY_PROTOCOL):
            yield _decoded(name.removeprefix(KEY_PROTOCOL))


def _decoded(text: str) -> str:
    """base64url with or without padding; what is none matches no key."""
    text = text.rstrip("=")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return ""


def _known(connection: HTTPConnection, keys: list[bytes]) -> bool:
    matches = [
        hmac.compare_digest(_digest(key), known) for key in presented(connection) for known in keys
    ]
    return any(matches)


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()


def _is_local(connection: HTTPConnection) -> bool:
    """From this machine and for it, not through a proxy or under a name that was bent to it."""
    address = peer(connection)
    near = address is not None and address.is_loopback
    forwarded = any(header in connection.headers for header in _FORWARDED)
    return near and not forwarded and is_loopback(host_name(connection.headers.get("host")))
