"""The door of `/ws/half_duplex`."""

from __future__ import annotations

from antiphon.edge.doors.intake import Intake
from antiphon.edge.protocols.half_duplex import HalfDuplexCommand
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.config import with_consent
from antiphon.shared_schemas.content import (
    AudioPart,
    ConversationMessage,
    Part,
    Role,
    TextPart,
    flatten,
)
from antiphon.shared_schemas.duplex_messages import DEFAULT_SYSTEM_PROMPT, Stop
from antiphon.shared_schemas.entries import ChunkIn, HalfDuplexPrepareIn, StopIn
from antiphon.shared_schemas.half_duplex_messages import (
    HalfDuplexAudioChunk,
    HalfDuplexPrepare,
    SystemItem,
    SystemText,
    parse_half_duplex_message,
)


class HalfDuplexDoor:
    """Reads one client's frames: size, weight, JSON, fields, media, pace, in this order."""

    def __init__(self, settings: EdgeSettings) -> None:
        self._intake = Intake(settings)

    async def read(self, frame: str | bytes) -> HalfDuplexCommand:
        """The command in one frame. Raises InvalidInput or NotJson."""
        message = parse_half_duplex_message(*self._intake.open(frame))
        if isinstance(message, Stop):
            return StopIn()
        self._intake.message()
        match message:
            case HalfDuplexAudioChunk():
                return self._chunk(message)
            case HalfDuplexPrepare():
                return self._prepare(message)

    def _chunk(self, message: HalfDuplexAudioChunk) -> ChunkIn:
        sound = self._intake.chunk(message.audio_base64, "audio_base64")
        self._intake.charge(sound, "audio_base64")
        return ChunkIn(audio=sound.data, pcm=sound.pcm)

    def _prepare(self, message: HalfDuplexPrepare) -> HalfDuplexPrepareIn:
        """A list that says nothing, as pages send it whose editor is empty, counts as none."""
        parts = self._parts(message.system_content or [])
        if not parts:
            prompt = (
                DEFAULT_SYSTEM_PROMPT if message.system_prompt is None else message.system_prompt
            )
            parts = (TextPart(prompt),)
        content, blobs = flatten([ConversationMessage(Role.SYSTEM, parts)])
        voice = self._intake.voice(message.ref_audio_base64, "ref_audio_base64")
        config = with_consent(message.config, given=message.record)
        return HalfDuplexPrepareIn(
            content=content, blobs=blobs, config=config, ref_audio=voice or _first(parts)
        )

    def _parts(self, items: list[SystemItem]) -> tuple[Part, ...]:
        parts: list[Part] = []
        for index, item in enumerate(items):
            if isinstance(item, SystemText):
                if item.text:
                    parts.append(TextPart(item.text))
            elif item.data:
                field = f"system_content.{index}.data"
                parts.append(AudioPart(self._intake.voice(item.data, field)))
        return tuple(parts)


def _first(parts: tuple[Part, ...]) -> bytes:
    """The voice to speak with is the first one of the prompt."""
    return next((part.pcm for part in parts if isinstance(part, AudioPart)), b"")
