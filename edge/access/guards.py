"""Access checks of requests and WebSocket handshakes: API key, admin token, web origin, cookies.

Cookies let a browser stop its own answers by HTTP, and give no other access. Pages of other origins can
neither read them nor send them.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256

from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from antiphon.broker.settings import ENV_PREFIX, InvalidSettings
from antiphon.edge.access.addresses import (
    AllowedHosts,
    AllowedOrigins,
    TrustedProxies,
    host_name,
    is_loopback,
    parse_peer,
    peer_address,
    rate_limit_key,
)
from antiphon.edge.access.client_secrets import ClientSecret, read_secret
from antiphon.edge.errors import HttpError
from antiphon.edge.openai_clients import OPENAI_KEY_PROTOCOL, opens_realtime
from antiphon.edge.settings import AccessSettings
from antiphon.shared_schemas.errors import ErrorCode
from antiphon.shared_schemas.ids import (
    client_digest,
    is_session_id,
    is_share_token,
    new_client_secret,
)

KEY_PROTOCOL = "antiphon.key."
"""Prefix of a WebSocket subprotocol that holds the base64url of a key. Browsers cannot set headers."""

_PROXY_HEADERS = (
    "cf-",
    "client-ip",
    "fastly-",
    "fly-",
    "forwarded",
    "true-client-ip",
    "via",
    "x-client-",
    "x-cluster-client-",
    "x-envoy-",
    "x-forwarded",
    "x-original-",
    "x-real-",
)
"""Beginnings of the names of headers that proxies add."""

_HTTP_OF_NGINX = "1.0"
"""nginx adds no headers unless it is configured to, and uses this version for its requests."""


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    """Raise InvalidSettings with the setting's name for errors of its value or its file."""
    try:
        yield
    except OSError as error:
        reason = f"{error.filename} cannot be read ({error.strerror})"
        raise InvalidSettings(f"{ENV_PREFIX}{setting.upper()}: {reason}") from None
    except ValueError as error:
        raise InvalidSettings(f"{ENV_PREFIX}{setting.upper()}: {error}") from None


