"""Items: as the client sends and sees them, and as the worker gets them."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from antiphon.edge.media.audio_formats import AudioFormat, FormatDecoder
from antiphon.edge.media.decode import check_complete, read_image, read_sound
from antiphon.edge.protocols.openai_realtime.settings import RealtimeState
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, pcm16_bytes
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    ImagePart,
    Part,
    Role,
    TextPart,
    ToolCall,
)
from antiphon.shared_schemas.entries.turns import new_item_id, played_part
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput, from_validation
from antiphon.shared_schemas.messages.openai_realtime import ITEM_FIELDS, ItemFields, ItemPart
from antiphon.shared_schemas.tools import are_arguments
from antiphon.shared_schemas.wire import Media

MAX_ITEMS = 2000
"""Of a conversation."""

_DATA_URL = re.compile(r"data:image/(?:jpeg|jpg|png|webp);base64,", re.IGNORECASE)

_ROLE_PARTS = {
    "system": ("input_text",),
    "user": ("input_text", "input_audio", "input_image"),
    "assistant": ("output_text", "output_audio", "text"),
}


class ItemReader:
    """Reads the items of one client. `charge` takes the seconds of sound, and the field that has it."""

    def __init__(
        self, settings: EdgeSettings, state: RealtimeState, charge: Callable[[float, str], None]
    ) -> None:
        self._settings = settings
        self._state = state
        self._charge = charge

    async def read(
        self, data: object, where: str, sound_format: AudioFormat
    ) -> tuple[dict[str, Any], ConversationMessage | None]:
        """An item as clients see it, and its message; None: it refers to another item. Raises InvalidInput."""
        return await asyncio.to_thread(self._read, data, where, sound_format)

    def _read(
        self, data: object, where: str, sound_format: AudioFormat
    ) -> tuple[dict[str, Any], ConversationMessage | None]:
        try:
            item = ITEM_FIELDS.validate_python(data)
        except ValidationError as error:
            raise self._refusal(error, where) from None
        if item.type == "item_reference":
            return {"type": item.type, "id": _needed(item.id, f"{where}.id")}, None
        shown: dict[str, Any] = {
            "id": item.id or new_item_id(),
            "object": "realtime.item",
            "type": item.type,
            "status": "completed",
        }
        if item.type == "message":
            parts, message = self._message(item, where, sound_format)
            return shown | {"role": item.role, "content": parts}, message
        if item.type == "function_call":
            return self._call(item, shown, where)
        call_id, output = (
            _needed(item.call_id, f"{where}.call_id"),
            _needed(item.output, f"{where}.output"),
        )
        message = ConversationMessage(Role.TOOL, (TextPart(output),), tool_call_id=call_id)
        return shown | {"call_id": call_id, "output": output}, message

    def _message(
        self, item: ItemFields, where: str, sound_format: AudioFormat
    ) -> tuple[list[dict[str, Any]], ConversationMessage]:
        role = _needed(item.role, f"{where}.role")
        content = _needed(item.content, f"{where}.content")
        shown, parts = [], []
        for number, part in enumerate(content):
            field = f"{where}.content.{number}"
            if part.type not in _ROLE_PARTS[role]:
                choices = ", ".join(_ROLE_PARTS[role])
                text = f"{field}.type: a message of the role {role} has {choices}"
                raise InvalidInput(text, field=f"{field}.type")
            wire, own = self._part(part, field, sound_format)
            shown.append(wire)
            parts += own
        return shown, ConversationMessage(Role(role), tuple(parts))

    def _part(
        self, part: ItemPart, field: str, sound_format: AudioFormat
    ) -> tuple[dict[str, Any], list[Part]]:
        match part.type:
            case "input_audio":
                sound = _needed(part.audio, f"{field}.audio")
                pcm = self._sound(sound, f"{field}.audio", sound_format)
                return {"type": part.type, "transcript": part.transcript}, [pcm]
            case "input_image":
                image = self._image(_needed(part.image_url, f"{field}.image_url"), field)
                return {"type": part.type}, [image]
            case "output_audio":
                words = _needed(part.transcript, f"{field}.transcript")
                return {"type": part.type, "transcript": words}, [TextPart(words)]
        words = _needed(part.text, f"{field}.text")
        kind = "output_text" if part.type == "text" else part.type
        return {"type": kind, "text": words}, [TextPart(words)]

    def _sound(self, media: Media, field: str, sound_format: AudioFormat) -> AudioPart:
        samples = FormatDecoder(sound_format).decode(read_sound(media, field, sound_format))
        pcm = pcm16_bytes(samples)
        seconds, most = len(pcm) / (2 * INPUT_RATE), self._settings.max_chat_audio_s
        if seconds > most:
            raise InvalidInput(f"{field}: {seconds:.1f} s, the limit is {most:g} s", field=field)
        self._charge(seconds, field)
        return AudioPart(pcm, PcmFormat.S16)

    def _image(self, media: Media, field: str) -> ImagePart:
        """Raises InvalidInput for an address: this server loads none."""
        field, limits = f"{field}.image_url", self._settings
        if not isinstance(media, str) or not (found := _DATA_URL.match(media)):
            text = f"{field}: send a data URL of a JPEG, PNG or WebP image in base64, below 1 MiB"
            raise InvalidInput(text, field=field)
        size, pixels = limits.max_image_bytes, limits.max_frame_pixels
        image = read_image(media[found.end() :], field, max_bytes=size, max_pixels=pixels)
        check_complete(image, field)  # each further answer would fail
        return ImagePart(image)

    def _call(
        self, item: ItemFields, shown: dict[str, Any], where: str
    ) -> tuple[dict[str, Any], ConversationMessage]:
        name = _needed(item.name, f"{where}.name")
        arguments = _needed(item.arguments, f"{where}.arguments") or "{}"
        call_id = item.call_id or f"call_{shown['id']}"[:32]
        if not are_arguments(arguments):
            field = f"{where}.arguments"
            raise InvalidInput(f"{field}: must be the text of a JSON object", field=field)
        call = ToolCall(call_id, name, arguments)
        shown |= {"call_id": call_id, "name": name, "arguments": arguments}
        return shown, ConversationMessage(Role.ASSISTANT, (), (call,))

    def _refusal(self, error: ValidationError, where: str) -> InvalidInput:
        invalid = from_validation(error)
        field = f"{where}.{invalid.field}" if invalid.field else where
        if invalid.code is ErrorCode.MISSING_FIELD:
            return InvalidInput(f"{field} is required", field=field, code=invalid.code)
        text = f"{field}: {invalid.message.partition(': ')[2]}"
        return InvalidInput(text, field=field)


def _needed(value: Any, field: str) -> Any:
    if value is None:
        raise InvalidInput(f"{field} is required", field=field, code=ErrorCode.MISSING_FIELD)
    return value


class ItemLedger:
    """The items as the client sees them, in order. The worker has the same order."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._items: dict[str, dict[str, Any]] = {}
        self._audio_ms: dict[str, int] = {}
        self._played_ms: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self.size = 0

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._items

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def last(self) -> str | None:
        return self._ids[-1] if self._ids else None

    def get(self, item_id: str) -> dict[str, Any] | None:
        return self._items.get(item_id)

    def add(self, item: dict[str, Any], after: str | None, size: int = 0) -> str | None:
        """Behind `after`, None for the beginning. Returns `after`, which events show.

        `size`: bytes of JSON and media that the client has sent.
        """
        self._sizes[item["id"]] = size
        self.size += size
        place = self._ids.index(after) + 1 if after is not None else 0
        self._ids.insert(place, item["id"])
        self._items[item["id"]] = item
        return after

    def append(self, item: dict[str, Any]) -> str | None:
        """At the end. Returns the item before it."""
        return self.add(item, self.last)

    def remove(self, item_id: str) -> None:
        self._ids.remove(item_id)
        del self._items[item_id]
        self.size -= self._sizes.pop(item_id)
        self._audio_ms.pop(item_id, None)
        self._played_ms.pop(item_id, None)

    def set_length(self, item_id: str, audio_ms: int) -> None:
        """Of an answer's sound. An answer may have no item here, or none any more."""
        if item_id in self._items:
            self._audio_ms[item_id] = audio_ms

    def truncate(self, item_id: str, played_ms: int) -> None:
        """Cut the transcript of an answer where its client stopped playing it, or at its end."""
        self._played_ms[item_id] = played_ms
        if self._items[item_id]["status"] != "in_progress":
            self.finish(item_id)

    def finish(self, item_id: str) -> None:
        """The answer is complete: the cut that the client asked for takes effect."""
        audio_ms, played_ms = self._audio_ms.get(item_id, 0), self._played_ms.pop(item_id, None)
        if played_ms is None or played_ms >= audio_ms or item_id not in self._items:
            return
        for part in self._items[item_id].get("content", ()):
            if part["type"] == "output_audio":
                part["transcript"] = played_part(part["transcript"] or "", audio_ms, played_ms)
        self._audio_ms[item_id] = played_ms
