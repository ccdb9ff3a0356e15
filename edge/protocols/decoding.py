"""Decoding of frames: size, binary header and JSON of one frame, and the media of a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from antiphon.edge.access.limits import InputBudget
from antiphon.edge.json_text import ClientFrame, load_json
from antiphon.edge.media.decode import as_float32, read_audio, read_image
from antiphon.edge.settings import EdgeSettings
from antiphon.shared_schemas.audio import INPUT_RATE
from antiphon.shared_schemas.entries import ChunkIn
from antiphon.shared_schemas.errors import ErrorCode, InvalidInput
from antiphon.shared_schemas.media import Media, Payload, split_frame


def decode_frame(
    frame: ClientFrame, max_bytes: int, charge: Callable[[int], None] | None = None
) -> tuple[object, Payload | None]:
    """One frame's JSON value, and the payload of a binary frame.

    `charge` is called with the cost of parsing, in bytes, before the text is parsed.
    Raises NotJson, or InvalidInput for a frame that is too long, too complex or truncated.
    """
    if len(frame) > max_bytes:
        raise too_large(len(frame), max_bytes)
    if isinstance(frame, bytes):
        text, payload = split_frame(frame)
        return load_json(text, len(frame), charge), payload
    return load_json(frame if isinstance(frame, str) else frame.data, len(frame), charge), None


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
        frames = tuple(
            self.read_image(image, f"{images_field}.{index}")
            for index, image in enumerate(images or ())
        )
        self._budget.charge_audio(len(raw.data) / (raw.pcm.width * INPUT_RATE), field)
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
