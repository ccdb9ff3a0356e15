"""Settings that every service shares: where Redis is and how long things live there."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)


class AntiphonSettings(BaseSettings):
    """Read once at start-up: constructor arguments (flags) win over `ANTIPHON_*`, then `antiphon.toml`."""

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
        """Flags, then environment, then the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


class BrokerSettings(AntiphonSettings):
    """What every service that talks to Redis has in common."""

    redis_url: str = Field(
        default="redis://127.0.0.1:6379/0", description="where Redis is, 6.2 or newer"
    )
    redis_password_file: Path | None = Field(
        default=None, description="a file that holds its password, unless the URL does"
    )
    key_prefix: str = Field(
        default="antiphon",
        pattern=r"^[A-Za-z0-9_.-]{1,32}$",
        description="begins every key; systems with different ones may share a Redis",
    )
    max_queue_size: int = Field(default=1000, ge=1, description="sessions that may wait")
    lease_s: float = Field(
        default=5.0, gt=0, description="a worker that is silent this long loses its sessions"
    )
    heartbeat_ttl_s: float = Field(
        default=5.0, gt=0, description="a process silent this long counts as gone"
    )
    max_attempts: int = Field(
        default=3, ge=1, description="workers that may fail under one session"
    )
    recovery_timeout_s: float = Field(
        default=30.0, gt=0, description="how long a session waits for another worker"
    )
    resume_grace_s: float = Field(
        default=15.0, gt=0, description="how long a session waits for a client that may resume"
    )
    stream_ttl_s: int = Field(default=900, ge=60, description="life of a stream nobody writes to")
    stream_max_entries: int = Field(default=4000, ge=100, description="entries kept per stream")
    session_row_ttl_s: int = Field(
        default=3600, ge=60, description="life of an ended session's row"
    )
    redis_timeout_s: float = Field(
        default=5.0, gt=0, description="longest wait for one Redis answer"
    )


class StatusSettings(BrokerSettings):
    """Workers, recorders and cleanup jobs tell of themselves on a small port beside their work."""

    health_host: str = Field(
        default="127.0.0.1", description="address of the port with /health and /metrics"
    )
