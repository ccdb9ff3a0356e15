"""Which web pages may talk to this edge: its own, and those that are allowed by name."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}

ANY = "*"


class Origins:
    """Own origin by default. Raises ValueError on an entry that is no origin."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = frozenset(_entry(text) for text in allowed)

    def allow(self, origin: str | None, host: str | None) -> bool:
        """True when a page of `origin` may call `host`; what is no browser names no origin."""
        if origin is None or ANY in self._allowed:
            return True
        origin = origin.lower()
        return origin in self._allowed or same_origin(origin, host)


def same_origin(origin: str, host: str | None) -> bool:
    """Host and port are equal; the scheme is not compared, since a proxy may end the TLS."""
    try:
        page, asked = urlsplit(origin), urlsplit(f"//{host or ''}")
        ports = page.port, asked.port
    except ValueError:  # a port that is no number, brackets that do not close
        return False
    default = _PORTS.get(page.scheme)
    if default is None or not page.hostname:
        return False
    same_port = (ports[0] or default) == (ports[1] or default)
    return same_port and page.hostname == asked.hostname


def _entry(text: str) -> str:
    if text in (ANY, "null"):
        return text
    parts = urlsplit(text.rstrip("/").lower())
    if not (parts.scheme and parts.hostname) or parts.path or parts.query or parts.fragment:
        raise ValueError(f"allowed_origins: {text!r} is not like https://app.example")
    default = _PORTS.get(parts.scheme)
    netloc = parts.netloc
    if default is not None and parts.port == default:
        netloc = netloc.rpartition(":")[0]
    return f"{parts.scheme}://{netloc}"
