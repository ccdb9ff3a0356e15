"""Where a session's WebSocket is."""

from __future__ import annotations

import ipaddress
import secrets
import time
from urllib.parse import SplitResult, urlencode, urlsplit, urlunsplit

from antiphon.client.errors import CannotConnect

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


def new_session_id(prefix: str) -> str:
    """A fresh id; its prefix names the kind: `adx` audio, `omni` audio and frames, `hdx` half-duplex."""
    return f"{prefix}_{int(time.time() * 1000):x}_{secrets.token_hex(4)}"


def edge_address(url: str, path: str, **query: str | None) -> str:
    """The address of `path` under an edge's `url`; `http` becomes `ws`, a path stays in front.

    What is None in the query is left out. Raises CannotConnect when `url` is no such address.
    """
    parts = urlsplit(url if "//" in url else f"ws://{url}")
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise CannotConnect(f"{url!r} is no address of an edge; one looks like ws://127.0.0.1:8006")
    asked = urlencode({name: value for name, value in query.items() if value is not None})
    joined = "&".join(part for part in (parts.query, asked) if part)
    whole = f"{parts.path.rstrip('/')}{path}"
    return urlunsplit(SplitResult(_SCHEMES[parts.scheme], parts.netloc, whole, joined, ""))


def is_loopback(address: str) -> bool:
    """True when the address is on this machine, where no proxy may come between."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
