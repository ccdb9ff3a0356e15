"""Settings of every service: the address of Redis, and lifetimes of what is stored there."""

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from antiphon.broker.redis_address import RedisAddress
from antiphon.shared_schemas.constant import CONSTANT, names_of

ENV_PREFIX = "ANTIPHON_"
TOML_FILE = "antiphon.toml"

CONFIG_STATUS = 78
"""Exit status (EX_CONFIG) of a process that cannot start until its settings are changed."""

PRIVATE_FOLDER = 0o700
"""Mode of a new folder with data of conversations."""

PRIVATE_UMASK = 0o077
"""For processes that write data of conversations; also the bits that other users must not have."""


SESSIONS_FOLDER = "sessions"
"""In the data folder, with a folder for each recording."""


class InvalidSettings(ValueError):
    """A setting is invalid; the message names the flag, the variable or the file that has it."""


class AntiphonSettings(BaseSettings):
    """Read once at start-up: flags win over `ANTIPHON_*` variables, and these over `antiphon.toml`.

    The constructor raises InvalidSettings.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="ignore", frozen=True)

    def __init__(self, **flags: Any) -> None:
        try:
            super().__init__(**flags)
        except ValidationError as error:
            problems = [
                _problem(details, flags)
                for details in error.errors(include_url=False)
                if details["type"] != "default_factory_not_called"  # because of another problem
            ]
            raise InvalidSettings("; ".join(problems)) from None
        except SettingsError as error:
            name = re.findall(r'"(\w+)"', str(error))[0]
            fault = 'must be JSON, as in {"option": 1}'
            raise InvalidSettings(f"{_source(name, flags)}: {fault}") from None

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_empty(cls, value: Any, field: ValidationInfo) -> Any:
        """An empty path would be the working directory, and an empty host all addresses."""
        name = str(field.field_name)
        is_path = cls.model_fields[name].annotation in (Path, Path | None)
        if value == "" and (is_path or name in ("host", "health_host")):
            raise ValueError("must not be empty; remove it to use the default")
        return value

    @field_validator("*")
    @classmethod
    def _expand_home(cls, value: Any) -> Any:
        """A shell replaces `~` in flags, but not in a file, in quotes or behind `=`."""
        return _expanded(value) if isinstance(value, Path) else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base class names it
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        sources = env_settings(), read_toml()
        constants = set(settings_cls.model_fields) - set(names_of(settings_cls))
        return init_settings, *(
            InitSettingsSource(settings_cls, {k: v for k, v in found.items() if k not in constants})
            for found in sources
        )


def _expanded(path: Path) -> Path:
    """The path with the home folder of a user instead of `~`. Raises ValueError."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError(f"the home folder {path.parts[0]} is unknown") from None


