"""Keys for browsers (`ek_…`): they expire, open realtime sessions of OpenAI's API only, and have its settings.

They are signed with the key whose client has asked for them, so every edge can check them, and none stores
them. When that key is removed, they are void.
"""

import base64
import hmac
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

PREFIX = "ek_"
MAX_CHARS = 6000
"""It is sent in a header."""

_MAX_JSON_BYTES = 256 * 1024
_SIGNATURE_CHARS = 43


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """`client`: whose sessions it counts as; `session`: the settings that a session begins with."""

    expires_at: int
    client: str
    session: dict[str, Any]

    def signed(self, key: bytes) -> str:
        """As text. Raises ValueError if it would be too long."""
        content = [self.expires_at, self.client, self.session]
        text = _base64url(zlib.compress(orjson.dumps(content)))
        token = f"{PREFIX}{text}.{_signature(key, text)}"
        if len(token) > MAX_CHARS:
            raise ValueError("the settings are too long for a secret")
        return token


def read_secret(token: str, keys: Iterable[bytes]) -> ClientSecret | None:
    """What one of these keys has signed; None for anything else, and for what has expired."""
    text, _, signature = token.removeprefix(PREFIX).partition(".")
    if not token.startswith(PREFIX) or len(token) > MAX_CHARS:
        return None
    if len(signature) != _SIGNATURE_CHARS or not token.isascii():
        return None
    valid = [hmac.compare_digest(_signature(key, text), signature) for key in keys]
    if not any(valid):
        return None
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        content = zlib.decompressobj().decompress(packed, _MAX_JSON_BYTES)
        expires_at, client, session = orjson.loads(content)
    except (ValueError, TypeError, zlib.error):
        return None
    if not (isinstance(expires_at, int) and isinstance(client, str) and isinstance(session, dict)):
        return None
    return ClientSecret(expires_at, client, session) if expires_at > time.time() else None


def _signature(key: bytes, text: str) -> str:
    return _base64url(hmac.digest(key, f"{PREFIX}{text}".encode(), sha256))


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