class AccessPolicy:
    """Access rules of one edge. Raises InvalidSettings.

    Keeps digests of keys and compares them in constant time.
    """

    def __init__(self, settings: AccessSettings, host: str) -> None:
        with _naming("api_keys_file"):
            keys = settings.client_keys()
        with _naming("admin_token_file"):
            token = settings.admin_key()
        with _naming("twilio_auth_token_file"):
            self._twilio_token = settings.twilio_auth_token()
        with _naming("allowed_origins"):
            self._origins = AllowedOrigins(settings.allowed_origins)
        with _naming("trusted_proxies"):
            self._proxies = TrustedProxies(settings.trusted_proxies)
        self._keys = [_digest(key) for key in keys]
        self._admin = [_digest(token)] if token is not None else []
        self._loopback_only = is_loopback(host)
        unprotected = self._loopback_only and not self._keys and not self._origins.any
        strict = unprotected or bool(settings.allowed_hosts)
        self._hosts = AllowedHosts([*settings.allowed_hosts, *self._origins.hosts()], strict=strict)

    @property
    def open_to_everyone(self) -> bool:
        """Anyone who can reach the edge can use it."""
        return not self._keys and not self._loopback_only

    @property
    def digests(self) -> tuple[list[bytes], list[bytes]]:
        """Of the clients' keys, and of the admin token."""
        return self._keys, self._admin

    def check_client(self, connection: HTTPConnection) -> None:
        """Raises HttpError: 403 for a foreign web page, 401 for a missing or unknown key."""
        self.check_origin(connection)
        if not self._keys or _has_key(connection, self._keys + self._admin):
            return
        if not (opens_realtime(connection) and self.client_secret(connection)):
            given = any(presented_keys(connection))
            said = "the API key is unknown" if given else "an API key is required"
            raise HttpError(401, ErrorCode.UNAUTHORIZED, said)

    def check_twilio(self, connection: HTTPConnection) -> None:
        """Raises HttpError: 403 if no token is set, or if the signature is not that of Twilio."""
        self.check_origin(connection)
        if self._twilio_token is None:
            text = f"calls are closed: set {ENV_PREFIX}TWILIO_AUTH_TOKEN_FILE on the server"
            raise HttpError(403, ErrorCode.FORBIDDEN, text)
        host = self._proxies.requested_host(connection) or ""
        urls = signed_urls(host, connection.url.path, secure=self.is_secure(connection))
        signature = connection.headers.get("x-twilio-signature", "")
        if not is_signed(signature, self._twilio_token, urls):
            text = "X-Twilio-Signature does not match this address and the token of the server"
            raise HttpError(403, ErrorCode.FORBIDDEN, text)

    def check_reader(self, connection: HTTPConnection) -> None:
        """Accepts the token of a share link as a key; the route looks the token up."""
        if is_share_token(connection.path_params.get("session_id", "")):
            self.check_origin(connection)
        else:
            self.check_client(connection)

    def check_admin(self, connection: HTTPConnection) -> None:
        """Raises HttpError: 401 for a missing or wrong token, 403 if the server has no token."""
        self.check_client(connection)
        if self._admin:
            if not _has_key(connection, self._admin):
                raise HttpError(401, ErrorCode.UNAUTHORIZED, "the admin token is required")
        elif not (self._loopback_only and _is_local(connection)):
            text = "admin routes are closed: set an admin token on the server"
            raise HttpError(403, ErrorCode.FORBIDDEN, text)

    def is_admin(self, connection: HTTPConnection) -> bool:
        """True for a request that `check_admin` accepts."""
        try:
            self.check_admin(connection)
        except HttpError:
            return False
        return True

    def is_secure(self, connection: HTTPConnection) -> bool:
        """True if the client uses TLS, to this edge or to a trusted proxy."""
        if self._proxies.trust(peer_address(connection)):
            forwarded = connection.headers.get("x-forwarded-proto", "")
            return forwarded.rpartition(",")[2].strip().lower() in ("https", "wss")
        return connection.url.scheme in ("https", "wss")

    def check_origin(self, connection: HTTPConnection) -> None:
        """Raises HttpError: 403 for a foreign web page, also one whose name points at this edge."""
        origin, host = connection.headers.get("origin"), self._proxies.requested_host(connection)
        if not self._hosts.allow(host) and not self._proxies.trust(peer_address(connection)):
            text = "this host name may not be used here: add it to allowed_hosts on the server"
            raise HttpError(403, ErrorCode.HOST_NOT_ALLOWED, text)
        if not self._origins.allow(origin, host):
            text = "pages of this origin may not use this server"
            raise HttpError(403, ErrorCode.ORIGIN_NOT_ALLOWED, text)

    def client_limit_key(self, connection: HTTPConnection) -> str | None:
        """Rate limit key of a request's client; None for loopback."""
        client = self._proxies.client_address(connection)
        return None if client is None or client.is_loopback else rate_limit_key(client)

    def client_secret(self, connection: HTTPConnection) -> ClientSecret | None:
        """The secret that a connection presents instead of a key, if it is valid."""
        keys = self._signing_keys()
        found = (read_secret(key, keys) for key in presented_keys(connection))
        return next((secret for secret in found if secret is not None), None)

    def sign(self, connection: HTTPConnection, secret: ClientSecret) -> str:
        """The text of a secret, signed with the key of this request. Raises ValueError."""
        presented = [_digest(key) for key in presented_keys(connection)]
        keys = self._signing_keys()
        return secret.signed(next((key for key in keys if key in presented), keys[0]))

    def _signing_keys(self) -> list[bytes]:
        """Without keys everyone may connect, so a secret needs no protection."""
        return [*self._keys, *self._admin] or [_digest("")]

    def client_id(self, connection: HTTPConnection) -> str:
        """Whose sessions are counted together: a key's, or an address's. '' for loopback and admins."""
        secret = self.client_secret(connection)
        if secret is not None and (self._keys or self._admin):  # else everyone can make one
            return secret.client
        keys = [_digest(key) for key in presented_keys(connection)]
        for digest in self._keys:
            if digest in keys:
                return f"key:{digest.hex()[:16]}"
        if any(digest in keys for digest in self._admin):
            return ""
        address = self.client_limit_key(connection)
        return f"address:{address}" if address else ""

    def peer_limit_key(self, host: str) -> str | None:
        """Rate limit key of a peer that has sent no request; None for loopback and for proxies."""
        address = parse_peer(host)
        if address is None or address.is_loopback or self._proxies.trust(address):
            return None
        return rate_limit_key(address)


class Guard(SecurityBase):
    """Dependency of every route and socket; also the security scheme in OpenAPI.

    Raises HttpError, for a socket before the handshake is accepted.
    """

    def __init__(
        self, name: str, description: str, check: Callable[[AccessPolicy, HTTPConnection], None]
    ) -> None:
        self.model = HTTPBearer(description=description)
        self.scheme_name = name
        self._check = check

    async def __call__(self, connection: HTTPConnection) -> None:
        self._check(connection.app.state.edge.access, connection)


_KEY_TEXT = "An API key, if the server requires one. Or: `X-Api-Key`."
_ADMIN_TEXT = "The admin token. Or: `X-Api-Key`."
CLIENT = Guard("key", _KEY_TEXT, AccessPolicy.check_client)
TWILIO = Guard("twilio", "The signature of Twilio.", AccessPolicy.check_twilio)
READER = Guard("key", _KEY_TEXT, AccessPolicy.check_reader)
ADMIN = Guard("admin", _ADMIN_TEXT, AccessPolicy.check_admin)


