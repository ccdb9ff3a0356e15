"""Sound, pictures and videos of a message, checked before anything behind the edge sees them."""

from __future__ import annotations

import numpy as np
import pybase64

from antiphon.edge.picture_header import picture_size
from antiphon.shared_schemas.audio import INPUT_RATE, PcmFormat, float_bytes, samples_from_bytes
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.media import Media, Raw

_SAMPLES = {PcmFormat.F32: "float32", PcmFormat.S16: "16-bit"}

_MP4_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")
"""What an MP4 or MOV file may begin with."""

_EBML = b"\x1a\x45\xdf\xa3"
_EBML_HEAD = 64
"""A WebM file names itself within its first bytes."""


def decode_base64(text: str, field: str) -> bytes:
    """Strict base64: no line breaks, no other alphabet. Raises InvalidInput."""
    try:
        return pybase64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidInput(f"{field}: not valid base64", field=field) from None


def read_media(media: Media, field: str) -> Raw:
    """Media as bytes, however they came. Raises InvalidInput."""
    return media if isinstance(media, Raw) else Raw(decode_base64(media, field))


def read_audio(media: Media, field: str, max_s: float, *, min_samples: int = 1) -> Raw:
    """PCM at 16 kHz, at most `max_s` long. Raises InvalidInput."""
    sound = read_media(media, field)
    check_audio(sound, field, max_s, min_samples=min_samples)
    return sound


def as_float32(sound: Raw) -> bytes:
    """Checked sound as float32 PCM."""
    if sound.pcm is PcmFormat.F32:
        return sound.data
    return float_bytes(samples_from_bytes(sound.data, sound.pcm))


def check_audio(sound: Raw, field: str, max_s: float, *, min_samples: int = 1) -> None:
    """PCM at 16 kHz: whole samples, finite, not too short, not too long. Raises InvalidInput."""
    data, width = sound.data, sound.pcm.width
    if not data:
        raise InvalidInput(f"{field}: holds no samples", field=field)
    if len(data) % width:
        text = f"{field}: {len(data)} bytes is not a whole number of {_SAMPLES[sound.pcm]} samples"
        raise InvalidInput(text, field=field)
    samples = len(data) // width
    if samples < min_samples:
        raise InvalidInput(f"{field}: {samples} samples, at least {min_samples}", field=field)
    if samples > max_s * INPUT_RATE:
        limit = int(max_s * INPUT_RATE)
        raise InvalidInput(f"{field}: {samples} samples, the limit is {limit}", field=field)
    if sound.pcm is PcmFormat.F32 and not np.isfinite(np.frombuffer(data, dtype="<f4")).all():
        raise InvalidInput(f"{field}: holds NaN or infinite samples", field=field)


def read_image(media: Media, field: str, *, max_bytes: int, max_pixels: int) -> bytes:
    """A JPEG, PNG or WebP within the limits, judged by its header. Raises InvalidInput."""
    data = read_media(media, field).data
    _check_bytes(data, field, max_bytes)
    width, height = _image_size(data, field)
    if width * height > max_pixels:
        raise InvalidInput(
            f"{field}: {width}x{height} pixels, the limit is {max_pixels}", field=field
        )
    return data


def read_video(media: Media, field: str, max_bytes: int) -> bytes:
    """An MP4, MOV or WebM file, judged by its first bytes. Raises InvalidInput."""
    data = read_media(media, field).data
    _check_bytes(data, field, max_bytes)
    if not (data[4:8] in _MP4_BOXES or (data.startswith(_EBML) and b"webm" in data[:_EBML_HEAD])):
        raise InvalidInput(f"{field}: only MP4, MOV and WebM videos are taken", field=field)
    return data


def _check_bytes(data: bytes, field: str, max_bytes: int) -> None:
    if len(data) > max_bytes:
        raise InvalidInput(
            f"{field}: {len(data)} bytes, the limit is {max_bytes}",
            field=field,
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )


def _image_size(data: bytes, field: str) -> tuple[int, int]:
    try:
        size = picture_size(data)
    except ValueError:
        raise InvalidInput(f"{field}: the image cannot be read", field=field) from None
    if size is None:
        raise InvalidInput(f"{field}: only JPEG, PNG and WebP images are taken", field=field)
    return size
