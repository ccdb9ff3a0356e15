"""Settings of every service: the address of Redis, and lifetimes of what is stored there."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

PRIVATE_FOLDER = 0o700
"""Mode of a new folder with data of conversations."""

PRIVATE_UMASK = 0o077
"""For processes that write data of conversations; also the bits that other users must not have."""


class AntiphonSettings(BaseSettings):
    """Read once at start-up: flags win over `ANTIPHON_*` variables, and these over `antiphon.toml`."""

    model_config = SettingsConfigDict(
        env_prefix="ANTIPHON_", toml_file="antiphon.toml", extra="ignore", frozen=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base class names it
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


class BrokerSettings(AntiphonSettings):
    """Settings of every service that uses Redis."""

    redis_url: str = "redis://127.0.0.1:6379/0"
    """address of Redis, 6.2 or newer"""
    redis_password_file: Path | None = None
    """file with the Redis password, unless the URL has it"""
    key_prefix: str = Field(default="antiphon", pattern=r"^[A-Za-z0-9_.-]{1,32}$")
    """prefix of every key; systems with different prefixes may share a Redis"""
    max_queue_size: int = Field(default=1000, ge=1)
    """longest queue, in sessions"""
    lease_s: float = Field(default=5.0, gt=0)
    """a worker that does not renew for this long loses its sessions"""
    heartbeat_ttl_s: float = Field(default=5.0, gt=0)
    """a process without a heartbeat for this long counts as dead"""
    max_attempts: int = Field(default=3, ge=1)
    """workers that one session may lose before it ends"""
    recovery_timeout_s: float = Field(default=30.0, gt=0)
    """how long a session waits for another worker"""
    resume_grace_s: float = Field(default=15.0, gt=0)
    """how long a session waits for a client that may resume"""
    broker_patience_s: float = Field(default=30.0, gt=0)
    """how long an edge and its sessions wait when the edge cannot reach Redis"""
    stream_ttl_s: int = Field(default=900, ge=60)
    """expiry of a stream after its last entry"""
    stream_max_entries: int = Field(default=4000, ge=100)
    """entries kept per stream"""
    stream_max_bytes: int = Field(default=64 * 2**20, ge=2**20)
    """bytes kept per stream; the oldest entries are trimmed"""
    max_redis_memory_share: float = Field(default=0.8, gt=0, le=1)
    """share of Redis' `maxmemory` above which new sessions are refused"""
    session_row_ttl_s: int = Field(default=3600, ge=60)
    """expiry of an ended session's row"""
    redis_timeout_s: float = Field(default=5.0, gt=0)
    """timeout of one Redis call"""
    redis_idle_s: float = Field(default=30.0, gt=0)
    """connections to Redis that a burst left unused for this long are closed"""


class StatusSettings(BrokerSettings):
    """Workers, recorders and cleanup jobs serve /health and /metrics on a port."""

    health_host: str = "127.0.0.1"
    """address of the port with /health and /metrics"""