def presented_keys(connection: HTTPConnection) -> Iterator[str]:
    """Every key in the headers of a connection. Keys in the URL are ignored."""
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        yield key.strip()
    if header := connection.headers.get("x-api-key"):
        yield header.strip()
    for name in connection.scope.get("subprotocols", ()):
        if name.startswith(KEY_PROTOCOL):
            yield _from_base64url(name.removeprefix(KEY_PROTOCOL))
        elif name.startswith(OPENAI_KEY_PROTOCOL):
            yield name.removeprefix(OPENAI_KEY_PROTOCOL)


def _from_base64url(text: str) -> str:
    """Padding is optional. Invalid text becomes '', which matches no key."""
    text = text.rstrip("=")
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return ""


def _has_key(connection: HTTPConnection, digests: list[bytes]) -> bool:
    matches = [
        hmac.compare_digest(_digest(key), digest)
        for key in presented_keys(connection)
        for digest in digests
    ]
    return any(matches)


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()


def _is_local(connection: HTTPConnection) -> bool:
    """True for a direct request from this machine under a loopback name.

    The name matters: a web page can point its own host name at 127.0.0.1. A proxy on this machine must
    not turn its clients into administrators.
    """
    address = peer_address(connection)
    near = address is not None and address.is_loopback
    forwarded = connection.scope.get("http_version") == _HTTP_OF_NGINX or any(
        name.startswith(_PROXY_HEADERS) for name in connection.headers
    )
    return near and not forwarded and is_loopback(host_name(connection.headers.get("host")))


_CHAT_COOKIE = "antiphon_chat"
"""The id of the chat that a browser began last: the stop button of its page sends no id."""

_CLIENT_COOKIE = "antiphon_client"
"""A browser's secret: it proves that a request comes from the browser that opened a session."""

_CLIENT_PROTOCOL = "antiphon.client."
"""Prefix of a WebSocket subprotocol that holds such a secret."""

_CLIENT_SECRET = re.compile(r"[A-Za-z0-9_-]{32}")

Headers = list[tuple[bytes, bytes]]


def remember_chat(socket: HTTPConnection, sid: str) -> Headers:
    """The header of a handshake; none for a client that resumes its chat."""
    return [] if "resume_token" in socket.query_params else _header(socket, _CHAT_COOKIE, sid)


def remembered_chat(request: HTTPConnection) -> str | None:
    sid = request.cookies.get(_CHAT_COOKIE)
    return sid if sid and is_session_id(sid) else None


def identify_client(socket: HTTPConnection) -> tuple[str, Headers]:
    """The digest of the client's secret, and the header of a handshake that gives it a new one."""
    if owner := client_owner(socket):
        return owner, []
    secret = new_client_secret()
    return client_digest(secret), _header(socket, _CLIENT_COOKIE, secret)


def client_owner(request: HTTPConnection, in_body: str = "") -> str:
    """The digest of the secret that a request presents; '' without one.

    A browser that blocks cookies makes its own secret: it is in a subprotocol of the handshake, and in
    the body of later requests.
    """
    offered = (
        name.removeprefix(_CLIENT_PROTOCOL)
        for name in request.scope.get("subprotocols", ())
        if name.startswith(_CLIENT_PROTOCOL)
    )
    for secret in (in_body, *offered, request.cookies.get(_CLIENT_COOKIE, "")):
        if _CLIENT_SECRET.fullmatch(secret):
            return client_digest(secret)
    return ""


def _header(socket: HTTPConnection, name: str, value: str) -> Headers:
    access: AccessPolicy = socket.app.state.edge.access
    secure = "; Secure" if access.is_secure(socket) else ""
    cookie = f"{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}"
    return [(b"set-cookie", cookie.encode())]


def signature_of(token: str, url: str) -> str:
    """What Twilio sends as `X-Twilio-Signature` for a request without a body."""
    digest = hmac.new(token.encode(), url.encode(), hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def is_signed(signature: str, token: str, urls: Iterable[str]) -> bool:
    """Whether it is the signature of one of these addresses."""
    given = signature.encode()
    matches = [hmac.compare_digest(signature_of(token, url).encode(), given) for url in urls]
    return any(matches)


def signed_urls(host: str, path: str, *, secure: bool) -> Iterator[str]:
    """The addresses that Twilio may have signed: its documents and its requests differ in the details."""
    schemes = ("wss", "https") if secure else ("ws", "http")
    bare = path.rstrip("/")
    for scheme in schemes:
        yield f"{scheme}://{host}{bare}"
        yield f"{scheme}://{host}{bare}/"
