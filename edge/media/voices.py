"""Reference voices: bundled with the package, uploaded by users, or sent with a message.

Engines take them as float32 mono PCM at 16 kHz. Except for the coroutines, all functions block on
the disk or decode audio: call them in a thread.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePosixPath

import numpy as np
import pybase64
import soxr
import structlog

from antiphon.edge.media.decode import as_float32, read_audio, read_media
from antiphon.edge.media.sample_hints import check_peak
from antiphon.edge.settings import MIB, SHIPPED_ASSETS, EdgeSettings
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, float_bytes
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.voices import UPLOADED, VoiceInfo, VoiceSound
from antiphon.shared_schemas.wav import UnreadableWav, WavSound, is_wav, open_wav
from antiphon.shared_schemas.wire import Media, MediaBytes

log = structlog.get_logger()

DOCUMENTED_VOICE = "ref_minicpm_signature.wav"
"""The voice in the protocol's examples; if the file is missing, the default voice replaces it."""

_FOLDER = "ref_audio"
_FIELD = "ref_audio_path"
_MAX_BUNDLED_S = 60.0
_MAX_CHANNELS = 8
_MAX_DECODED_BYTES = 64 * MIB
"""Of all channels as float32; a minute of stereo at 96 kHz takes 44 MiB."""

UploadedVoices = Callable[[str], Awaitable[bytes | None]]
"""Looks up the 16-bit PCM of an uploaded voice by its id; None: unknown id."""


@cache
def bundled_voices(assets: Path) -> dict[str, VoiceInfo]:
    """By id, the file's name without its suffix. A file that is not a sound is logged and skipped."""
    voices = {}
    for file in sorted((assets / _FOLDER).glob("*.wav")):
        try:
            voices[file.stem] = _bundled_info(file)
        except (UnreadableWav, OSError) as error:
            log.error("voice_unusable", file=str(file), error=str(error))  # noqa: TRY400
    return voices


@cache
def bundled_sound(assets: Path, path: str) -> VoiceSound:
    """A bundled WAV for playback in a page; `path` as in `find_bundled_voice`. Raises InvalidInput."""
    file = find_bundled_voice(assets, path, "", "path")
    return voice_sound(file.name, decode_wav(file.read_bytes(), "ref_audio", _MAX_BUNDLED_S))


@cache
def voice_samples() -> dict[str, Path]:
    """MP3 files of the voices that sessions choose by name, by the voice's id."""
    return {file.stem: file for file in (SHIPPED_ASSETS / "voice_samples").glob("*.mp3")}


def voice_sound(name: str, pcm: bytes) -> VoiceSound:
    """`pcm` is float32 mono at 16 kHz."""
    samples = len(pcm) // np.dtype(np.float32).itemsize
    return VoiceSound(
        name=name,
        duration=round(samples / INPUT_RATE, 1),
        sample_rate=INPUT_RATE,
        samples=samples,
        base64=pybase64.b64encode_as_string(pcm),
    )


async def load_named_voice(
    settings: EdgeSettings, uploaded: UploadedVoices, name: str, field: str = _FIELD
) -> bytes:
    """The voice `uploaded:<id>`, or a path below the assets, as PCM.

    Raises InvalidInput, or BrokerUnavailable if uploaded voices cannot be looked up.
    """
    limit = settings.max_reference_s
    if name.startswith(UPLOADED):
        return await _load_uploaded(uploaded, name.removeprefix(UPLOADED), field, limit)
    assets, default = settings.assets_dir, settings.default_voice
    return await asyncio.to_thread(
        load_bundled_voice, assets, name, limit, field=field, default=default
    )


def load_bundled_voice(
    assets: Path, name: str, max_s: float, *, field: str = _FIELD, default: str = ""
) -> bytes:
    """A bundled WAV as PCM; `name` as in `find_bundled_voice`. Raises InvalidInput."""
    file = find_bundled_voice(assets, name, default, field)
    return decode_wav(file.read_bytes(), field, max_s)


