"""Audio, images and videos of client messages: decoded and checked against limits."""

from __future__ import annotations

import numpy as np
import pybase64

from antiphon.edge.media.file_types import HEAD_BYTES, image_size, is_video
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    PcmFormat,
    Samples,
    float_bytes,
    samples_from_bytes,
)
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.media import Media, Raw

MAX_PEAK = 8.0
"""Largest float32 sample; full scale is 1. 16-bit numbers and other data have far larger ones."""

_TEXT = bytes([*b"\t\n\r", *range(0x20, 0x7F)])
_MIN_TEXT_BYTES = 64
"""Sound of this length has other bytes than those of text: zeros, or the sign of a negative sample."""

_USE_UNIT_SCALE = ": use values between -1 and 1"
_SAMPLE_NAMES = {PcmFormat.F32: "float32", PcmFormat.S16: "16-bit"}


def read_media(media: Media, field: str) -> Raw:
    """Media as bytes, from a binary frame or strict base64. Raises InvalidInput."""
    if isinstance(media, Raw):
        return media
    try:
        return Raw(pybase64.b64decode(media, validate=True))
    except ValueError:
        raise InvalidInput(f"{field}: not valid base64", field=field) from None


def read_audio(media: Media, field: str, max_s: float, *, min_samples: int = 1) -> Raw:
    """PCM at 16 kHz, at most `max_s` long. Raises InvalidInput."""
    audio = read_media(media, field)
    check_audio(audio, field, max_s, min_samples=min_samples)
    return audio


def as_float32(audio: Raw) -> bytes:
    """Checked audio as float32 PCM."""
    if audio.pcm is PcmFormat.F32:
        return audio.data
    return float_bytes(samples_from_bytes(audio.data, audio.pcm))


def check_audio(audio: Raw, field: str, max_s: float, *, min_samples: int = 1) -> None:
    """PCM at 16 kHz: whole samples, no larger than MAX_PEAK, not too short, not too long.

    Raises InvalidInput.
    """
    data, width = audio.data, audio.pcm.width
    if not data:
        raise InvalidInput(f"{field}: holds no samples", field=field)
    if len(data) % width:
        text = f"{field}: {len(data)} bytes is not a whole number of {_SAMPLE_NAMES[audio.pcm]} samples"
        raise InvalidInput(text, field=field)
    samples = len(data) // width
    if samples < min_samples:
        raise InvalidInput(f"{field}: {samples} samples, at least {min_samples}", field=field)
    if samples > max_s * INPUT_RATE:
        limit = int(max_s * INPUT_RATE)
        raise InvalidInput(f"{field}: {samples} samples, the limit is {limit}", field=field)
    head = data[:_MIN_TEXT_BYTES]
    is_text = not head.translate(None, _TEXT) and not data.translate(None, _TEXT)
    if is_text and len(data) >= _MIN_TEXT_BYTES:
        text = f"{field}: text is not {_SAMPLE_NAMES[audio.pcm]} audio"
        if audio.pcm is PcmFormat.F32:
            text += _USE_UNIT_SCALE
        raise InvalidInput(text, field=field)
    if audio.pcm is PcmFormat.F32:
        check_peak(np.frombuffer(data, dtype="<f4"), field)


def check_peak(samples: Samples, field: str) -> None:
    """Raises InvalidInput for samples that are not sound: NaN, infinite, or beyond MAX_PEAK."""
    if samples.min() >= -MAX_PEAK and samples.max() <= MAX_PEAK:  # false for NaN
        return
    if not np.isfinite(samples).all():
        raise InvalidInput(f"{field}: holds NaN or infinite samples", field=field)
    peak = max(float(samples.max()), -float(samples.min()))
    text = f"{field}: a sample of {peak:g} is not float32 audio{_USE_UNIT_SCALE}"
    raise InvalidInput(text, field=field)


def read_image(media: Media, field: str, *, max_bytes: int, max_pixels: int) -> bytes:
    """A JPEG, PNG or WebP within the limits; reads its header only. Raises InvalidInput."""
    data = read_media(media, field).data
    _check_bytes(data, field, max_bytes)
    width, height = _image_size(data, field)
    if width * height > max_pixels:
        raise InvalidInput(
            f"{field}: {width}x{height} pixels, the limit is {max_pixels}", field=field
        )
    return data


def read_video(media: Media, field: str, max_bytes: int) -> bytes:
    """An MP4, MOV or WebM file; reads its first bytes only. Raises InvalidInput."""
    data = read_media(media, field).data
    _check_bytes(data, field, max_bytes)
    if not is_video(data[:HEAD_BYTES]):
        raise InvalidInput(f"{field}: only MP4, MOV and WebM videos are accepted", field=field)
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
        size = image_size(data)
    except ValueError:
        raise InvalidInput(f"{field}: the image cannot be read", field=field) from None
    if size is None:
        raise InvalidInput(f"{field}: only JPEG, PNG and WebP images are accepted", field=field)
    return size
