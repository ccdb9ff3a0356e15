"""Frames of clients and the audio, images and videos in them: decoded and checked against limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import orjson
import pybase64

from antiphon.edge.access.limits import InputBudget
from antiphon.edge.json_text import ClientFrame, Utf8Text, load_json
from antiphon.edge.media.file_types import HEAD_BYTES, image_size, is_video
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    PcmFormat,
    Samples,
    float_bytes,
    samples_from_bytes,
)
from antiphon.shared_schemas.entries import ChunkIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.long_bytes import PIECE_BYTES, pieces
from antiphon.shared_schemas.wire import Media, MediaBytes, Payload, split_frame

MAX_PEAK = 8.0
"""Largest float32 sample; full scale is 1. 16-bit numbers and other data have far larger ones."""

_TEXT = bytes([*b"\t\n\r", *range(0x20, 0x7F)])
_MIN_TEXT_BYTES = 64
"""Sound of this length has other bytes than those of text: zeros, or the sign of a negative sample."""

_LONGEST_ESCAPE = len(r"\u002b")
_BASE64_GROUP = 4

_USE_UNIT_SCALE = ": use values between -1 and 1"
_SAMPLE_NAMES = {PcmFormat.F32: "float32", PcmFormat.S16: "16-bit"}


def read_media(media: Media, field: str) -> MediaBytes:
    """Media as bytes, from a binary frame or strict base64. Raises InvalidInput."""
    if isinstance(media, MediaBytes):
        return media
    try:
        if isinstance(media, str):
            return MediaBytes(pybase64.b64decode(media, validate=True))
        if len(media.data) <= PIECE_BYTES:
            with suppress(ValueError):  # it may have escape sequences
                return MediaBytes(pybase64.b64decode(media.data, validate=True))
        return MediaBytes(b"".join(list(_decode_pieces(media.data))))
    except ValueError:
        raise InvalidInput(f"{field}: not valid base64", field=field) from None


def _decode_pieces(text: memoryview) -> Iterator[bytes]:
    """Raises ValueError if the pieces are not strict base64 together."""
    ended, rest = False, b""
    for plain in _unescape_pieces(text):
        if ended:
            raise ValueError("padding before the end")
        rest += plain
        size = len(rest) - len(rest) % _BASE64_GROUP
        group, rest = rest[:size], rest[size:]
        decoded = pybase64.b64decode(group, validate=True)
        ended = len(decoded) * _BASE64_GROUP < size * 3
        yield decoded
    if rest:
        raise ValueError("incomplete at the end")


def _unescape_pieces(text: memoryview) -> Iterator[bytes]:
    """The text, ASCII only. Some encoders of JSON escape the characters / and + of base64."""
    rest = b""
    for piece in pieces(text):
        rest += piece
        cut = rest.rfind(b"\\", max(0, len(rest) - _LONGEST_ESCAPE))
        whole = rest if cut < 0 else rest[:cut]
        yield _unescape(whole)
        rest = rest[len(whole) :]
    if rest:
        yield _unescape(rest)


def _unescape(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    unescaped: str = orjson.loads(b'"' + text + b'"')
    return unescaped.encode("ascii")


def read_audio(media: Media, field: str, max_s: float, *, min_samples: int = 1) -> MediaBytes:
    """PCM at 16 kHz: whole samples, no larger than MAX_PEAK, not too short, not too long.

    Raises InvalidInput.
    """
    audio = read_media(media, field)
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
    is_text = not head.translate(None, _TEXT) and not any(
        piece.translate(None, _TEXT) for piece in pieces(data)
    )
    if is_text and len(data) >= _MIN_TEXT_BYTES:
        text = f"{field}: text is not {_SAMPLE_NAMES[audio.pcm]} audio"
        if audio.pcm is PcmFormat.F32:
            text += _USE_UNIT_SCALE
        raise InvalidInput(text, field=field)
    if audio.pcm is PcmFormat.F32:
        check_peak(np.frombuffer(data, dtype="<f4"), field)
    return audio


def as_float32(audio: MediaBytes) -> bytes:
    """Checked audio as float32 PCM."""
    if audio.pcm is PcmFormat.F32:
        return audio.data
    return float_bytes(samples_from_bytes(audio.data, audio.pcm))


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


def decode_frame(
    frame: ClientFrame, max_bytes: int, charge: Callable[[int], None] | None = None
) -> tuple[object, Payload | None]:
    """One frame's JSON value, and the payload of a binary frame.

    `charge` is called with the cost of parsing, in bytes, before the text is parsed.
    Raises NotJson, or InvalidInput for a frame that is too long, too complex or truncated.
    """
    data = frame.data if isinstance(frame, Utf8Text) else frame
    size = len(data)
    if size > max_bytes:
        raise too_large(size, max_bytes)
    if isinstance(frame, bytes | bytearray):
        header, payload = split_frame(frame)
        return load_json(header, size, charge), payload
    return load_json(data, size, charge), None


def too_large(size: int, max_bytes: int) -> InvalidInput:
    return InvalidInput(
        f"message of {size} bytes, the limit is {max_bytes}",
        code=ErrorCode.MESSAGE_TOO_LARGE,
    )


class InputReader:
    """The frames and media of one client, checked and charged to its input budget.

    Checks run in this order: size, budget, JSON, fields, media, pace. Every method raises
    InvalidInput with the name of the field.
    """

    def __init__(self, settings: EdgeSettings) -> None:
        self._settings = settings
        self._budget = InputBudget(
            settings.input_ahead_s,
            settings.input_messages_per_s,
            settings.input_bytes_per_s,
            settings.max_message_bytes,
        )
        self.charge_message = self._budget.charge_message
        self.read_frame = partial(
            decode_frame, max_bytes=settings.max_message_bytes, charge=self._budget.charge_bytes
        )

    def read_chunk(
        self,
        audio: Media,
        field: str,
        images: Sequence[Media] | None = None,
        images_field: str = "",
        *,
        min_samples: int = 1,
        force_listen: bool = False,
        max_slice_nums: int | None = None,
    ) -> ChunkIn:
        """One chunk of microphone audio, in the format it was sent in, with its camera frames.

        The duration of the audio is charged once everything else is valid.
        """
        raw = read_audio(audio, field, self._settings.max_chunk_s, min_samples=min_samples)
        seconds = len(raw.data) / (raw.pcm.width * INPUT_RATE)
        self._budget.charge_chunk(seconds, len(images or ()))
        frames = tuple(
            self.read_image(image, f"{images_field}.{index}")
            for index, image in enumerate(images or ())
        )
        self._budget.charge_audio(seconds, field)
        return ChunkIn(
            audio=raw.data,
            pcm=raw.pcm,
            frames=frames,
            force_listen=force_listen,
            max_slice_nums=max_slice_nums,
        )

    def read_image(self, media: Media, field: str) -> bytes:
        """One camera frame."""
        limits = self._settings
        return read_image(
            media, field, max_bytes=limits.max_frame_bytes, max_pixels=limits.max_frame_pixels
        )

    def read_reference(self, media: Media | None, field: str) -> bytes:
        """A reference voice as float32 PCM; empty if there is none."""
        if not media:
            return b""
        return as_float32(read_audio(media, field, self._settings.max_reference_s))