def find_bundled_voice(assets: Path, name: str, default: str, field: str) -> Path:
    """The file that a path names, with or without a leading `assets/`. Raises InvalidInput.

    Paths and links that lead outside of the assets folder are not found.
    """
    relative = PurePosixPath(name)
    if relative.parts[:1] == ("assets",):
        relative = relative.relative_to("assets")
    found = _file_below(assets, relative)
    if found is None and relative == PurePosixPath(_FOLDER, DOCUMENTED_VOICE):
        found = _file_below(assets, PurePosixPath(_FOLDER, default))
    if found is None:
        raise InvalidInput(f"{field}: no such reference voice on this server", field=field)
    return found


async def decode_voice(media: Media | None, field: str, max_s: float) -> bytes:
    """See `read_voice`; no voice becomes ''. Raises InvalidInput."""
    return await asyncio.to_thread(read_voice, media, field, max_s) if media else b""


def read_voice(media: Media, field: str, max_s: float) -> bytes:
    """A WAV of any rate and width, or PCM at 16 kHz. Raises InvalidInput."""
    voice = read_media(media, field)
    if is_wav(voice.data):
        return decode_wav(voice.data, field, max_s)
    return as_float32(read_audio(voice, field, max_s))


def decode_wav(data: bytes, field: str, max_s: float) -> bytes:
    """One WAV as PCM. Raises InvalidInput.

    Checks the header before it decodes, and never decodes more than `max_s`.
    """
    try:
        sound = open_wav(data)
    except UnreadableWav as error:
        text = f"{field}: the file cannot be read as WAV: {error}"
        raise InvalidInput(text, field=field) from None
    _check_header(sound, field, max_s)
    mono = sound.mono()
    check_peak(mono, field)
    return float_bytes(soxr.resample(mono, sound.rate, INPUT_RATE))


async def _load_uploaded(
    uploaded: UploadedVoices, voice_id: str, field: str, max_s: float
) -> bytes:
    pcm = await uploaded(voice_id) if voice_id.isalnum() and voice_id.isascii() else None
    if pcm is None:
        raise InvalidInput(f"{field}: no such uploaded voice", field=field)
    voice = MediaBytes(pcm, PcmFormat.S16)
    return as_float32(read_audio(voice, field, max_s))


def _bundled_info(file: Path) -> VoiceInfo:
    """Raises UnreadableWav, or OSError."""
    sound = open_wav(file.read_bytes())
    return VoiceInfo(
        id=file.stem,
        name=file.stem.replace("_", " ").capitalize(),
        filename=file.name,
        source_type="shipped",
        duration_ms=round(sound.frames / sound.rate * 1000),
        sample_rate=INPUT_RATE,
        created_at=datetime.fromtimestamp(file.stat().st_mtime, tz=UTC),
        path=f"assets/{_FOLDER}/{file.name}",
    )


def _check_header(sound: WavSound, field: str, max_s: float) -> None:
    if sound.channels > _MAX_CHANNELS:
        text = f"{field}: {sound.channels} channels cannot be used, at most {_MAX_CHANNELS}"
        raise InvalidInput(text, field=field)
    if sound.frames > max_s * sound.rate:
        raise InvalidInput(f"{field}: longer than {max_s:g} s", field=field)
    decoded = sound.frames * sound.channels * np.dtype(np.float32).itemsize
    if decoded > _MAX_DECODED_BYTES:
        shape = f"{sound.frames / sound.rate:g} s of {sound.channels} channels"
        text = f"{field}: {shape} at {sound.rate} Hz decode to {decoded} bytes"
        remedy = f"the limit is {_MAX_DECODED_BYTES}: use one channel at {INPUT_RATE} Hz"
        raise InvalidInput(f"{text}, {remedy}", field=field)


def _file_below(assets: Path, relative: PurePosixPath) -> Path | None:
    root = assets.resolve()
    try:
        path = (root / relative).resolve()
        return path if path.is_relative_to(root) and path.is_file() else None
    except (ValueError, OSError):  # NUL bytes, or a name that is too long
        return None
