"""Addresses of WebSockets on an edge, and new session ids."""

from __future__ import annotations

import ipaddress
import secrets
import time
from urllib.parse import SplitResult, urlencode, urlsplit, urlunsplit

from antiphon.client.errors import CannotConnect

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_ROUTES = ("/ws/", "/v1/")
_DEFAULT_PORT = 8006


def new_session_id(prefix: str) -> str:
    """A new id. Its prefix is the kind: `adx` audio, `omni` audio and frames, `hdx` half-duplex."""
    return f"{prefix}_{int(time.time() * 1000):x}_{secrets.token_hex(4)}"


def edge_address(url: str, path: str, **query: str | None) -> str:
    """The address of `path` under an edge's `url`; `http` becomes `ws`, a path of `url` is kept.

    A `url` without a scheme has the edge's default port. Omits query values that are None. Raises
    CannotConnect if `url` is not an address of an edge.
    """
    parts = urlsplit(url if "//" in url else f"ws://{url}")
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise CannotConnect(f"{url!r} is no address of an edge; one looks like ws://127.0.0.1:8006")
    if parts.path.startswith(_ROUTES):
        base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        raise CannotConnect(f"{url!r} has the path of a session; give the edge's address: {base}")
    netloc = parts.netloc
    if "//" not in url and parts.port is None:
        netloc = f"{netloc.rstrip(':')}:{_DEFAULT_PORT}"
    added = urlencode({name: value for name, value in query.items() if value is not None})
    joined = "&".join(part for part in (parts.query, added) if part)
    whole = f"{parts.path.rstrip('/')}{path}"
    return urlunsplit(SplitResult(_SCHEMES[parts.scheme], netloc, whole, joined, ""))


def is_loopback_url(address: str) -> bool:
    """True if the address is on this machine, so that no proxy is used."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
