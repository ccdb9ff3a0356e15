"""Frames of clients and the audio, images and videos in them: decoded and checked against limits."""

from collections.abc import Callable, Sequence

import numpy as np

from antiphon.edge.access.limits import InputBudget
from antiphon.edge.json_text import ClientFrame, Utf8Text, load_json
from antiphon.edge.media.audio_formats import AudioFormat
from antiphon.edge.media.base64_text import decode_base64
from antiphon.edge.media.file_types import HEAD_BYTES, image_size, is_cut_off, is_video
from antiphon.edge.media.sample_hints import USE_UNIT_SCALE, check_peak, is_base64, is_float32
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import (
    INPUT_RATE,
    PcmFormat,
    float_bytes,
    samples_from_bytes,
)
from antiphon.shared_schemas.entries import ChunkIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.file_kinds import TEXT_BYTES, file_kind
from antiphon.shared_schemas.long_bytes import pieces
from antiphon.shared_schemas.wire import Media, MediaBytes, Payload, split_frame

_MIN_TEXT_BYTES = 64
"""Sound of this length has other bytes than those of text: zeros, or the sign of a negative sample."""

_SAMPLE_NAMES = {PcmFormat.F32: "float32", PcmFormat.S16: "16-bit"}


def read_media(media: Media, field: str) -> MediaBytes:
    """Media as bytes, from a binary frame or base64. Raises InvalidInput."""
    if isinstance(media, MediaBytes):
        return media
    return MediaBytes(decode_base64(media, field))


def read_audio(media: Media, field: str, max_s: float, *, min_samples: int = 1) -> MediaBytes:
    """PCM at 16 kHz: whole samples, no larger than MAX_PEAK, not too short, not too long.

    Raises InvalidInput.
    """
    audio = read_media(media, field)
    data, width = audio.data, audio.pcm.width
    if not data:
        raise InvalidInput(f"{field}: holds no samples", field=field)
    if kind := file_kind(data):
        text = f"{field}: this is {kind}: send its samples as float32 PCM at 16 kHz"
        raise InvalidInput(text, field=field)
    _refuse_text(audio, field)
    if len(data) % width:
        text = f"{field}: {len(data)} bytes is not a whole number of {_SAMPLE_NAMES[audio.pcm]} samples"
        raise InvalidInput(text, field=field)
    samples = len(data) // width
    if samples < min_samples:
        raise InvalidInput(f"{field}: {samples} samples, at least {min_samples}", field=field)
    if samples > max_s * INPUT_RATE:
        limit = int(max_s * INPUT_RATE)
        raise InvalidInput(f"{field}: {samples} samples, the limit is {limit}", field=field)
    if audio.pcm is PcmFormat.F32:
        check_peak(np.frombuffer(data, dtype="<f4"), field)
    elif is_float32(data):
        text = f"{field}: these are samples of float32, sent as `s16`: set `format` to `f32`"
        raise InvalidInput(text, field=field)
    return audio


def read_sound(media: Media, field: str, sound_format: AudioFormat) -> bytes:
    """Whole samples in a format of OpenAI's voice APIs, of any length. Raises InvalidInput."""
    data = read_media(media, field).data
    if kind := file_kind(data):
        raise InvalidInput(f"{field}: this is {kind}: send {sound_format}", field=field)
    if len(data) % sound_format.width:
        text = f"{field}: {len(data)} bytes is not a whole number of samples ({sound_format})"
        raise InvalidInput(text, field=field)
    if sound_format.width > 1 and is_float32(data):
        text = f"{field}: these are samples of float32: send {sound_format}"
        raise InvalidInput(text, field=field)
    return data


def _refuse_text(audio: MediaBytes, field: str) -> None:
    """Raises InvalidInput. Text does not begin with a zero, or with the sign of a negative sample."""
    data = audio.data
    if data[:_MIN_TEXT_BYTES].translate(None, TEXT_BYTES) or len(data) < _MIN_TEXT_BYTES:
        return
    if any(piece.translate(None, TEXT_BYTES) for piece in pieces(data)):
        return
    text = f"{field}: text is not {_SAMPLE_NAMES[audio.pcm]} audio"
    if is_base64(data):
        text += "; this is base64 of base64: encode the sound once"
    elif audio.pcm is PcmFormat.F32:
        text += USE_UNIT_SCALE
    raise InvalidInput(text, field=field)


def as_float32(audio: MediaBytes) -> bytes:
    """Checked audio as float32 PCM."""
    if audio.pcm is PcmFormat.F32:
        return audio.data
    return float_bytes(samples_from_bytes(audio.data, audio.pcm))


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


def check_complete(data: bytes, field: str) -> None:
    """Raises InvalidInput for an image of `read_image` without its end."""
    if is_cut_off(data):
        raise InvalidInput(f"{field}: the end of the image is missing", field=field)


def read_video(media: Media, field: str, max_bytes: int) -> bytes:
    """An MP4, MOV or WebM file; reads its first bytes only. Raises InvalidInput."""
    data = read_media(media, field).data
    _check_bytes(data, field, max_bytes)
    if not is_video(data[:HEAD_BYTES]):
        raise _other_file(f"{field}: only MP4, MOV and WebM videos are accepted", data, field)
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
    except ValueError as error:
        raise InvalidInput(f"{field}: the image cannot be read: {error}", field=field) from None
    if size is None:
        raise _other_file(f"{field}: only JPEG, PNG and WebP images are accepted", data, field)
    return size


def _other_file(text: str, data: bytes, field: str) -> InvalidInput:
    kind = file_kind(data)
    return InvalidInput(f"{text}, this is {kind}" if kind else text, field=field)


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

    def __init__(
        self, settings: EdgeSettings, ahead_s: float | None = None, history: float = 0.0
    ) -> None:
        """`ahead_s` replaces the setting; `history` is that of InputBudget."""
        self._settings = settings
        self.budget = InputBudget(
            settings.input_ahead_s if ahead_s is None else ahead_s,
            settings.input_messages_per_s,
            settings.input_bytes_per_s,
            settings.max_message_bytes,
            history=history,
        )
        """What has no sound is charged here."""

    def charge_sound(self, seconds: float, field: str) -> None:
        """Charge sound that is decoded elsewhere. Raises InvalidInput if it is ahead of real time."""
        self.budget.charge_chunk(seconds, 0)
        self.budget.charge_audio(seconds, field)

    def read_frame(self, frame: ClientFrame) -> tuple[object, Payload | None]:
        """The message in a frame, and its payload. Raises InvalidInput."""
        most, charge = self._settings.max_message_bytes, self.budget.charge_bytes
        return decode_frame(frame, max_bytes=most, charge=charge)

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
        self.budget.charge_chunk(seconds, len(images or ()))
        frames = tuple(
            self.read_image(image, f"{images_field}.{index}")
            for index, image in enumerate(images or ())
        )
        self.budget.charge_audio(seconds, field)
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
