"""Presets of the pages, from `presets/<page>/*.yaml`. Every call blocks: call it in a thread."""

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import structlog
import yaml
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from antiphon.edge.media.voices import bundled_sound, bundled_voices, find_bundled_voice
from antiphon.shared_schemas.config import Greeting
from antiphon.shared_schemas.errors import InvalidInput


class VoiceRef(BaseModel):
    """A voice without its audio (`/api/presets/{mode}/{preset_id}/audio`). `duration` in seconds."""

    data: None = None
    path: str
    name: str
    duration: float


class PresetText(BaseModel):
    """Text of a system message. `about_voice`: only for models that clone the voice after it."""

    type: Literal["text"]
    text: str
    about_voice: bool | None = None


class PresetVoice(VoiceRef):
    """A voice in a system message."""

    type: Literal["audio"]


PresetItem = Annotated[PresetText | PresetVoice, Field(discriminator="type")]


class Preset(BaseModel):
    """`system_prompt` and `ref_audio` for duplex pages, `system_content` for the other two. All pages of
    spoken sessions use `greeting`.

    `check_in_s`: as in `DuplexConfig`. `lang`: the language of its user. `needs`: what else the engine must
    do: `sight`, or understand a language.
    """

    id: str
    order: int
    name: str
    description: str
    lang: Literal["en", "zh"] | None = None
    needs: list[Literal["sight", "en", "zh"]] | None = None
    system_prompt: str | None = None
    greeting: str | None = None
    check_in_s: float | None = None
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


log = structlog.get_logger()


_UNUSABLE = (yaml.YAMLError, ValidationError, InvalidInput, UnicodeDecodeError)


class _Text(PresetText):
    model_config = ConfigDict(extra="forbid")


class _Voice(BaseModel):
    model_config = ConfigDict(extra="forbid")
    type: Literal["audio"]
    path: str


class _File(BaseModel):
    """One YAML file."""

    model_config = ConfigDict(extra="forbid")
    id: str
    order: int = 999
    name: str
    description: str = ""
    lang: Literal["en", "zh"] | None = None
    needs: list[Literal["sight", "en", "zh"]] | None = None
    system_prompt: str | None = None
    greeting: Greeting | None = None
    check_in_s: float | None = Field(default=None, ge=0, le=600)
    system_content: list[_Text | _Voice] | None = None
    ref_audio_path: str | None = None


@cache
def load_presets(assets: Path) -> Presets:
    """By page. A file that cannot be used is logged and skipped."""
    pages: dict[str, list[Preset]] = {}
    for file in sorted((assets / "presets").glob("*/*.yaml")):
        try:
            pages.setdefault(file.parent.name, []).append(_load(assets, file))
        except _UNUSABLE as error:
            log.error("preset_unusable", file=str(file), error=str(error))  # noqa: TRY400
    for presets in pages.values():
        presets.sort(key=lambda preset: (preset.order, preset.id))
    return Presets(pages)


def preset_sounds(assets: Path, page: str, preset_id: str) -> PresetSounds | None:
    """The sounds of one preset; None: no such preset."""
    presets = load_presets(assets).root.get(page, [])
    preset = next((preset for preset in presets if preset.id == preset_id), None)
    if preset is None:
        return None
    values: dict[str, Any] = {}
    if preset.system_content is not None:
        values["system_content_audio"] = [
            _sound(assets, item) for item in preset.system_content if isinstance(item, PresetVoice)
        ]
    if preset.ref_audio is not None:
        values["ref_audio"] = _sound(assets, preset.ref_audio)
    return PresetSounds(**values)


def _load(assets: Path, file: Path) -> Preset:
    """Sets only the fields that the file has; unset fields are not sent. Raises _UNUSABLE."""
    raw = _File.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    values = raw.model_dump(exclude_unset=True, exclude={"system_content", "ref_audio_path"})
    values |= {"order": raw.order, "description": raw.description}
    if raw.system_content is not None:
        values["system_content"] = [_item(assets, item) for item in raw.system_content]
    if raw.ref_audio_path is not None:
        values["ref_audio"] = VoiceRef(**_described(assets, raw.ref_audio_path))
    return Preset(**values)


def _item(assets: Path, item: _Text | _Voice) -> PresetItem:
    if isinstance(item, _Text):
        return item
    return PresetVoice(type="audio", **_described(assets, item.path))


def _described(assets: Path, path: str) -> dict[str, Any]:
    file = find_bundled_voice(assets, path, "", "path")
    voice = bundled_voices(assets).get(file.stem)
    if voice is None:
        raise InvalidInput(f"path: {path} is not in ref_audio/", field="path")
    return {
        "data": None,
        "path": path,
        "name": file.name,
        "duration": round(voice.duration_ms / 1000, 1),
    }


def _sound(assets: Path, voice: VoiceRef) -> PresetSound:
    sound = bundled_sound(assets, voice.path)
    return PresetSound(data=sound.base64, name=sound.name, duration=sound.duration)
