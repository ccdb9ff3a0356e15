"""Server messages from the wire into the records of `shared_schemas`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import orjson
from pydantic import TypeAdapter, ValidationError

from client.errors import UnreadableMessage
from shared_schemas.server_messages import (
    DuplexServerMessage,
    Error,
    Paused,
    Prepared,
    Queued,
    QueueDone,
    QueueUpdate,
    Result,
    Resumed,
    Stopped,
    Timeout,
)

_BY_TYPE: dict[str, type[DuplexServerMessage]] = {
    kind.type: kind
    for kind in (
        Queued,
        QueueUpdate,
        QueueDone,
        Prepared,
        Result,
        Paused,
        Resumed,
        Stopped,
        Timeout,
        Error,
    )
}
_BLANKS: dict[Any, Any] = {str: "", int: 0, float: 0.0, bool: False}


def _blank_fields(kind: type[DuplexServerMessage]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {item.name: _BLANKS.get(hints[item.name]) for item in fields(kind)}


_ADAPTERS: dict[str, TypeAdapter[DuplexServerMessage]] = {
    name: TypeAdapter(kind) for name, kind in _BY_TYPE.items()
}
_BLANK_FIELDS = {name: _blank_fields(kind) for name, kind in _BY_TYPE.items()}


def parse_server_message(text: str | bytes) -> DuplexServerMessage | None:
    """Read one message; None for a type this version does not know.

    Unknown fields are ignored and missing ones left blank, so that older and newer servers can be
    talked to. Raises UnreadableMessage on anything else that does not fit.
    """
    try:
        data = orjson.loads(text)
        name = data["type"]
        if name not in _BY_TYPE:
            return None
        return _ADAPTERS[name].validate_python(_BLANK_FIELDS[name] | data)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValidationError) as error:
        raise UnreadableMessage(f"the server sent something unreadable: {error}") from error
