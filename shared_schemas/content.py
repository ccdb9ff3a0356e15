"""Multimodal content of turn-based conversations: messages of text, audio, images and video."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, assert_never

from antiphon.shared_schemas.audio import PcmFormat, Samples, samples_from_bytes


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text."""

    text: str


@dataclass(frozen=True, slots=True)
class AudioPart:
    """Audio, mono 16 kHz."""

    data: bytes = field(repr=False)
    pcm: PcmFormat = PcmFormat.F32

    def samples(self) -> Samples:
        """Float32, shape (n,)."""
        return samples_from_bytes(self.data, self.pcm)


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A JPEG, PNG or WebP file."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class VideoPart:
    """A video file; `stack_frames` frames are taken for each second."""

    data: bytes = field(repr=False)
    stack_frames: int = 1


Part = TextPart | AudioPart | ImagePart | VideoPart


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a function by the model. `arguments` is the text of a JSON object."""

    id: str
    name: str
    arguments: str

    def wire(self) -> dict[str, Any]:
        """In the form of OpenAI's API."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}

    @classmethod
    def of_wire(cls, call: Mapping[str, Any]) -> "ToolCall":
        return cls(call["id"], call["function"]["name"], call["function"]["arguments"])


@dataclass(frozen=True, slots=True)
class TranscribedWord:
    """A word of a transcript, in seconds of the sound. An engine may estimate the times."""

    start: float
    end: float
    word: str


@dataclass(frozen=True, slots=True)
class TranscribedSegment:
    """A part of a transcript. `start` and `end` are seconds of the sound that it was made of."""

    start: float
    end: float
    text: str
    words: tuple[TranscribedWord, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """One message of a history.

    `tool_calls` are those of an assistant's message. A tool's message is the result of the call with
    the id `tool_call_id`.
    """

    role: Role
    parts: tuple[Part, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    @property
    def text(self) -> str:
        return " ".join(part.text for part in self.parts if isinstance(part, TextPart))


def flatten(
    messages: Iterable[ConversationMessage],
) -> tuple[list[dict[str, Any]], tuple[bytes, ...]]:
    """JSON-ready messages, and the media they refer to by index (`blob`)."""
    blobs: list[bytes] = []
    content = []
    for message in messages:
        flat: dict[str, Any] = {"role": str(message.role)}
        flat["parts"] = [_flat(part, blobs) for part in message.parts]
        if message.tool_calls:
            flat["tool_calls"] = [call.wire() for call in message.tool_calls]
        if message.tool_call_id:
            flat["tool_call_id"] = message.tool_call_id
        content.append(flat)
    return content, tuple(blobs)


def restore(
    content: Sequence[dict[str, Any]], blobs: Sequence[bytes]
) -> tuple[ConversationMessage, ...]:
    """Inverse of `flatten`. Raises KeyError, IndexError or ValueError on anything else."""
    return tuple(
        ConversationMessage(
            Role(m["role"]),
            tuple(_part(raw, blobs) for raw in m["parts"]),
            tuple(ToolCall.of_wire(call) for call in m.get("tool_calls", ())),
            m.get("tool_call_id", ""),
        )
        for m in content
    )


def _flat(part: Part, blobs: list[bytes]) -> dict[str, Any]:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case AudioPart(data, pcm):
            return {"type": "audio", "blob": _add(data, blobs), "pcm": str(pcm)}
        case ImagePart(data):
            return {"type": "image", "blob": _add(data, blobs)}
        case VideoPart(data, stack_frames):
            return {"type": "video", "blob": _add(data, blobs), "stack_frames": stack_frames}
        case _:
            assert_never(part)


def _add(data: bytes, blobs: list[bytes]) -> int:
    blobs.append(data)
    return len(blobs) - 1


def _part(raw: dict[str, Any], blobs: Sequence[bytes]) -> Part:
    match raw["type"]:
        case "text":
            return TextPart(raw["text"])
        case "audio":
            return AudioPart(blobs[raw["blob"]], PcmFormat(raw["pcm"]))
        case "image":
            return ImagePart(blobs[raw["blob"]])
        case "video":
            return VideoPart(blobs[raw["blob"]], raw["stack_frames"])
        case kind:
            raise ValueError(f"unknown content type {kind!r}")
