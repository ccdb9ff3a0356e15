"""Options of the engine `backend`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Address = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+$")]


class BackendOptions(BaseModel):
    """`addresses` are the servers (`http://host:port`). A server holds one session at a time, so `slots`
    is their number, and no other program may use them.

    `context_tokens` is the size of a server's context. `start_timeout_s` is how long the worker waits at
    its start until one of the servers answers. `open_timeout_s` limits the start of a session:
    `llama-omni-server` loads its models at the first session, and again when the kind of session changes.
    A session ends if its server sends nothing for `stall_timeout_s`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: int = Field(default=1, ge=1, le=256)
    addresses: tuple[Address, ...] = Field(min_length=1)
    model: str = "MiniCPM-o 4.5"
    context_tokens: int = Field(default=8192, ge=64)
    start_timeout_s: float = Field(default=60.0, ge=0)
    open_timeout_s: float = Field(default=120.0, gt=0)
    stall_timeout_s: float = Field(default=60.0, gt=0)

    @field_validator("addresses")
    @classmethod
    def _one_slot_each(cls, addresses: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        count = len(addresses)
        if len(set(addresses)) < count:
            raise ValueError("an address is listed twice")
        if info.data.get("slots", count) != count:
            raise ValueError(f"{count} of them need --slots {count}")
        return addresses
