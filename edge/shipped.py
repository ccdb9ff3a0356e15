"""The voices that lie in the assets folder. Every call blocks: call it in a thread."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePosixPath

import numpy as np
import pybase64
import soundfile
import structlog

from antiphon.edge.voices import read_wav
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.voices import VoiceInfo, VoiceSound

log = structlog.get_logger()

_FOLDER = "ref_audio"
_LONGEST_S = 60.0

DOCUMENTED = "ref_minicpm_signature.wav"
"""The voice that the protocol's examples name; it stands for the default one where it is missing."""


@dataclass(frozen=True, slots=True)
class ShippedVoice:
    """One WAV of `ref_audio/`. Its id is the file's name without the ending."""

    file: Path
    duration_s: float

    @property
    def id(self) -> str:
        """The file's name without its ending."""
        return self.file.stem

    @property
    def path(self) -> str:
        """What a client writes into `ref_audio_path`."""
        return f"assets/{_FOLDER}/{self.file.name}"

    def info(self) -> VoiceInfo:
        """As the list shows it."""
        return VoiceInfo(
            id=self.id,
            name=self.id.replace("_", " ").capitalize(),
            filename=self.file.name,
            source_type="shipped",
            duration_ms=round(self.duration_s * 1000),
            sample_rate=INPUT_RATE,
            created_at=datetime.fromtimestamp(self.file.stat().st_mtime, tz=UTC),
            path=self.path,
        )


@cache
def shipped_voices(assets: Path) -> dict[str, ShippedVoice]:
    """By id, in order of name. A file that is no sound is logged and left out."""
    voices = {}
    for file in sorted((assets / _FOLDER).glob("*.wav")):
        try:
            voices[file.stem] = ShippedVoice(file, float(soundfile.info(str(file)).duration))
        except soundfile.LibsndfileError as error:
            log.error("voice_unusable", file=str(file), error=str(error))  # noqa: TRY400
    return voices


@cache
def sound_of(file: Path) -> VoiceSound:
    """A shipped WAV in the form that pages take. Raises InvalidInput."""
    return voice_sound(file.name, read_wav(file, "ref_audio", _LONGEST_S))


def voice_sound(name: str, pcm: bytes) -> VoiceSound:
    """Float32 mono PCM at 16 kHz, put into an answer."""
    samples = len(pcm) // np.dtype(np.float32).itemsize
    return VoiceSound(
        name=name,
        duration=round(samples / INPUT_RATE, 1),
        sample_rate=INPUT_RATE,
        samples=samples,
        base64=pybase64.b64encode_as_string(pcm),
    )


def find_shipped(assets: Path, name: str, default: str, field: str) -> Path:
    """The file that a path names, with or without `assets/` in front. Raises InvalidInput.

    Nothing outside of the assets folder is found, whatever the path or a link in it says.
    """
    relative = PurePosixPath(name)
    if relative.parts[:1] == ("assets",):
        relative = relative.relative_to("assets")
    found = _inside(assets, relative)
    if found is None and relative == PurePosixPath(_FOLDER, DOCUMENTED):
        found = _inside(assets, PurePosixPath(_FOLDER, default))
    if found is None:
        raise InvalidInput(f"{field}: no such reference voice on this server", field=field)
    return found


def _inside(assets: Path, relative: PurePosixPath) -> Path | None:
    root = assets.resolve()
    try:
        path = (root / relative).resolve()
        return path if path.is_relative_to(root) and path.is_file() else None
    except (ValueError, OSError):  # NUL bytes, names that are too long
        return None
