"""Presets: prompts and voices that pages offer, as `/api/presets` returns them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, RootModel


class VoiceRef(BaseModel):
    """A voice without its audio (`/api/presets/{mode}/{preset_id}/audio`). `duration` in seconds."""

    data: None = None
    path: str
    name: str
    duration: float


class PresetText(BaseModel):
    """Text of a system message."""

    type: Literal["text"]
    text: str


class PresetVoice(VoiceRef):
    """A voice in a system message."""

    type: Literal["audio"]


PresetItem = Annotated[PresetText | PresetVoice, Field(discriminator="type")]


class Preset(BaseModel):
    """`system_prompt` and `ref_audio` for duplex pages, `system_content` for the other two. All pages of
    spoken sessions use `greeting`.

    `lang`: the language of its user. `needs`: what else the engine must do: `sight`, or understand a
    language.
    """

    id: str
    order: int
    name: str
    description: str
    lang: Literal["en", "zh"] | None = None
    needs: list[Literal["sight", "en", "zh"]] | None = None
    system_prompt: str | None = None
    greeting: str | None = None
    system_content: list[PresetItem] | None = None
    ref_audio: VoiceRef | None = None


class Presets(RootModel[dict[str, list[Preset]]]):
    """Per page, in display order."""


class PresetSound(BaseModel):
    """base64 of float32 mono PCM at 16 kHz. `duration` in seconds."""

    data: str
    name: str
    duration: float


class PresetSounds(BaseModel):
    """The audio of one preset: of its system message in order, and of the voice to speak with."""

    system_content_audio: list[PresetSound] | None = None
    ref_audio: PresetSound | None = None
