"""What the messages of every protocol have in common: checked on the way in, encoded on the way out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from shared_schemas.errors import ErrorCode, InvalidInput, from_validation

NULLABLE = {"nullable": True}
"""Field metadata: None is sent as null instead of being left out."""

Message = TypeVar("Message")


class ClientMessage(BaseModel):
    """Base of what a client sends. Unknown fields are ignored, wrong types refused by name."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False, populate_by_name=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMessage:
    """Base of what the edge sends; None-valued fields are left out."""

    type: ClassVar[str]

    def wire(self) -> dict[str, Any]:
        """The message as a JSON-ready dict."""
        message: dict[str, Any] = {"type": self.type}
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None or item.metadata.get("nullable"):
                message[item.name] = value
        return message


def encode(message: ServerMessage) -> str:
    """JSON text of one message."""
    return orjson.dumps(message.wire()).decode()


class MessageReader(Generic[Message]):
    """Reads one protocol's client messages, told apart by `type`."""

    def __init__(self, adapter: TypeAdapter[Message], *types: str) -> None:
        self._adapter = adapter
        self._types = ", ".join(types)

    def parse(self, data: object) -> Message:
        """Check one decoded JSON value. Raises InvalidInput naming the field and the remedy."""
        if not isinstance(data, dict):
            raise InvalidInput("message: must be a JSON object with a `type`", field="type")
        try:
            return self._adapter.validate_python(data)
        except ValidationError as error:
            raise self._name_problem(error, data) from None

    def _name_problem(self, error: ValidationError, data: dict[str, Any]) -> InvalidInput:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        at_top = not first["loc"]
        if at_top and first["type"] == "union_tag_not_found":
            text = f"type is required; one of {self._types}"
            return InvalidInput(text, field="type", code=ErrorCode.MISSING_FIELD)
        if at_top and first["type"] == "union_tag_invalid":
            text = f"type: unknown message type {str(data['type'])[:40]!r}; one of {self._types}"
            return InvalidInput(text, field="type", code=ErrorCode.UNKNOWN_TYPE)
        return from_validation(error, skip=1)
