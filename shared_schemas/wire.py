"""The base of the messages of every protocol, and the messages that all of them share."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from antiphon.shared_schemas.audio import PcmFormat, samples_from_bytes, to_pcm16
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput, from_validation
from antiphon.shared_schemas.media import Payload, Raw, encode_media, to_frame
from antiphon.shared_schemas.tagged import TaggedDataclass

NULLABLE = {"nullable": True}
"""Field metadata: None is sent as null instead of being left out."""

Message = TypeVar("Message")


class ClientMessage(BaseModel):
    """Base of what a client sends. Unknown fields are ignored, wrong types are rejected by name."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False, populate_by_name=True
    )


class ServerMessage(metaclass=TaggedDataclass):
    """Base of what the edge sends; None-valued fields are left out, `bytes` are float32 audio.

    The fields here are sent only to clients that request them in the URL (`resume`, `capabilities`).
    """

    type: ClassVar[str]
    bears_token: ClassVar[bool] = False
    """True if `resume_token` is sent with this message."""
    seq: int | None = None
    resume_token: str | None = None
    capabilities: dict[str, Any] | None = None

    def wire(self) -> dict[str, Any]:
        """The message as a dict; everything but its audio is ready for JSON."""
        message: dict[str, Any] = {"type": self.type}
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None or item.metadata.get("nullable"):
                message[item.name] = value
        return message


class Queued(ServerMessage, type="queued", bears_token=True):
    """The session waits; sent only when there is a wait. `position` is 1-based.

    The two estimates are the same number of seconds. They are missing while no worker can take the
    session; `reason` is a `WaitReason` then.
    """

    ticket_id: str
    position: int
    queue_length: int
    eta_seconds: float | None = None
    estimated_wait_s: float | None = None
    reason: str | None = None


class QueueUpdate(Queued, type="queue_update", bears_token=False):
    """The position in the queue, the estimate, or the reason has changed.

    After `queue_done`: the worker was lost and the session waits for another one, until an update with
    position 0. `stale` is true while the position cannot be read.
    """

    stale: bool | None = None


class QueueDone(ServerMessage, type="queue_done", bears_token=True):
    """A worker holds the session; the client may prepare."""


class Stopped(ServerMessage, type="stopped"):
    """The session has ended as the client asked."""

    session_id: str


class Resumed(ServerMessage, type="resumed"):
    """The session is active again after a pause.

    With a `resume_token`, in any protocol, it is the first message to a client that has resumed:
    everything after `seq` follows.
    """


class Notice(ServerMessage, type="notice"):
    """A limit is near. `limit`: `duration` or `context`; `seconds_left` is an estimate for the latter."""

    limit: str
    seconds_left: float


class Error(ServerMessage, type="error"):
    """Something went wrong. `error` and `message` are the same text."""

    error: str
    message: str
    code: str
    field: str | None = None
    retryable: bool | None = None


def encode(message: ServerMessage) -> str:
    """The JSON text of one message."""
    return orjson.dumps(message.wire(), encode_media, orjson.OPT_PASSTHROUGH_DATACLASS).decode()


def encode_binary(message: ServerMessage, pcm: PcmFormat) -> str | bytes:
    """A binary frame with the message's audio in this format; text if it has none."""
    return to_frame(
        {
            name: _in_format(value, pcm) if isinstance(value, bytes) else value
            for name, value in message.wire().items()
        }
    )


def _in_format(sound: bytes, pcm: PcmFormat) -> Raw:
    if pcm is PcmFormat.F32:
        return Raw(sound)
    return Raw(to_pcm16(samples_from_bytes(sound, PcmFormat.F32)).tobytes(), pcm)


class MessageReader(Generic[Message]):
    """Parses the client messages of one protocol, a union of classes, by their `type`."""

    def __init__(self, union: Any) -> None:
        self._adapter: TypeAdapter[Message] = TypeAdapter(
            Annotated[union, Field(discriminator="type")]
        )
        names = (get_args(kind.model_fields["type"].annotation) for kind in get_args(union))
        self._types = ", ".join(name for (name,) in names)

    def parse(self, data: object, payload: Payload | None = None) -> Message:
        """Check one decoded JSON value. Raises InvalidInput naming the field and the remedy.

        `payload`: the payload of a binary frame.
        """
        if not isinstance(data, dict):
            raise InvalidInput("message: must be a JSON object with a `type`", field="type")
        try:
            return self._adapter.validate_python(data, context=payload)
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
