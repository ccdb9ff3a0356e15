"""Where a session's WebSocket is."""

from __future__ import annotations

import ipaddress
import secrets
import time
from urllib.parse import SplitResult, urlsplit, urlunsplit

from client.errors import CannotConnect

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


def new_session_id(*, video: bool = False) -> str:
    """A fresh id whose prefix names the kind: `adx_` audio, `omni_` audio and frames."""
    prefix = "omni" if video else "adx"
    return f"{prefix}_{int(time.time() * 1000):x}_{secrets.token_hex(4)}"


def duplex_url(url: str, session_id: str, *, timing: bool = False) -> str:
    """The address under an edge's `url`; `http` becomes `ws`, a path stays in front.

    Raises CannotConnect when `url` is no such address.
    """
    parts = urlsplit(url if "//" in url else f"ws://{url}")
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise CannotConnect(f"{url!r} is no address of an edge; one looks like ws://127.0.0.1:8006")
    path = f"{parts.path.rstrip('/')}/ws/duplex/{session_id}"
    query = "&".join(part for part in (parts.query, "timing=1" if timing else "") if part)
    return urlunsplit(SplitResult(_SCHEMES[parts.scheme], parts.netloc, path, query, ""))


def is_loopback(address: str) -> bool:
    """True when the address is on this machine, where no proxy may come between."""
    host = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
