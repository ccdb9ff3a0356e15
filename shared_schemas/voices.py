"""Reference voices: what the registry keeps, and what `/api/assets/ref_audio` says of them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

UPLOADED = "uploaded:"
"""Start of the path under which an uploaded voice is named in `ref_audio_path`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """An uploaded voice without its sound. `created_at` is Redis-clock ms."""

    id: str
    name: str
    duration_ms: int
    created_at: int

    @property
    def path(self) -> str:
        """What a client writes into `ref_audio_path`."""
        return UPLOADED + self.id


def new_voice_id() -> str:
    """128 unguessable bits."""
    return secrets.token_hex(16)


class VoiceInfo(BaseModel):
    """One reference voice. `path` goes into `ref_audio_path`."""

    id: str
    name: str
    filename: str
    source_type: Literal["shipped", "upload"]
    duration_ms: int
    sample_rate: int
    created_at: datetime
    path: str


class VoiceList(BaseModel):
    """Shipped voices first, then the uploaded ones, oldest first."""

    total: int
    ref_audios: list[VoiceInfo]


class VoiceUpload(BaseModel):
    """A WAV of any rate and width, or raw float32 PCM at 16 kHz, as base64."""

    name: str = Field(min_length=1, max_length=80, pattern=r"^[^<>\x00-\x1f\x7f]+$")
    audio_base64: str = Field(min_length=4)


class VoiceChange(BaseModel):
    """An upload or a deletion that was carried out."""

    success: bool
    id: str
    name: str | None = None
    path: str | None = None
    message: str


class VoiceSound(BaseModel):
    """A voice to listen to or to send along: base64 of float32 mono PCM. `duration` in seconds."""

    name: str
    duration: float
    sample_rate: int
    samples: int
    base64: str
