"""Options of the engine `backend`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from antiphon.inference_worker.engines.backend.server import ServerAccess

if TYPE_CHECKING:
    from antiphon.inference_worker.engines.backend.server import Server

from antiphon.shared_schemas.constant import CONSTANT

Address = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+$")]

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class BackendOptions(BaseModel):
    """`addresses` are the servers (`http://host:port`, or `https://` for TLS). `slots` is their number;
    with vLLM-Omni it is the most sessions at once. `key_file` is a file with the API key of the servers,
    and `headers` are sent with every request.

    `context_tokens` is the size of a server's context. `open_timeout_s` limits the start of a session:
    `llama-omni-server` loads its models at the first session, and again when the kind of session changes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: int = Field(default=1, ge=1, le=256)
    addresses: tuple[Address, ...] = Field(min_length=1)
    key_file: Path | None = None
    headers: dict[str, str] = Field(default={}, repr=False)
    model: str = "MiniCPM-o 4.5"
    context_tokens: int = Field(default=8192, ge=64)
    open_timeout_s: float = Field(default=120.0, gt=0)

    start_timeout_s: Annotated[float, CONSTANT] = 60.0
    """how long the worker waits at its start until one of the servers answers"""
    stall_timeout_s: Annotated[float, CONSTANT] = 60.0
    """a session ends if its server sends nothing for this long"""

    @field_validator("addresses")
    @classmethod
    def _each_once(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(addresses)) < len(addresses):
            raise ValueError("an address is listed twice")
        return addresses

    @field_validator("key_file")
    @classmethod
    def _has_key(cls, path: Path | None) -> Path | None:
        if path is not None:
            _read_key(path)
        return path

    @field_validator("headers")
    @classmethod
    def _sendable(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not _HEADER.fullmatch(name) or not value.isascii() or not value.isprintable():
                raise ValueError(f"{name!r} is no header of HTTP, or its value is not plain ASCII")
        return headers

    def accesses(self) -> list[ServerAccess]:
        headers = dict(self.headers)
        if self.key_file is not None:
            headers["Authorization"] = f"Bearer {_read_key(self.key_file)}"
        return [ServerAccess(address, headers) for address in self.addresses]

    def wrong_slots(self, server: Server) -> str:
        """What is wrong with `slots` for these servers; empty if nothing is."""
        count = len(self.addresses)
        if server.one_session and self.slots != count:
            return f"{server.product} holds one session: {count} of them need --slots {count}"
        return ""


def _read_key(path: Path) -> str:
    """Raises ValueError."""
    try:
        key = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError:
        key = ""
    if not key or not key.isprintable() or " " in key:
        raise ValueError(f"{path} must contain one key and nothing else")
    return key
