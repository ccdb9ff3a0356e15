"""Voices that an engine has by name, and reference voices: their record, and `/api/assets/ref_audio`."""

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

from antiphon.shared_schemas.visible_text import is_visible


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedVoice:
    """A client chooses one, and needs no recording of it.

    `id` is what `voice` takes in the settings of a session; `language` is a tag such as `en-GB`.
    """

    id: str
    name: str
    language: str
    gender: Literal["female", "male"]


UPLOADED = "uploaded:"
"""Prefix of an uploaded voice in `ref_audio_path`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """An uploaded voice without its audio. `created_at` is Redis-clock ms."""

    id: str
    name: str
    duration_ms: int
    created_at: int

    @property
    def path(self) -> str:
        """The value for `ref_audio_path`."""
        return UPLOADED + self.id


def new_voice_id() -> str:
    return secrets.token_hex(16)


class VoiceInfo(BaseModel):
    """A reference voice. `path` is the value for `ref_audio_path`."""

    id: str
    name: str
    filename: str
    source_type: Literal["shipped", "upload"]
    duration_ms: int
    sample_rate: int
    created_at: datetime
    path: str


class VoiceList(BaseModel):
    """Bundled voices first, then the uploaded ones, oldest first."""

    total: int
    ref_audios: list[VoiceInfo]


class VoiceUpload(BaseModel):
    """A WAV of any rate and width, or raw float32 PCM at 16 kHz, as base64."""

    name: str = Field(min_length=1, max_length=80, pattern=r"^[^<>\x00-\x1f\x7f]+$")
    audio_base64: str = Field(min_length=4)

    @field_validator("name")
    @classmethod
    def _shown(cls, name: str) -> str:
        name = name.strip()
        if not name or not is_visible(name):
            text = "it must be one line with letters, without control or invisible characters"
            raise PydanticCustomError("invisible", text)
        return name


class VoiceChange(BaseModel):
    """The result of an upload or a deletion."""

    success: bool
    id: str
    name: str | None = None
    path: str | None = None
    message: str


class VoiceSound(BaseModel):
    """The audio of a voice: base64 of float32 mono PCM. `duration` in seconds."""

    name: str
    duration: float
    sample_rate: int
    samples: int
    base64: str
