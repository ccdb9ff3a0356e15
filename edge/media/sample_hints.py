"""What was sent instead of PCM at 16 kHz: the message of an error says it, and what to send."""

from typing import Any

import numpy as np
import pybase64
from numpy.typing import NDArray

from antiphon.shared_schemas.audio import PcmFormat, Samples
from antiphon.shared_schemas.errors import InvalidInput
from antiphon.shared_schemas.file_kinds import file_kind

_LOOK_AT_BYTES = 32_768
"""The beginning of the sound, which has enough samples to tell."""
MAX_PEAK = 8.0
"""Largest float32 sample; full scale is 1. 16-bit numbers and other data have far larger ones."""
USE_UNIT_SCALE = ": use values between -1 and 1"
_LOUDEST_16_BITS = 32768.0
_AUDIBLE = 1e-6
_SPREAD = 64
"""Samples all over the sound that are looked at first."""
_UPPER_HALF = 0x33D7, 0x3F80
"""Of the floats 1e-7 and 1, without the sign."""
_TOP_BYTES = bytes([0, 0x80, *range(0x33, 0x40), *range(0xB3, 0xC0)])
"""The highest bytes of floats within -1 and 1, and of zero."""
_SMOOTH = 1.0
"""Speech changes from sample to sample by less than its level; noise, or other data, by 1.2 times of it."""


def check_peak(samples: Samples, field: str) -> None:
    """Raises InvalidInput for samples that are not sound: NaN, infinite, or beyond MAX_PEAK."""
    if samples.min() >= -MAX_PEAK and samples.max() <= MAX_PEAK:  # false for NaN
        return
    hint = name_samples(samples[: _LOOK_AT_BYTES // PcmFormat.F32.width].tobytes())
    if not np.isfinite(samples).all():
        text = f"{field}: holds NaN or infinite samples{hint}"
        raise InvalidInput(text, field=field)
    peak = max(float(samples.max()), -float(samples.min()))
    text = f"{field}: a sample of {peak:g} is not float32 audio{hint or USE_UNIT_SCALE}"
    raise InvalidInput(text, field=field)


def name_samples(data: bytes) -> str:
    """What samples these are that are not float32, after a semicolon; '' if it is not clear."""
    data = data[:_LOOK_AT_BYTES]
    floats = np.frombuffer(data[: len(data) // 4 * 4], "<f4")
    if _peak(floats) <= _LOUDEST_16_BITS:
        return ""  # float32, on another scale
    eighths = data[: len(data) // 8 * 8]
    if _is_sound(np.frombuffer(eighths, "<f8")):
        return "; these are samples of float64: convert them to float32"
    if _is_sound(np.frombuffer(data[: len(data) // 4 * 4], ">f4")):
        return "; these are big-endian samples: convert them to little-endian"
    if _is_smooth(np.frombuffer(data, np.uint8).astype(np.int16) - 128):
        return "; these are 8-bit samples: use (samples - 128) / 128"
    if _is_smooth(np.frombuffer(data[: len(data) // 2 * 2], "<i2")):
        return "; these are 16-bit samples: divide them by 32768"
    if _is_smooth(np.frombuffer(data[: len(data) // 4 * 4], "<i4")):
        return "; these are 32-bit integers: divide them by 2147483648"
    return ""


def is_float32(data: bytes) -> bool:
    """True if samples that were sent as 16-bit are float32 instead.

    The upper half of each float within -1 and 1 is a 16-bit number in one of two ranges that are not
    symmetrical, so no sound with both signs is in them all the time.
    """
    step = PcmFormat.F32.width * max(1, len(data) // (PcmFormat.F32.width * _SPREAD))
    tops = data[PcmFormat.F32.width - 1 :: step]
    if tops.translate(None, _TOP_BYTES) or not tops.strip(b"\0") or len(data) % PcmFormat.F32.width:
        return False
    upper = np.frombuffer(data, "<i2")[1::2]
    size = upper & 0x7FFF
    floats = (size >= _UPPER_HALF[0]) & (size <= _UPPER_HALF[1]) | (size == 0)
    return bool(floats.all() and (upper > 0).any() and (upper < 0).any())


def is_base64(data: bytes) -> bool:
    """True for text that is the base64 of a file, or of float32 samples."""
    text = data[:_LOOK_AT_BYTES].translate(None, b"\r\n")
    try:
        decoded = pybase64.b64decode(text[: len(text) // 16 * 16], validate=True)
    except ValueError:
        return False
    return file_kind(decoded) is not None or _peak(np.frombuffer(decoded, "<f4")) <= MAX_PEAK


def _peak(samples: NDArray[Any]) -> float:
    """Infinite if a sample is no number."""
    with np.errstate(invalid="ignore"):
        size = np.abs(samples.astype(np.float64))
    return float(size.max(initial=0)) if np.isfinite(size).all() else np.inf


def _is_sound(samples: NDArray[Any]) -> bool:
    return _AUDIBLE < _peak(samples) <= MAX_PEAK


def _is_smooth(samples: NDArray[Any]) -> bool:
    values = samples.astype(np.float64)
    level = float(np.abs(values).sum())
    return level > 0 and float(np.abs(np.diff(values)).sum()) < _SMOOTH * level
