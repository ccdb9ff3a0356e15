"""Recorded voices, brought to the form that engines take: float32 mono PCM at 16 kHz."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import numpy as np
import soundfile
import soxr

from antiphon.edge.media import as_float32, check_audio, read_media
from antiphon.shared_schemas.audio import INPUT_RATE, float_bytes
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.media import Media

_FORMATS = ("WAV", "WAVEX")
_ENCODINGS = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")
_RATES = range(4_000, 384_001)
_MAX_CHANNELS = 8
_MAGIC = (b"RIFF", b"RIFX", b"RF64")


async def decode_voice(media: Media | None, field: str, max_s: float) -> bytes:
    """A WAV of any rate and width, or PCM at 16 kHz; none is empty. Raises InvalidInput."""
    return await asyncio.to_thread(read_voice, media, field, max_s) if media else b""


def read_voice(media: Media, field: str, max_s: float) -> bytes:
    """The same for one that is given; blocks, so call it in a thread. Raises InvalidInput."""
    voice = read_media(media, field)
    if voice.data[:4] in _MAGIC and voice.data[8:12] == b"WAVE":
        return read_wav(io.BytesIO(voice.data), field, max_s)
    check_audio(voice, field, max_s)
    return as_float32(voice)


def read_wav(source: Path | io.BytesIO, field: str, max_s: float) -> bytes:
    """One WAV as PCM; blocks, so call it in a thread. Raises InvalidInput.

    The header is judged before anything is decoded, and never more than `max_s` is.
    """
    try:
        with soundfile.SoundFile(source) as sound:
            _check_header(sound, field, max_s)
            rate = sound.samplerate
            frames = sound.read(int(max_s * rate), dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError):
        raise InvalidInput(f"{field}: the file cannot be read as WAV", field=field) from None
    mono = frames.mean(axis=1, dtype=np.float32)
    if not len(mono):
        raise InvalidInput(f"{field}: holds no samples", field=field)
    if not np.isfinite(mono).all():
        raise InvalidInput(f"{field}: holds NaN or infinite samples", field=field)
    return float_bytes(soxr.resample(mono, rate, INPUT_RATE))


def _check_header(sound: soundfile.SoundFile, field: str, max_s: float) -> None:
    if sound.format not in _FORMATS or sound.subtype not in _ENCODINGS:
        raise InvalidInput(f"{field}: not a WAV file with plain PCM", field=field)
    if sound.samplerate not in _RATES or sound.channels > _MAX_CHANNELS:
        text = f"{field}: {sound.channels} channels at {sound.samplerate} Hz cannot be used"
        raise InvalidInput(text, field=field)
    if sound.frames > max_s * sound.samplerate:
        raise InvalidInput(f"{field}: longer than {max_s:g} s", field=field)