def read_toml(path: Path = Path(TOML_FILE)) -> dict[str, Any]:
    """The settings in the file, none if it does not exist. Raises InvalidSettings."""
    try:
        return tomllib.loads(read_utf8(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read ({error.strerror})") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettings(f"{path} is not valid TOML: {error}") from None
    except ValueError as error:
        raise InvalidSettings(str(error)) from None


def read_utf8(path: Path) -> str:
    """The text of a file that a user wrote. Raises OSError, or ValueError for another encoding."""
    try:
        return path.read_text(encoding="utf-8-sig")  # editors of Windows begin it with a mark
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text in UTF-8; save it with this encoding") from None


_LIMITS = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "literal_error": "one of: {expected}",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "string_pattern_mismatch": "text that matches {pattern}",
}
"""What a setting must be, by pydantic's type of the error."""


def _problem(details: ErrorDetails, flags: dict[str, Any]) -> str:
    """One problem without the value, which may be a secret."""
    context = details.get("ctx", {})
    if wanted := _LIMITS.get(details["type"]):
        text = "must be " + wanted.format(**context)
    else:
        text = str(context.get("error") or details["msg"]).replace("Input should be", "must be")
    return f"{_source(str(details['loc'][0]), flags)}: {text}" if details["loc"] else text


def _source(name: str, flags: dict[str, Any]) -> str:
    if name in flags:
        return "--" + name.replace("_", "-")
    variable = ENV_PREFIX + name.upper()
    return variable if variable in map(str.upper, os.environ) else f"{name} in {TOML_FILE}"


def _redis_url(url: str) -> str:
    RedisAddress.parse(url)
    return url


_LONGEST_S = 1e9


def _storable(seconds: float) -> float:
    """Redis takes times as whole milliseconds, so none is infinite."""
    if seconds > _LONGEST_S:
        raise ValueError(f"must be at most {_LONGEST_S:.0f} seconds")
    return seconds


_Lifetime = Annotated[float, AfterValidator(_storable)]


class BrokerSettings(AntiphonSettings):
    """Settings of every service that uses Redis. Give all services the same values."""

    redis_url: Annotated[str, AfterValidator(_redis_url)] = "redis://127.0.0.1:6379/0"
    """address of Redis, 6.2 or newer: a server, the Sentinels of a service, or nodes of a cluster"""
    redis_password_file: Path | None = None
    """file with the Redis password, unless the URL has it"""
    redis_sentinel_user: str | None = None
    """ACL user at the Sentinels; that in the URL is for Redis"""
    redis_sentinel_password_file: Path | None = None
    """file with the password of the Sentinels"""
    key_prefix: str = Field(default="antiphon", pattern=r"^[A-Za-z0-9_.-]{1,32}$")
    """prefix of every key; change it for a second system on the same Redis"""
    max_queue_size: int = Field(default=1000, ge=1)
    """longest queue, in sessions"""
    lease_s: _Lifetime = Field(default=5.0, gt=0)
    """a worker that does not renew for this long loses its sessions"""
    recovery_timeout_s: _Lifetime = Field(default=30.0, gt=0)
    """how long a session waits for another worker"""
    resume_grace_s: _Lifetime = Field(default=15.0, gt=0)
    """how long a session waits for a client that may resume"""
    broker_patience_s: _Lifetime = Field(default=30.0, gt=0)
    """how long an edge and its sessions wait for Redis; longer than a failover"""
    redis_timeout_s: float = Field(default=5.0, gt=0)
    """timeout of one Redis call"""

    heartbeat_ttl_s: Annotated[float, CONSTANT] = 5.0
    """a process without a heartbeat for this long counts as dead"""
    max_attempts: Annotated[int, CONSTANT] = 3
    """workers that one session may lose before it ends"""
    max_redis_memory_share: Annotated[float, CONSTANT] = 0.8
    """share of Redis' `maxmemory` above which new sessions are refused; without one, of its machine's memory"""
    redis_idle_s: Annotated[float, CONSTANT] = 30.0
    """connections to Redis that a burst left unused for this long are closed"""
    session_row_ttl_s: Annotated[int, CONSTANT] = 3600
    """expiry of an ended session's row"""
    stream_ttl_s: Annotated[int, CONSTANT] = 900
    """expiry of a session's streams after its end, if no recorder removes them"""
    stream_max_entries: Annotated[int, CONSTANT] = 4000
    """entries kept per stream"""
    stream_max_bytes: Annotated[int, CONSTANT] = 64 * 2**20
    """bytes kept per stream; the oldest entries are trimmed"""


class StatusSettings(BrokerSettings):
    """Every service has a separate port with /health, /ready and /metrics."""

    health_host: str = "127.0.0.1"
    """address of the port with /health and /metrics, which has no login"""


class RecordingsSettings(StatusSettings):
    """Where the recordings are."""

    data_dir: Path = Path("data")
    """the folder whose sessions/ holds the recordings"""
    min_free_disk_gb: float = Field(default=1.0, ge=0)
    """free space (GiB) below which recording waits and uploads are refused; cleanup restores a quarter more"""

    @property
    def sessions_dir(self) -> Path:
        return self.data_dir / SESSIONS_FOLDER
