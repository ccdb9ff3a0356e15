"""Settings of who may come in, and how often."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from antiphon.broker.settings import BrokerSettings

_KEY = re.compile(r"[!-~]{16,256}")
"""Long enough not to be guessed; nothing that a header would have to escape."""

Listed = Annotated[tuple[str, ...], NoDecode]
"""A list, or one string with commas, as environment variables have it."""


class BadAccessSettings(ValueError):
    """The edge must not start with these: it would let in whom it should not, or nobody."""


class AccessSettings(BrokerSettings):
    """Keys, origins, proxies, and what one address may do."""

    model_config = SettingsConfigDict(hide_input_in_errors=True)  # it may be a key

    api_keys: Annotated[tuple[SecretStr, ...], NoDecode] = Field(
        default=(), description="keys of clients; none: everyone may come in"
    )
    api_keys_file: Path | None = Field(
        default=None, description="more of them, one per line; # begins a comment"
    )
    admin_token: SecretStr | None = Field(
        default=None, description="opens the admin routes, and everything else"
    )
    admin_token_file: Path | None = Field(default=None, description="a file that holds it")
    allowed_origins: Listed = Field(
        default=(),
        description="web origins beside the edge's own, as https://app.example; * for any",
    )
    trusted_proxies: Listed = Field(
        default=(), description="addresses or networks whose X-Forwarded-* headers are believed"
    )
    metrics_open: bool = Field(
        default=False,
        description="anyone may read /metrics; else it takes the admin token, or loopback",
    )
    max_sockets_per_address: int = Field(
        default=200, ge=0, description="connections of one address at once; 0: no limit"
    )
    max_connects_per_minute: int = Field(
        default=600, ge=0, description="new ones of one address per minute; 0: no limit"
    )

    @field_validator("api_keys", "allowed_origins", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @field_validator("api_keys")
    @classmethod
    def _long_keys(cls, keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for key in keys:
            check_key(key.get_secret_value())
        return keys

    @field_validator("admin_token")
    @classmethod
    def _long_token(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None:
            check_key(token.get_secret_value())
        return token

    def client_keys(self) -> list[str]:
        """All keys, those of the file included. Raises OSError or ValueError."""
        keys = [key.get_secret_value() for key in self.api_keys]
        return keys + (_lines(self.api_keys_file) if self.api_keys_file else [])

    def admin_key(self) -> str | None:
        """The admin token. Raises OSError or ValueError."""
        if self.admin_token is not None:
            return self.admin_token.get_secret_value()
        lines = _lines(self.admin_token_file) if self.admin_token_file else []
        return lines[0] if lines else None


def check_key(key: str) -> str:
    """Raises ValueError, which does not repeat the key."""
    if not _KEY.fullmatch(key):
        raise ValueError("keys are 16 to 256 printable ASCII characters without spaces")
    return key


def _lines(path: Path) -> list[str]:
    """An empty file is a mistake: it would open what was meant to be closed."""
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    keys = [check_key(line) for line in lines if line]
    if not keys:
        raise ValueError(f"{path} holds no key")
    return keys
